"""Logs are delivered once each, in order, wherever a pass was cut off, and never through what users put in the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.agent import delivery, files
from brickyard.agent.delivery import Delivery, DeliveryRecord, deliver_within, target_name
from brickyard.agent.keep import DELIVERY, DELIVERY_RECORD, NodeRecord, keep_node_logs
from brickyard.agent.logfiles import LogDirectory, active_name
from brickyard.agent.pressure import DBFS_FULL
from brickyard.domain.node import LogDestination, Role
from brickyard.domain.redaction import Redactor
from brickyard.reconcile.logdelivery import LogDelivery
from brickyard.storage.directory import Storage

ACTIVE = "log4j-active.log"
WORK = ("roll", "deliver", "kill")


class Place:
    """An instance with logs, and the workspace's files."""

    def __init__(self, root: Path, *, node: str = "i-1", role: Role = Role.DRIVER) -> None:
        self.storage = Storage(root)
        self.directory = root / "instances" / node
        self.logs = self.directory / "node" / "logs"
        self.logs.mkdir(parents=True)
        self.storage.dbfs.mkdir(exist_ok=True)
        self.file = self.directory / DELIVERY_RECORD
        record = DeliveryRecord(destination=LogDestination(kind="dbfs", path="a/b"), cluster_id="c", node=f"{node}-1", role=role)
        files.write_atomic(self.file, msgspec.json.encode(record))
        self.there = self.storage.dbfs / "a" / "b" / "c"

    def deliver(self, *, final: bool = False) -> None:
        Delivery(self.file, roots=self.storage.log_roots).run(LogDirectory(self.logs), final=final)


class Killed(BaseException):
    """The process ends here."""


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.one_of(st.text("ab\n", min_size=1, max_size=20), st.sampled_from(WORK)), max_size=30),
    kill_at=st.integers(min_value=0, max_value=6),
    last=st.sampled_from(["agent", "server"]),
)
def test_every_byte_is_delivered_once(steps: list[str], kill_at: int, last: str) -> None:
    """Whatever is rolled between two passes, wherever one is cut off, and whoever makes the last one."""
    with tempfile.TemporaryDirectory() as root:
        place = Place(Path(root))
        written, rolled, stamp = "", 0, 1_000_000
        (place.logs / ACTIVE).touch()
        os.utime(place.logs / ACTIVE, ns=(stamp, stamp))
        for step in steps:
            if step == "roll":
                rolled += 1
                (place.logs / ACTIVE).rename(place.logs / f"log4j-{rolled}.log")
                (place.logs / ACTIVE).touch()
            elif step == "deliver":
                place.deliver()
                assert written.startswith(read(place.there / "driver" / ACTIVE))
            elif step == "kill":
                with killing(kill_at):
                    place.deliver()
            else:
                with (place.logs / ACTIVE).open("a") as log:
                    log.write(step)
                written += step
            stamp += 1
            os.utime(place.logs / ACTIVE, ns=(stamp, stamp))
        if last == "agent":
            place.deliver(final=True)
            assert not place.file.exists()
        keep_node_logs(place.directory, place.storage.logs.root, instance_id="i-1", node=NodeRecord(cluster_id="c", generation=1))
        shutil.rmtree(place.directory)
        for record in place.storage.logs.undelivered():
            Delivery(record, roots=place.storage.log_roots).run(place.storage.logs.directory(record.parent), final=True)
        assert place.storage.logs.undelivered() == []
        assert read(place.there / "driver" / ACTIVE) == written


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@contextlib.contextmanager
def killing(after: int) -> Iterator[None]:
    """The process is killed after that many writes of the record or of logs."""
    left = [after]

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return function(*args, **more)

        return call

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(files, "write_atomic", dying(files.write_atomic))
        patch.setattr(delivery, "open_target", dying(delivery.open_target))
        yield


def test_another_start_of_the_cluster_leaves_what_is_there(tmp_path: Path) -> None:
    for node in ("i-1", "i-2"):
        place = Place(tmp_path, node=node)
        (place.logs / "stdout").write_text(f"of {node}\n")
        place.deliver()
    assert (place.there / "driver" / "stdout").read_text() == "of i-1\n"
    assert (place.there / "driver" / "stdout--i-2-1").read_text() == "of i-2\n"


def test_complete_lines_are_delivered_and_the_rest_at_the_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.logs / "stdout").write_text("one\ntw")
    (place.logs / "eventlog").mkdir()
    (place.logs / "eventlog" / "app-1.zstd").write_bytes(b"\0\1")
    place.deliver()
    assert read(place.there / "driver" / "stdout") == "one\n"
    assert read(place.there / "eventlog" / "app-1.zstd") == "\0\1"
    place.deliver(final=True)
    assert read(place.there / "driver" / "stdout") == "one\ntw"


@pytest.mark.parametrize("trap", ["a", "a/b", "a/b/c", "a/b/c/driver", "a/b/c/driver/stdout"])
def test_the_writer_stays_below_its_destination(tmp_path: Path, trap: str) -> None:
    """Users may put a link, a pipe or a directory in its way. Other logs are not held up for ever, and the cluster goes on."""
    place = Place(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stdout").write_text("secret")
    (place.logs / "stdout").write_text("line\n")
    path = place.storage.dbfs / trap
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside / "stdout" if trap.endswith("stdout") else outside)
    with pytest.raises(OSError):
        place.deliver()
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("stdout", "secret")]
    path.unlink()
    if trap.endswith("stdout"):
        os.mkfifo(path)
        assert deliver_within(
            Delivery(place.file, roots=place.storage.log_roots), LogDirectory(place.logs), final=False, limit_s=20.0
        )  # fmt: skip
        path.unlink()
    place.deliver()
    assert read(place.there / "driver" / "stdout") == "line\n"


def test_a_destination_that_is_away_or_full_gets_the_logs_later(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.logs / "stdout").write_text("line\n")
    place.storage.dbfs.rename(tmp_path / "away")
    with pytest.raises(OSError, match="dbfs is not there"):
        place.deliver()
    (tmp_path / "away").rename(place.storage.dbfs)
    (tmp_path / DBFS_FULL).touch()
    with pytest.raises(OSError, match="dbfs_gb"):
        place.deliver()
    (tmp_path / DBFS_FULL).unlink()
    place.deliver()
    assert read(place.there / "driver" / "stdout") == "line\n"


def test_a_server_goes_on_after_a_record_that_makes_no_sense(tmp_path: Path) -> None:
    for node, text in (("i-1-1", "{"), ("i-2-1", "")):
        kept = tmp_path / "logs" / "c" / node
        kept.mkdir(parents=True)
        (kept / DELIVERY).write_text(text)
    place = Place(tmp_path, node="i-3")
    (place.logs / "stdout").write_text("line")
    keep_node_logs(place.directory, place.storage.logs.root, instance_id="i-3", node=NodeRecord(cluster_id="c", generation=1))
    assert asyncio.run(LogDelivery(storage=place.storage).deliver()) == 1
    assert read(place.there / "driver" / "stdout") == "line"


def test_secrets_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "CHUNK", 10)
    place = Place(tmp_path)
    (place.logs / "stdout").write_text("a line\nsecret\nmore than one piece\n")
    redact = Redactor(["secret"]).data
    Delivery(place.file, roots=place.storage.log_roots, redact=redact).run(LogDirectory(place.logs), final=True)
    assert read(place.there / "driver" / "stdout") == "a line\n******\nmore than one piece\n"


def test_names() -> None:
    assert target_name("stdout", Role.DRIVER, "n") == "driver/stdout"
    assert target_name("stdout", Role.SINGLE, "n") == "driver/stdout"
    assert target_name("stdout", Role.WORKER, "n") == "worker/n/stdout"
    assert target_name("executor/app-1/0/stdout", Role.WORKER, "n") == "executor/app-1/0/stdout"
    assert target_name("init_scripts/0_a.sh/stdout", Role.WORKER, "n") == "init_scripts/n/0_a.sh/stdout"
    assert active_name("log4j-12.log") == ACTIVE
    assert active_name("executor/app-1/0/stderr--2026-01-01--10-00") == "executor/app-1/0/stderr"
    assert active_name("stdout") == "stdout"
