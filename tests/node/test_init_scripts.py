"""One init script: what is refused, what is said of it, and what is kept. Without walls and without an agent."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.host.scripts import environment, python_files, run_script, safe_name
from brickyard.runtime.node.jvm.process import files_read
from tests.support.golden import Golden


@pytest.fixture
def node_dir(tmp_path: Path) -> Path:
    for name in ("work", "scripts", "logs"):
        (tmp_path / "node" / name).mkdir(parents=True)
    return tmp_path / "node"


def _popen(argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, start_new_session=True, **options)


def _run(node_dir: Path, content: bytes = b"", **more: Any) -> dict[str, Any]:
    message: Any = {
        "number": 0, "name": "a.sh", "node_dir": str(node_dir), "logs": "init_scripts/c_1", "stamp": "20261122_120000",
        "limit_s": 20.0, "max_bytes": 1_000_000, "content": base64.b64encode(content).decode(), **more,
    }  # fmt: skip
    environ = {**os.environ, "NODE": str(node_dir)}
    return run_script(message, popen=_popen, environ=environ)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#!/bin/bash\r\necho hello\r\n", "it has Windows line endings (CRLF). Save it with Unix line endings (LF)."),
        (b"echo hello\r\n", "it has Windows line endings (CRLF). Save it with Unix line endings (LF)."),
        (b"\xef\xbb\xbf#!/bin/bash\n", "it begins with a byte order mark (BOM). Save it as UTF-8 without BOM."),
        ("echo".encode("utf-16"), "it begins with a byte order mark (BOM). Save it as UTF-8 instead of UTF-16."),
        (b"\x7fELF\x02\x01\0\0\0", "it is not a script: it contains bytes that are not text."),
        (b"#!/databricks/pyton\n", "its first line names /databricks/pyton, which is not a program on this node."),
        (b"#!\n", "its first line names no interpreter, which is not a program on this node."),
        (b"kill -9 $$", "killed by signal 9 after 0.0 s."),
        (b"exit 9", "exit code 9 after 0.0 s."),
    ],
)
def test_scripts_that_fail(node_dir: Path, content: bytes, why: str) -> None:
    result = _run(node_dir, content)
    assert (result["status"], result["message"].replace("0.1", "0.0").replace("0.2", "0.0")) == ("FAILED_EXECUTION", why)


@pytest.mark.parametrize("content", [b"", b"\n", b"#!/bin/sh -e\ntrue", b"#! /usr/bin/env sh\ntrue"])
def test_scripts_that_are_fine(node_dir: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "script").write_bytes(content)
    assert _run(node_dir, path=str(tmp_path / "script"))["status"] == "SUCCEEDED"


def test_scripts_that_are_not_there(node_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(1_000_001)
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (
        ("none", "it does not exist."),
        ("dir", "it is not a file."),
        ("fifo", "it is not a file."),
        ("huge", "it is larger than 1 MB, which is the most an init script may have."),
        ("loop", "it cannot be read: Too many levels of symbolic links."),
    ):
        result = _run(node_dir, path=str(tmp_path / name), name=name)
        assert (result["status"], result["message"]) == ("FAILED_FETCH", why)
    assert not sum(path.stat().st_size for path in (node_dir / "scripts").iterdir()), "nothing of it is copied to the node's disk"


@pytest.mark.parametrize("replaced", ["", "; ln -s /proc $NODE/logs"])
def test_a_script_may_remove_its_logs(node_dir: Path, replaced: str, golden: Golden) -> None:
    result = _run(node_dir, f"rm -rf $NODE/logs{replaced}; echo last words >&2; exit 1".encode())
    assert result["tail"] == "last words"
    following = _run(node_dir, b"true", number=1)
    if replaced:
        golden(following["message"])
    else:
        assert following["status"] == "SUCCEEDED"


def test_only_the_end_of_what_it_printed_is_repeated(node_dir: Path) -> None:
    result = _run(node_dir, b"seq 1 100000; exit 1")
    assert result["tail"].splitlines()[-1] == "100000"
    assert len(result["tail"].splitlines()) == 20
    (log,) = (node_dir / "logs/init_scripts/c_1").glob("20261122_120000_00_a.sh.stdout.log")
    assert len(log.read_text().splitlines()) == 100_000


def test_its_time_is_limited(node_dir: Path, golden: Golden) -> None:
    result = _run(node_dir, b"echo waiting; exec sleep 30", limit_s=0.3)
    golden(result["message"], "0.3 s (init_script_timeout_s)")
    assert result["tail"] == "waiting"


def test_names_and_variables(tmp_path: Path) -> None:
    assert safe_name("../a b/ü.sh") == "_a_b__.sh"
    assert safe_name("..") == "script"
    manifest: Any = {"spark_home": "/spark", "java_home": "/java"}
    expected = {"A": "1", "B": "2", "SPARK_HOME": "/spark", "JAVA_HOME": "/java"}
    assert environment({"A": "1", "B": "1"}, [("B", "2")], manifest, venv=tmp_path) == expected
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    own = {"PATH": f"{tmp_path}/bin:/bin", "VIRTUAL_ENV": str(tmp_path)}
    assert environment({"A": "1", "PATH": "/bin"}, [("B", "2")], manifest, venv=tmp_path) == expected | own


def test_what_a_jvm_has_read(node_dir: Path, tmp_path: Path) -> None:
    manifest: Any = {"spark_home": str(tmp_path / "spark")}
    (node_dir / "conf").mkdir()
    before = files_read(node_dir, manifest)
    _run(node_dir, b"echo elsewhere >$NODE/work/file")
    assert files_read(node_dir, manifest) == before
    _run(node_dir, b"echo 'a=b' >$NODE/conf/log4j2.properties", number=1)
    assert files_read(node_dir, manifest) != before


@pytest.mark.parametrize(
    "change",
    [
        b"mkdir $NODE/python/lib/package", b"echo 2 >$NODE/python/lib/module.py", b"rm $NODE/python/lib/module.py",
        b"mkdir -p $NODE/home/.local/lib", b"echo 1 >$NODE/python/lib/new && mv $NODE/python/lib/new $NODE/python/lib/module.py",
    ],
)  # fmt: skip
def test_what_a_waiting_kernel_has_seen(node_dir: Path, change: bytes) -> None:
    (node_dir / "python/lib").mkdir(parents=True)
    (node_dir / "python/lib/module.py").write_text("1\n")
    (node_dir / "home").mkdir()
    before = python_files(node_dir, node_dir / "python")
    assert _run(node_dir, b"true; echo elsewhere >$NODE/work/file")["status"] == "SUCCEEDED"
    assert python_files(node_dir, node_dir / "python") == before
    assert _run(node_dir, change, number=1)["status"] == "SUCCEEDED"
    assert python_files(node_dir, node_dir / "python") != before
