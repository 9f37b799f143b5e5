"""What `brickyard doctor` finds, and the remedy that it names for each thing that it does not like."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Cli
from tests.support.golden import Golden


@pytest.fixture
def no_index() -> Iterator[str]:
    """The URL of a package index that refuses to talk: a bound port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/simple"


def findings(cli: Cli, *arguments: str, **environment: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and name -> (state, text)."""
    done = cli.run("doctor", "--json", *arguments, **environment)
    assert done.stderr == ""
    return done.returncode, {each["name"]: (each["state"], each["text"]) for each in json.loads(done.stdout)}


def test_a_machine_that_is_well(cli: Cli, no_index: str, golden: Golden) -> None:
    code, found = findings(cli, UV_DEFAULT_INDEX=no_index)
    assert list(found) == [
        "Python", "Java", "data directory", "cache directory", "port", "Spark Connect", "package index", "GPU",
        "isolation", "network", "control groups", "memory", "open files", "processes",
    ]  # fmt: skip
    assert code == 0, "nothing that is needed is broken: runtimes that are there work without an index"
    state, text = found["package index"]
    assert state == "note"
    golden(re.sub(r"installed: .*refused.*?\. ", "installed: {why}. ", text))  # why is in the words of the installer
    assert not cli.data.exists(), "it only looks"


def test_what_is_broken_is_named_with_its_remedy(cli: Cli, no_index: str, tmp_path: Path, golden: Golden) -> None:
    file = tmp_path / "file"
    file.touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, found = findings(
            cli,
            "--port", str(port), "--connect-port", str(port),
            "--data-dir", str(file / "data"), "--cache-dir", "/proc/brickyard", "--isolation", "off",
            UV_DEFAULT_INDEX=no_index,
            BRICKYARD_JAVA_HOME=str(tmp_path),
        )  # fmt: skip
    assert code == 1
    assert found["port"][0] == "broken"
    assert f"127.0.0.1:{port}" in found["port"][1]
    assert "--port" in found["port"][1]
    assert found["Spark Connect"][0] == "broken"
    assert "--connect-port" in found["Spark Connect"][1]
    assert [found[each][0] for each in ("Java", "data directory", "cache directory")] == ["broken"] * 3
    golden(found["Java"][1], f"BRICKYARD_JAVA_HOME={tmp_path} ")
    golden(found["data directory"][1], f"{file} ")
    assert found["isolation"][0] == "note"
    golden(found["isolation"][1])


def test_it_is_readable(cli: Cli, no_index: str) -> None:
    shown = cli.run("doctor", UV_DEFAULT_INDEX=no_index).stdout.splitlines()
    assert len(shown) == 14
    assert all(line.split()[0] in ("ok", "note", "broken") for line in shown)


def test_gpus_are_those_that_nvml_finds(cli: Cli, no_index: str, tmp_path: Path, golden: Golden) -> None:
    """A stand-in for NVML's library, which only machines with a GPU have."""
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception): pass\ndef nvmlInit(): pass\ndef nvmlDeviceGetCount(): return 3\n"
        "def nvmlDeviceGetHandleByIndex(at):\n    if at == 1: raise NVMLError('GPU is lost')\n    return at\n"
        "def nvmlDeviceGetName(handle): return 'NVIDIA H200'\ndef nvmlDeviceGetUUID(handle): return f'GPU-{handle}'\n"
        "def nvmlDeviceGetMinorNumber(handle): return handle\n"
    )
    _, found = findings(cli, UV_DEFAULT_INDEX=no_index, PYTHONPATH=str(tmp_path))
    assert found["GPU"][0] == "ok"
    golden(found["GPU"][1], "2 x NVIDIA H200")
