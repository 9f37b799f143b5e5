"""Logs of nodes that have ended: a directory per cluster, with one directory per node, which appears complete when the node has
ended. Its name is the node's: `<instance id>-<generation>`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.node import Role
from brickyard.domain.nodeops import LogFile, LogPiece, ReadLog
from brickyard.domain.redaction import Redactor
from brickyard.logs.keep import DELIVERY, EVENTS, RECORD, KeptNode, read_record
from brickyard.logs.logfiles import KeptFile, LogDirectory
from brickyard.machine import files


class KeptLogs:
    """Methods block. A log that vanishes during a call counts as absent.

    An agent that is killed leaves its logs as they are. They are read only once its secrets have been hidden in them, and count
    as absent if that is impossible."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._unseal: Callable[[Sequence[str]], Iterable[str]] | None = None

    def unseal_with(self, unseal: Callable[[Sequence[str]], Iterable[str]]) -> None:
        """Sets how to learn what must be hidden (`storage/sealer.py:Sealer.open`)."""
        self._unseal = unseal

    def of(self, cluster_id: str) -> Path:
        """The directory of the logs of a cluster's nodes."""
        return self.root / Path(cluster_id).name

    def nodes(self, cluster_id: str) -> list[Path]:
        """The directories of a cluster's nodes, last ended first."""
        return _newest_first(self.of(cluster_id))

    def tail(self, cluster_id: str, name: re.Pattern[str], limit: int) -> bytes | None:
        """The end of the newest log with such a name, or None if there is none."""
        for directory in self.nodes(cluster_id):
            for found in (each for each, _ in files.list_files(directory) if name.fullmatch(each)):
                with contextlib.suppress(OSError, ValueError):
                    self._hide_secrets(directory)
                    return files.read_tail(directory, found, limit)
        return None

    def has(self, cluster_id: str, node: str) -> bool:
        """Whether the logs of that node are here."""
        return (self.of(cluster_id) / Path(node).name).is_dir()

    def files(self, cluster_id: str, node: str) -> tuple[Role | None, list[LogFile]]:
        """The role of a node, if it is known, and its logs. Sizes count what was left out at the beginning of a log."""
        directory = self.of(cluster_id) / Path(node).name
        record = read_record(directory)
        listed = [(name, size) for name, size in files.list_files(directory) if not name.startswith(".")]
        starts = {name: kept.start for name, kept in record.files.items()}
        return record.role, [LogFile(name=name, size=size + starts.get(name, 0)) for name, size in listed]

    def read(self, cluster_id: str, node: str, asked: ReadLog) -> LogPiece:
        """Reads from a log of a node. Raises OSError if there is none, and ValueError."""
        directory = self.of(cluster_id) / Path(node).name
        return self.directory(directory).read(asked.name, offset=asked.offset, position=asked.position, limit=asked.limit)

    def undelivered(self) -> list[Path]:
        """The records of deliveries that are not complete (`logs/delivery.py`)."""
        nodes = [node for cluster in directories(self.root) for node in directories(cluster) if not node.name.startswith(".")]
        return [node / DELIVERY for node in nodes if (node / DELIVERY).exists()]

    def directory(self, node: Path) -> LogDirectory:
        """The logs in a directory of a node. Raises OSError and ValueError if its secrets cannot be hidden."""
        return LogDirectory(node, self._hide_secrets(node).files)

    def _hide_secrets(self, node: Path) -> KeptNode:
        """Hides what the node's agent could no longer hide. Returns the record. It may be cut off anywhere and repeated, also by
        several servers at once: each file is replaced whole, and the record last."""
        record = read_record(node)
        if not record.sealed:
            return record
        if self._unseal is None:
            raise ValueError("the secrets of these logs are sealed")
        redactor, kept = Redactor(self._unseal(record.sealed)), dict(record.files)
        with ageless(node):
            for name, _ in files.list_files(node):
                if name.startswith((".", EVENTS)):  # Spark hides secrets in its event logs itself
                    continue
                path = node / name
                info, data = path.stat(), path.read_bytes()
                if (hidden := redactor.data(data)) != data:
                    files.write_atomic(path, hidden)
                    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
                kept |= {name: _masked(kept[name])} if name in kept else {}
            record = msgspec.structs.replace(record, files=kept, sealed=())
            files.write_atomic(node / RECORD, msgspec.json.encode(record))
        return record

    def clusters(self) -> list[str]:
        """The ids of the clusters with kept logs."""
        return [path.name for path in directories(self.root)]

    def trim(self, cluster_id: str, *, before_s: float) -> int:
        """Removes the logs of a cluster's nodes that ended before that time; returns how many nodes there were."""
        removed = 0
        for node in directories(self.of(cluster_id)):
            with contextlib.suppress(OSError):  # it has vanished, or cannot be removed: the next call tries again
                if node.stat().st_mtime < before_s:
                    shutil.rmtree(node)
                    removed += 1
        with contextlib.suppress(OSError):
            self.of(cluster_id).rmdir()  # succeeds only if it is empty
        return removed


def _masked(kept: KeptFile) -> KeptFile:
    """The record of a log in which secrets are hidden now, maybe in its first bytes, too. Those in the record may end with a part
    of a secret."""
    return msgspec.structs.replace(kept, head=b"*" * len(kept.head), masked=True)


@contextlib.contextmanager
def ageless(node: Path) -> Iterator[None]:
    """Keeps the time of a node's directory, which says when the node ended, whatever is written into it meanwhile."""
    ended = node.stat()
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            os.utime(node, ns=(ended.st_atime_ns, ended.st_mtime_ns))


def directories(place: Path) -> list[Path]:
    """The subdirectories of a directory, without links."""
    with contextlib.suppress(OSError):
        return [path for path in place.iterdir() if path.is_dir() and not path.is_symlink()]
    return []


def _newest_first(place: Path) -> list[Path]:
    ended = {}
    for node in directories(place):
        if node.name.startswith("."):
            continue  # it is being copied
        with contextlib.suppress(OSError):
            ended[node] = node.stat().st_mtime
    return sorted(ended, key=lambda node: ended[node], reverse=True)
