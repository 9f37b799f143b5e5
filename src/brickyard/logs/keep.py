"""Keeps the logs of a node that has ended: copies them out of its directory, within limits, to where servers read them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from brickyard.domain.node import Role
from brickyard.logs.logfiles import KeptFile, describe, is_rolled
from brickyard.machine import files

MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 64 << 20
EVENTS = "eventlog/"  # Spark's event logs: kept complete or not at all
MAX_EVENTS_BYTES = 64 << 20
DELIVERY_RECORD = "delivery.json"  # in an instance's directory: how far the delivery of its logs is; absent when it is complete
DELIVERY = ".delivery.json"  # the same beside kept logs
Redact = Callable[[bytes], bytes]
RECORD = ".kept.json"  # in a directory of kept logs; without it, it was written by an older version


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """node.json of an instance: the last node that it was, for whoever cleans up after an agent that was killed."""

    cluster_id: str
    generation: int
    role: Role | None = None
    sealed: tuple[str, ...] = ()  # what must be hidden in its logs (storage/sealer.py)


class KeptNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is recorded beside the logs of a node that has ended."""

    role: Role | None = None
    files: dict[str, KeptFile] = {}
    sealed: tuple[str, ...] = ()  # what is yet to be hidden in these logs (storage/logs.py)


_decode_kept_node = msgspec.json.Decoder(KeptNode).decode


def keep_logs(source: Path, target: Path, *, redact: Redact = bytes) -> dict[str, KeptFile]:
    """Copies the end of every log below `source` to `target`, within the limits above. Best effort; returns what was kept.
    `redact` hides secrets and keeps the length."""
    kept: dict[str, KeptFile] = {}
    total = events = 0
    for name, size in _rolled_last(list(files.list_files(source))):
        whole = name.startswith(EVENTS)
        if (whole and events + size > MAX_EVENTS_BYTES) or (not whole and total >= MAX_TOTAL_BYTES):
            continue
        limit = MAX_EVENTS_BYTES if whole else min(MAX_FILE_BYTES, MAX_TOTAL_BYTES - total)
        with contextlib.suppress(OSError, ValueError):
            kept[name], taken = _keep(source, target, name, limit, bytes if whole else redact)
            events, total = (events + taken, total) if whole else (events, total + taken)
    return kept


def _rolled_last(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """What a log was before it was rolled has to make room for what was written last."""
    return sorted(found, key=lambda each: any(is_rolled(each[0], other) for other, _ in found))


def _keep(source: Path, target: Path, name: str, limit: int, redact: Redact) -> tuple[KeptFile, int]:
    fd = files.open_below(source, name)
    try:
        info = os.fstat(fd)
        start = max(0, info.st_size - limit)
        record = describe(name, fd, start=start, redact=redact)
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = os.pread(fd, limit, start)
    finally:
        os.close(fd)
    files.write_atomic(destination, redact(data))
    os.utime(destination, ns=(info.st_atime_ns, info.st_mtime_ns))  # tells the order in which logs were rolled
    return record, len(data)


def keep_node_logs(directory: Path, logs_dir: Path, *, instance_id: str, node: NodeRecord, redact: Redact = bytes) -> None:
    """Copies an instance's logs of a node to their permanent place, where they appear complete or not at all. Does nothing if
    they are there. Also used to clean up after an agent that was killed: nobody there knows the secrets to hide, so the record
    says that this is left to do (`node.sealed`)."""
    place = logs_dir / Path(node.cluster_id or "unknown").name
    name = f"{instance_id}-{node.generation}"
    target, copy = place / name, place / f".{name}"
    if target.exists():
        return
    with contextlib.suppress(OSError):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = keep_logs(directory / "node" / "logs", copy, redact=redact)
        for own in ("node.log.1", "node.log"):
            if (directory / own).exists():
                files.write_atomic(copy / own.replace("node.log", "agent.log"), files.read_tail(directory, own, MAX_FILE_BYTES))
        with contextlib.suppress(FileNotFoundError):  # a server delivers what is left (reconcile/logdelivery.py)
            files.write_atomic(copy / DELIVERY, (directory / DELIVERY_RECORD).read_bytes())
        files.write_atomic(copy / RECORD, msgspec.json.encode(KeptNode(role=node.role, files=kept, sealed=node.sealed)))
        copy.rename(target)


def read_record(directory: Path) -> KeptNode:
    """The record of a directory of kept logs; an empty one if there is none."""
    try:
        return _decode_kept_node((directory / RECORD).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return KeptNode()
