"""Logs are delivered once each, in order, wherever a pass was cut off, and never through what users put in the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.node import LogDestination, Role
from brickyard.domain.places import Kind
from brickyard.domain.redaction import Redactor
from brickyard.logs import delivery
from brickyard.logs.delivery import Delivered, Delivery, DeliveryRecord, Passes, Progress, rolled_name, target_name
from brickyard.logs.keep import DELIVERY, DELIVERY_RECORD, NodeRecord, keep_node_logs
from brickyard.logs.logfiles import LogDirectory, active_name
from brickyard.logs.objectdelivery import ObjectDelivery, uploader
from brickyard.logs.transfers import credentials
from brickyard.machine import files
from brickyard.machine.pressure import DBFS_FULL
from brickyard.reconcile.logdelivery import LogDelivery
from brickyard.storage.directory import Storage
from brickyard.storage.sealer import Sealer
from tests.support.golden import Golden
from tests.support.objectstore import KEYS, ObjectStore, serve
from tests.support.patience import until

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
    rolled = sorted((place.there / "driver").glob("stdout--*"))
    assert [each.read_text() for each in rolled] == ["of i-2\n"]
    assert re.fullmatch(r"stdout--\d{4}-\d\d-\d\d--\d\d-\d\d", rolled[0].name), "as Databricks names what it has rolled"


def test_a_pass_that_is_cut_off_before_it_knows_its_file_touches_no_other_one(tmp_path: Path) -> None:
    first = Place(tmp_path, node="i-1")
    (first.logs / "stdout").write_text("of i-1\n")
    first.deliver()
    second = Place(tmp_path, node="i-2")
    (second.logs / "stdout").write_text("of i-2, longer\n")
    for after in range(4):
        with killing(after):
            second.deliver()
        assert read(first.there / "driver" / "stdout") == "of i-1\n", f"killed after {after} writes"
    second.deliver()
    found = sorted(read(each) for each in (first.there / "driver").iterdir())
    assert found == ["of i-1\n", "of i-2, longer\n"]


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
        assert Passes().run(
            lambda: Delivery(place.file, roots=place.storage.log_roots), LogDirectory(place.logs), final=False, limit_s=20.0
        )  # fmt: skip
        path.unlink()
    place.deliver()
    assert read(place.there / "driver" / "stdout") == "line\n"


def test_a_destination_that_is_away_or_full_gets_the_logs_later(tmp_path: Path, golden: Golden) -> None:
    place = Place(tmp_path)
    (place.logs / "stdout").write_text("line\n")
    place.storage.dbfs.rename(tmp_path / "away")
    with golden.refused(OSError):
        place.deliver()
    (tmp_path / "away").rename(place.storage.dbfs)
    (tmp_path / DBFS_FULL).parent.mkdir()
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
    assert asyncio.run(LogDelivery(storage=place.storage).run_once()) == 1
    assert read(place.there / "driver" / "stdout") == "line"


def test_secrets_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "CHUNK", 10)
    place = Place(tmp_path)
    (place.logs / "stdout").write_text("a line\nsecret\nmore than one piece\n")
    redact = Redactor(["secret"]).data
    Delivery(place.file, roots=place.storage.log_roots, redact=redact).run(LogDirectory(place.logs), final=True)
    assert read(place.there / "driver" / "stdout") == "a line\n******\nmore than one piece\n"


def test_names() -> None:
    assert rolled_name("driver/log4j-active.log", 0) == "driver/log4j-1970-01-01-00-00.log"
    assert target_name("stdout", Role.DRIVER, "n") == "driver/stdout"
    assert target_name("stdout", Role.SINGLE, "n") == "driver/stdout"
    assert target_name("stdout", Role.WORKER, "n") == "worker/n/stdout"
    assert target_name("executor/app-1/0/stdout", Role.WORKER, "n") == "executor/app-1/0/stdout"
    assert target_name("init_scripts/0_a.sh/stdout", Role.WORKER, "n") == "init_scripts/n/0_a.sh/stdout"
    assert active_name("log4j-12.log") == ACTIVE
    assert active_name("executor/app-1/0/stderr--2026-01-01--10-00") == "executor/app-1/0/stderr"
    assert active_name("stdout") == "stdout"


# ── S3 ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def bucket() -> Iterator[ObjectStore]:
    with serve() as store:
        yield store


class InS3:
    """A node whose logs go to a bucket."""

    def __init__(self, root: Path, bucket: ObjectStore, path: str, **more: Any) -> None:
        self.bucket = bucket
        self.prefix = f"{path}/c/"
        self.logs = root / "logs"
        self.logs.mkdir()
        self.file = root / DELIVERY_RECORD
        wanted = LogDestination(
            kind="s3", path=path, bucket=bucket.bucket, endpoint=more.pop("endpoint", bucket.endpoint), **more
        )
        record = DeliveryRecord(destination=wanted, cluster_id="c", node="i-1-1", role=Role.DRIVER)
        files.write_atomic(self.file, msgspec.json.encode(record))

    def deliver(self, *, final: bool = False, before: Callable[[], None] = lambda: None, redact: Any = bytes) -> str:
        record = msgspec.json.decode(self.file.read_bytes(), type=DeliveryRecord)
        env = credentials(Kind.S3, cluster=KEYS, machine=os.environ)
        upload = uploader(record, env=env, python=sys.executable, network=None, limit_s=20.0)

        def uploading(directory: Path, names: Sequence[str]) -> None:
            upload(directory, names)
            before()

        made = ObjectDelivery(self.file, upload=uploading, redact=redact)
        return Passes().run(lambda: made, LogDirectory(self.logs), final=final, limit_s=30.0)

    def objects(self, log: str) -> dict[str, str]:
        listed = [each["path"] for batch in obstore.list(self.bucket.store, prefix=self.prefix) for each in batch]
        return {name: self.bucket.get(name).decode() for name in sorted(listed) if f"/{log}" in name}


def test_each_pass_to_s3_makes_an_object_of_what_is_new(tmp_path: Path, bucket: ObjectStore) -> None:
    node = InS3(tmp_path, bucket, "a/b")
    (node.logs / "stdout").write_text("one secret\ntw")
    assert node.deliver(redact=Redactor(["secret"]).data) == ""
    assert node.deliver() == "", "nothing is new"
    (name, text), *others = node.objects("driver/stdout").items()
    assert (text, others) == ("one ******\n", [])
    assert re.fullmatch(r"a/b/c/driver/stdout--\d{4}-\d\d-\d\d--\d\d-\d\d-\d\d", name)
    with (node.logs / "stdout").open("a") as log:
        log.write("o\nlast")
    (node.logs / ACTIVE).write_text("log4j\n")
    time.sleep(1.1)  # names have seconds
    assert node.deliver(final=True) == ""
    assert "".join(node.objects("driver/stdout").values()) == "one ******\ntwo\nlast"
    assert list(node.objects("driver/log4j-").values()) == ["log4j\n"]
    assert not node.file.exists()
    assert [each.name for each in tmp_path.iterdir()] == ["logs"], "nothing is left on the node"


def test_passes_to_s3_within_one_second_lose_nothing(
    tmp_path: Path, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last pass may follow a regular one at once."""
    monkeypatch.setattr("brickyard.logs.objectdelivery.time.time", lambda: 1_800_000_000.5)
    node = InS3(tmp_path, bucket, "second")
    for line in ("one\n", "two\n", "three\n"):
        with (node.logs / "stdout").open("a") as log:
            log.write(line)
        assert node.deliver(final=line == "three\n") == ""
    assert "".join(node.objects("driver/stdout").values()) == "one\ntwo\nthree\n"


def test_a_pass_to_s3_that_is_cut_off_is_repeated_under_the_same_name(tmp_path: Path, bucket: ObjectStore) -> None:
    node = InS3(tmp_path, bucket, "cut")
    (node.logs / "stdout").write_text("one\n")

    def killed() -> None:
        raise OSError("killed")

    assert node.deliver(before=killed) == "killed"
    with (node.logs / "stdout").open("a") as log:
        log.write("two\n")
    assert node.deliver() == ""
    assert list(node.objects("driver/stdout").values()) == ["one\ntwo\n"]


def test_s3_that_is_away_or_forbids_it_gets_the_logs_later(tmp_path: Path, bucket: ObjectStore) -> None:
    node = InS3(tmp_path, bucket, "later", encryption="sse-kms", kms_key="key")
    (node.logs / "stdout").write_text("one\n")
    there = node.file.read_bytes()
    away = msgspec.json.decode(there) | {"destination": {"kind": "s3", "path": "later", "bucket": "no-such-bucket"}}
    away["destination"]["endpoint"] = bucket.endpoint
    node.file.write_bytes(msgspec.json.encode(away))
    assert "does not exist" in node.deliver()
    node.file.write_bytes(there)
    assert node.deliver() == ""
    (name,) = node.objects("driver/stdout")
    assert obstore.head(bucket.store, name)["size"] == 4


SEALER = Sealer(key=b"k" * 32)


def left(place: Place, bucket: ObjectStore, path: str, *, text: str, node: str = "i-1", **wanted: Any) -> Path:
    """A driver whose agent was killed before it delivered anything to S3; returns the directory of its kept logs."""
    logs = place.storage.instances / node / "node" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "stdout").write_text(text)
    destination = LogDestination(
        kind="s3", path=path, bucket=bucket.bucket, endpoint=wanted.pop("endpoint", bucket.endpoint),
        sealed=SEALER.seal_variables(KEYS), **wanted,
    )  # fmt: skip
    record = DeliveryRecord(destination=destination, cluster_id="c", node=f"{node}-1", role=Role.DRIVER)
    files.write_atomic(logs.parent.parent / DELIVERY_RECORD, msgspec.json.encode(record))
    return keep(place, node)


def keep(place: Place, node: str = "i-1") -> Path:
    kept = NodeRecord(cluster_id="c", generation=1)
    keep_node_logs(place.storage.instances / node, place.storage.logs.root, instance_id=node, node=kept)
    return place.storage.logs.of("c") / f"{node}-1"


class Lent:
    """What a provider lends whose nodes share the machine's network."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None


def texts(bucket: ObjectStore, prefix: str) -> list[str]:
    listed = [each["path"] for batch in obstore.list(bucket.store, prefix=prefix) for each in batch]
    return [bucket.get(name).decode() for name in sorted(listed)]


def test_a_server_delivers_to_s3_what_a_killed_agent_has_left(tmp_path: Path, bucket: ObjectStore) -> None:
    place = Place(tmp_path)
    kept = left(place, bucket, "killed", text="one\ntwo")
    assert b"secret" not in b"".join(each.read_bytes() for each in kept.iterdir()), "credentials are sealed"
    assert asyncio.run(LogDelivery(storage=place.storage, sealer=SEALER).run_once()) == 0, "nodes are elsewhere"
    assert texts(bucket, "killed/") == []
    server = LogDelivery(storage=place.storage, sealer=SEALER, lend=Lent)
    assert asyncio.run(server.run_once()) == 1
    assert texts(bucket, "killed/c/driver/") == ["one\ntwo"]
    assert place.storage.logs.undelivered() == []
    assert sorted(each.name for each in kept.iterdir()) == [".kept.json", "stdout"]
    assert asyncio.run(server.run_once()) == 0


@pytest.mark.parametrize("away", [True, False])
def test_a_delivery_does_not_lengthen_how_long_logs_are_kept(tmp_path: Path, bucket: ObjectStore, *, away: bool) -> None:
    """The directory's time says when the node ended, also after attempts that fail."""
    place = Place(tmp_path)
    kept = left(place, bucket, f"old-{away}", text="one", endpoint="http://127.0.0.1:1" if away else bucket.endpoint)
    os.utime(kept, (1_000, 1_000))
    assert asyncio.run(LogDelivery(storage=place.storage, sealer=SEALER, lend=Lent).run_once()) == (0 if away else 1)
    assert kept.stat().st_mtime == 1_000
    assert place.storage.logs.trim("c", before_s=2_000) == 1


def test_no_server_delivers_to_s3_what_only_nodes_elsewhere_reach(tmp_path: Path, bucket: ObjectStore) -> None:
    """Also if another provider of the workspace could lend a network."""
    place = Place(tmp_path)
    kept = left(place, bucket, "elsewhere", text="one")
    record = msgspec.json.decode((kept / DELIVERY).read_bytes(), type=DeliveryRecord)
    record.elsewhere = True
    (kept / DELIVERY).write_bytes(msgspec.json.encode(record))
    assert asyncio.run(LogDelivery(storage=place.storage, sealer=SEALER, lend=Lent).run_once()) == 0
    assert texts(bucket, "elsewhere/") == []
    assert place.storage.logs.undelivered() == [kept / DELIVERY]


def test_what_was_uploaded_stays_if_its_beginning_was_not_kept(
    tmp_path: Path, bucket: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent was killed between an upload and the record of it, and only the end of the log is kept."""
    monkeypatch.setattr("brickyard.logs.keep.MAX_FILE_BYTES", 8)
    place = Place(tmp_path)
    kept = left(place, bucket, "trimmed", text="first line\nthe last\n")
    name = "driver/stdout--2026-01-01--00-00-00"
    bucket.put(f"trimmed/c/{name}", b"first line\n")
    record = msgspec.json.decode((kept / DELIVERY).read_bytes(), type=DeliveryRecord)
    record.logs["stdout"] = Delivered(target=name)
    (kept / DELIVERY).write_bytes(msgspec.json.encode(record))
    assert asyncio.run(LogDelivery(storage=place.storage, sealer=SEALER, lend=Lent).run_once()) == 1
    assert texts(bucket, "trimmed/c/driver/") == ["first line\n", "he last\n"]


class Hanging:
    """A destination that hangs until `back` is set, and then takes what it was given."""

    def __init__(self, file: Path, began: list[int]) -> None:
        self.progress = Progress(file)
        self.back = threading.Event()
        self.ended = threading.Event()
        self._began = began

    def run(self, logs: LogDirectory, *, final: bool = False) -> None:
        self._began.append(1)
        self.back.wait()
        try:
            self.progress.finish()
        finally:
            self.ended.set()


def test_a_destination_that_hangs_holds_up_one_thread_and_changes_nothing_later(tmp_path: Path, golden: Golden) -> None:
    place, passes, began = Place(tmp_path), Passes(), list[int]()
    hanging = Hanging(place.file, began)
    golden(passes.run(lambda: hanging, LogDirectory(place.logs), final=True, limit_s=0.1))
    for _ in range(3):
        said = passes.run(lambda: Hanging(place.file, began), LogDirectory(place.logs), final=True, limit_s=0.1)
        assert "has not answered" in said
    assert (passes.hang, began) == (True, [1])
    hanging.back.set()
    assert hanging.ended.wait(60)
    assert place.file.exists(), "the pass was given up: others may have gone on"
    until(lambda: not passes.hang)
    (place.logs / "stdout").write_text("line\n")

    def made() -> Delivery:
        return Delivery(place.file, roots=place.storage.log_roots)

    assert passes.run(made, LogDirectory(place.logs), final=True, limit_s=60) == ""
    assert read(place.there / "driver" / "stdout") == "line\n"


def test_the_last_pass_waits_for_one_that_is_under_way_and_goes_on_from_there(tmp_path: Path) -> None:
    place, passes = Place(tmp_path), Passes()
    (place.logs / "stdout").write_text("line\n")
    slow, began = threading.Event(), threading.Event()

    class Slow(Delivery):
        def run(self, logs: LogDirectory, *, final: bool = False) -> None:
            began.set()
            slow.wait(60)
            super().run(logs, final=final)

    roots = place.storage.log_roots
    first = threading.Thread(
        target=passes.run,
        args=(lambda: Slow(place.file, roots=roots), LogDirectory(place.logs)),
        kwargs={"final": False, "limit_s": 60},
    )
    first.start()
    assert began.wait(60)
    assert "still under way" in passes.run(
        lambda: Delivery(place.file, roots=roots), LogDirectory(place.logs), final=True, limit_s=0
    )
    slow.set()
    assert passes.run(lambda: Delivery(place.file, roots=roots), LogDirectory(place.logs), final=True, limit_s=60) == ""
    first.join(60)
    assert [each.name for each in (place.there / "driver").iterdir()] == ["stdout"]
    assert read(place.there / "driver" / "stdout") == "line\n"


def connections(listener: socket.socket) -> int:
    """How many have come since the last call."""
    listener.settimeout(0)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def test_a_store_that_does_not_answer_holds_up_no_other_and_gets_the_logs_later(tmp_path: Path, bucket: ObjectStore) -> None:
    place, now = Place(tmp_path, node="i-answers"), [0.0]
    (place.logs / "stdout").write_text("line\n")
    keep(place, "i-answers")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for number in range(3):
            left(place, bucket, "silent", text="one\n", node=f"i-silent{number}", endpoint=endpoint)
        given: dict[str, Any] = {"storage": place.storage, "sealer": SEALER, "lend": Lent}
        assert asyncio.run(LogDelivery(**given, limit_s=4).run_once()) == 1
        assert read(place.there / "driver" / "stdout") == "line\n"
        assert len(place.storage.logs.undelivered()) == 3
        assert connections(silent) <= 1, "not each of the three nodes waited for it"
        server = LogDelivery(**given, clock=lambda: now[0])
    for again in (False, True):
        assert asyncio.run(server.run_once()) == (3 if again else 0)
        for record in place.storage.logs.undelivered():
            known = msgspec.json.decode(record.read_bytes(), type=DeliveryRecord)
            there = msgspec.structs.replace(known.destination, endpoint=bucket.endpoint)
            record.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, destination=there)))
        if not again:
            assert asyncio.run(server.run_once()) == 0, "not again so soon"
        now[0] += 10_000
    assert texts(bucket, "silent/c/driver/") == ["one\n"] * 3, "drivers of three starts, delivered at once"
