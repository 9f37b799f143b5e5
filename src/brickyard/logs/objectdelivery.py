"""Delivers a node's logs to S3, where nothing can be appended: whatever a pass finds new of a log becomes an object of its own,
whose name ends with the time.

The name is recorded before the upload, and the position after it. A pass that was cut off is repeated under the same name, so
nothing is there twice. If the beginning of what it had is there no more, because of a node that was killed only the end of large
logs is kept, it gets another name: what was uploaded stays.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from brickyard.domain.node import LogDestination
from brickyard.domain.places import Place, parse
from brickyard.logs.delivery import CHUNK, Delivered, DeliveryRecord, Progress, pieces, rolled_name, target_name
from brickyard.logs.keep import Redact
from brickyard.logs.logfiles import LogDirectory
from brickyard.logs.transfers import Job, TransferFailed, run
from brickyard.sandbox.launcher import Network

_SCRATCH = ".delivery-"  # no log begins with a dot
AT_ONCE = 16 * CHUNK  # that one upload has at most: even a slow store takes it within a pass, and the next pass goes on
Upload = Callable[[Path, Sequence[str]], None]


class ObjectDelivery:
    """Delivers the logs of one node. `record` is the file with the record; `upload` uploads files below a directory, and raises
    OSError. Methods block, and raise OSError: what was delivered before stays, and the next pass goes on from there."""

    def __init__(self, record: Path, *, upload: Upload, redact: Redact = bytes, left: bool = False) -> None:
        """`left`: the node has left these logs. Another one of its role may be delivering now, so the names of objects have the
        node's name."""
        self.progress = Progress(record)
        self._scratch = record.parent
        self._upload = upload
        self._redact = redact
        self._left = left
        self.record = self.progress.record

    def run(self, logs: LogDirectory, *, final: bool = False) -> None:
        """One pass. Only complete lines are delivered, unless it is the `final` one."""
        for left in self._scratch.glob(f"{_SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        while self._deliver(logs, final=final):
            pass
        if final:
            self.progress.finish()

    def _deliver(self, logs: LogDirectory, *, final: bool) -> bool:
        """Delivers some of what is new. Returns whether there was anything."""
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix=_SCRATCH) as scratch:
            moved, left = dict[str, tuple[str, int]](), AT_ONCE
            for name in logs.names():
                if left > 0 and (found := self._collect(logs, name, Path(scratch), left, final=final)) is not None:
                    moved[name], left = found, left - found[1]
            if not moved:
                return False
            self.progress.save()
            self._upload(Path(scratch), [self.record.logs[name].target for name in moved])
        for name, (position, size) in moved.items():
            self.record.logs[name] = Delivered(target="", position=position, size=self.record.logs[name].size + size)
        self.progress.save()
        return True

    def _collect(self, logs: LogDirectory, name: str, scratch: Path, limit: int, *, final: bool) -> tuple[str, int] | None:
        """Writes what is new of a log to the file that is to be uploaded. Returns the position after it, and how much it is."""
        done = self.record.logs.get(name) or Delivered(target="")
        size, position = 0, ""
        for data, after, skipped in pieces(logs, name, done.position, final=final, redact=self._redact):
            if not size:
                if skipped:
                    self.record.objects.append(done.target)
                    done.target = ""
                done.target = done.target or self._name(name)
                path = scratch / done.target
                path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as out:
                out.write(data)
            size, position = size + len(data), after
            if size >= limit:
                break
        if not size:
            return None
        self.record.logs[name] = done
        return position, size

    def _name(self, name: str) -> str:
        """A name that no object has yet: nodes of one role, which share a directory, do not run at the same time. Names have
        seconds, and the last pass may follow another one within the same."""
        now = int(time.time())
        if now != self.record.named_s:
            self.record.named_s, self.record.objects = now, []
        wanted = rolled_name(target_name(name, self.record.role, self.record.node), now, seconds=True)
        if self._left:
            wanted = f"{wanted}--{self.record.node}"
        used = set(self.record.objects)
        found = next(each for n in range(1_000_000) if (each := f"{wanted}-{n}" if n else wanted) not in used)
        self.record.objects.append(found)
        return found


def uploader(
    record: DeliveryRecord, *, env: Mapping[str, str], python: str, network: Network | None, limit_s: float
) -> Upload:  # fmt: skip
    """Uploads to the record's destination, through the node's network. Blocks; not for a thread with an event loop."""

    def upload(directory: Path, names: Sequence[str]) -> None:
        place = place_of(record.destination).child(record.cluster_id)
        job = Job(
            place=place, local=str(directory), upload=True, directory=True, names=tuple(names), limit_s=limit_s,
            encryption=record.destination.encryption, kms_key=record.destination.kms_key,
        )  # fmt: skip
        try:
            asyncio.run(run(job, env=env, python=python, network=network))
        except TransferFailed as error:
            raise OSError(str(error)) from error

    return upload


def place_of(wanted: LogDestination) -> Place:
    address = f"s3://{wanted.bucket}/{wanted.path}".rstrip("/")
    return parse(address, region=wanted.region, endpoint=wanted.endpoint)
