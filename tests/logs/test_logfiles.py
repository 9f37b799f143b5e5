"""Logs are read by position: through rolling, emptying, and the end of their node."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.node import Role
from brickyard.domain.redaction import Redactor
from brickyard.logs import keep
from brickyard.logs.logfiles import LogDirectory, is_rolled
from brickyard.storage.logs import KeptLogs

ACTIVE = "log4j-active.log"


def follow(logs: LogDirectory, name: str, position: str, *, limit: int = 1 << 20) -> tuple[bytes, str, bool]:
    """Everything from a position to the end, the position after it, and whether anything is missing."""
    text, skipped = b"", False
    while True:
        piece = logs.read(name, position=position, limit=limit)
        text, position, skipped = text + piece.data, piece.next, skipped or piece.skipped
        if piece.at_end:
            return text, position, skipped


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.one_of(st.binary(min_size=1, max_size=100), st.just("roll"), st.just("read")), max_size=30),
       limit=st.integers(min_value=1, max_value=50))  # fmt: skip
def test_whoever_follows_a_log_gets_every_byte_once(steps: list[bytes | str], limit: int) -> None:
    """However often it is rolled between two reads, and also when the rest is read from what the ended node has left."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "node", "logs")
        source.mkdir(parents=True)
        (source / ACTIVE).touch()
        logs, written, read, rolled, stamp = LogDirectory(source), b"", b"", 0, 1_000_000
        os.utime(source / ACTIVE, ns=(stamp, stamp))
        position = logs.read(ACTIVE).start
        for step in steps:
            if step == "roll":
                rolled += 1
                (source / ACTIVE).rename(source / f"log4j-{rolled}.log")
                (source / ACTIVE).touch()
            elif step == "read":
                text, position, skipped = follow(logs, ACTIVE, position, limit=limit)
                read += text
                assert not skipped
            else:
                with (source / ACTIVE).open("ab") as file:
                    file.write(step)  # type: ignore[arg-type]
                written += step  # type: ignore[operator]
            stamp += 1
            os.utime(source / ACTIVE, ns=(stamp, stamp))  # files are written one after the other
        node = keep.NodeRecord(cluster_id="c", generation=1, role=Role.DRIVER)
        keep.keep_node_logs(Path(place), Path(place, "kept"), instance_id="i", node=node)
        kept = Path(place, "kept", "c", "i-1")
        text, _, skipped = follow(LogDirectory(kept, keep.read_record(kept).files), ACTIVE, position, limit=limit)
        assert read + text == written
        assert not skipped


def test_what_is_no_longer_there_is_told(tmp_path: Path) -> None:
    """A rolled file may be removed before a slow reader has read it, and programs may empty their log."""
    logs = LogDirectory(tmp_path)
    (tmp_path / "stdout").write_text("first\n")
    position = logs.read("stdout").start
    (tmp_path / "stdout").write_text("")
    assert follow(logs, "stdout", logs.read("stdout", position=position).next) == (b"", logs.read("stdout").next, False)
    (tmp_path / "stdout").write_text("one more\n")
    position = logs.read("stdout").next
    (tmp_path / "stdout").unlink()
    (tmp_path / "stdout").write_text("another file\n")
    assert follow(logs, "stdout", position)[::2] == (b"another file\n", True)


def test_a_log_whose_beginning_was_not_kept_has_the_same_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "MAX_FILE_BYTES", 100)
    source = tmp_path / "node" / "logs"
    source.mkdir(parents=True)
    (source / "stdout").write_bytes(bytes(range(200)))
    logs = LogDirectory(source)
    middle, late = logs.read("stdout", offset=0, limit=50).next, logs.read("stdout", offset=0, limit=150).next
    keep.keep_node_logs(tmp_path, tmp_path / "kept", instance_id="i", node=keep.NodeRecord(cluster_id="c", generation=1))
    directory = tmp_path / "kept" / "c" / "i-1"
    kept = LogDirectory(directory, keep.read_record(directory).files)
    assert kept.read("stdout", position=late).data == bytes(range(150, 200))
    assert not kept.read("stdout", position=late).skipped
    piece = kept.read("stdout", position=middle)
    assert (piece.offset, piece.data, piece.skipped, piece.size) == (100, bytes(range(100, 200)), True, 200)
    assert kept.read("stdout", offset=-10).data == bytes(range(190, 200))


def test_nothing_but_regular_files_is_read(tmp_path: Path) -> None:
    """Users' code may have replaced a log by anything; a pipe must not hold the reader up."""
    (tmp_path / "secret").write_text("secret")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link").symlink_to(tmp_path / "secret")
    (logs / "inner").symlink_to(tmp_path)
    os.mkfifo(logs / "pipe")
    for name in ("link", "inner/secret", "pipe", "../secret", "/etc/passwd", "", ".", "a\0b"):
        with pytest.raises((OSError, ValueError)):
            LogDirectory(logs).read(name)
    (logs / "log").write_text("x")
    for position in ("", "1", "x.1.0..5", "1.1.0..-5", "1.1.99.zz.0"):
        if position:
            with pytest.raises(ValueError, match="position"):
                LogDirectory(logs).read("log", position=position)


def test_rolled_logs_are_known_by_their_names() -> None:
    assert is_rolled("log4j-1.log", ACTIVE)
    assert is_rolled("executor/app-1/0/stdout--2026-01-01--10-00", "executor/app-1/0/stdout")
    assert is_rolled("stdout.1", "stdout")
    assert not is_rolled("stdout", "stdout")
    assert not is_rolled(ACTIVE, ACTIVE)
    assert not is_rolled("stderr-1", "stdout")
    assert not is_rolled("executor/app-1/1/stdout--x", "executor/app-1/0/stdout")


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("limit", [keep.MAX_FILE_BYTES, 20])
def test_a_secret_at_the_beginning_of_a_log_repeats_nothing_at_its_nodes_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, sealed: bool
) -> None:
    """Whether its agent has hidden it or, because the agent was killed, a server."""
    monkeypatch.setattr(keep, "MAX_FILE_BYTES", limit)
    source = tmp_path / "node" / "logs"
    source.mkdir(parents=True)
    (source / "stdout").write_bytes(b"the password is hunter2\nand more\n")
    position = LogDirectory(source).read("stdout", limit=24).next
    redact = Redactor(["hunter2"]).data
    node = keep.NodeRecord(cluster_id="c", generation=1, sealed=("something",) if sealed else ())
    keep.keep_node_logs(tmp_path, tmp_path / "kept", instance_id="i", node=node, redact=bytes if sealed else redact)
    logs = KeptLogs(tmp_path / "kept")
    logs.unseal_with(lambda _: ["hunter2"])
    rest = logs.directory(tmp_path / "kept/c/i-1")
    assert follow(rest, "stdout", position)[::2] == (b"and more\n", False)
    record = (tmp_path / "kept/c/i-1" / keep.RECORD).read_bytes()
    assert b"hunter2" not in record and base64.b64encode(b"the password is hunter2\nand more\n") not in record
    piece = rest.first("stdout")
    assert b"hunter2" not in piece.data and follow(rest, "stdout", piece.next)[0] == b""


def test_kept_logs_appear_complete_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "node" / "logs").mkdir(parents=True)
    (tmp_path / "node" / "logs" / "stdout").write_text("x")
    place = tmp_path / "kept" / "c"
    (place / ".i-1").mkdir(parents=True)
    (place / ".i-1" / "stdout").write_text("half a copy, by an agent that was killed")
    node = keep.NodeRecord(cluster_id="c", generation=1)
    for _ in range(2):
        keep.keep_node_logs(tmp_path, tmp_path / "kept", instance_id="i", node=node)
        assert [path.name for path in place.iterdir()] == ["i-1"]
        assert (place / "i-1" / "stdout").read_text() == "x"
