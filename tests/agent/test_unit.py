"""What an engine runs on one of its machines, before it becomes the agent."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import brickyard
from brickyard.agent.config import AgentConfig
from brickyard.agent.unit import (
    ADDRESS_VARIABLE,
    CONFIG_EXIT,
    TOKENS_VARIABLE,
    Unit,
    UnitError,
    apart,
    assigned,
    own_address,
    place,
    read,
)
from brickyard.machine.gpus import Gpu
from tests.support.golden import Golden
from tests.support.patience import until

UNPRIVILEGED = """
import os, sys
from brickyard.machine import linux
linux.drop_capabilities()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
WHERE = f"on {socket.gethostname()}"
GPUS = tuple(Gpu(number=number, uuid=f"GPU-{number}") for number in range(4))


def document(tmp_path: Path, **more: object) -> Unit:
    storage = tmp_path / "storage"
    storage.mkdir(exist_ok=True)
    (storage / "workspace.id").write_text("1234567890123456\n")
    config = AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url="http://127.0.0.1:9", instance_dir="", cache_dir="",
        logs_dir=str(storage / "logs"), node_code_dir="",
    )  # fmt: skip
    values: dict[str, object] = {
        "version": brickyard.__version__, "workspace_id": "1234567890123456", "machine_dir": str(tmp_path / "machine"),
        "storage_dir": str(storage), "config": config,
    }  # fmt: skip
    return msgspec.convert(values | more, Unit)


def test_the_machine_fills_in_its_places(tmp_path: Path) -> None:
    config = place(document(tmp_path))
    assert config.directory == tmp_path / "machine/instances/1234567890123456/i-1"
    assert config.directory.stat().st_mode & 0o777 == 0o700
    assert config.data_dir == str(tmp_path / "machine/instances")  # hidden from the node
    assert config.cache_dir == str(tmp_path / "machine/cache")
    assert (Path(config.node_code_dir) / "start.py").is_file()
    assert (config.python, config.host) == (sys.executable, "127.0.0.1")
    assert place(document(tmp_path, cache_dir="/shared", host="10.0.0.7")).cache_dir == "/shared"


def test_an_engine_may_say_where_the_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("127.0.0.9", "::1", "fd00::17"):
        monkeypatch.setenv(ADDRESS_VARIABLE, address)
        assert place(document(tmp_path)).host == address


def test_a_name_that_the_engine_gives_is_its_ipv4_address_if_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, "machine")

    def named(*addresses: str) -> str:
        families = [(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in addresses]
        answers = [(family, socket.SOCK_STREAM, 6, "", (each, 0)) for family, each in families]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
        return place(document(tmp_path)).host

    assert named("2001:db8::1", "192.0.2.1") == "192.0.2.1"
    assert named("2001:db8::1", "2001:db8::2") == "2001:db8::1"


def test_a_document_from_stdin_is_not_left_there(tmp_path: Path) -> None:
    file = tmp_path / "unit.json"
    file.write_bytes(msgspec.json.encode(document(tmp_path)))
    code = "import os, pathlib; from brickyard.agent import unit; unit.read(pathlib.Path('-')); print(os.readlink('/dev/fd/0'))"
    with file.open() as given:
        done = subprocess.run([sys.executable, "-c", code], stdin=given, capture_output=True, text=True, check=True)
    assert done.stdout == "/dev/null\n"


def test_tokens_may_come_apart_from_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document_without, tokens = apart(msgspec.json.encode(document(tmp_path)))
    file = tmp_path / "unit.json"
    file.write_bytes(document_without)
    assert (read(file).config.agent_token, read(file).config.server_token) == ("", "")
    monkeypatch.setenv(TOKENS_VARIABLE, tokens.decode())
    assert (read(file).config.agent_token, read(file).config.server_token) == ("a", "s")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no /proc")
def test_its_user_cannot_read_its_memory_and_environment() -> None:
    """What runs users' code without isolation is the agent's user, and has no privileges, like the agent."""
    plain = [sys.executable, "-c", UNPRIVILEGED]
    look = [*plain, "-c", "import sys; print(open(f'/proc/{sys.argv[1]}/environ').read(), open(f'/proc/{sys.argv[1]}/mem'))"]

    def visible(pid: int) -> bool:
        done = subprocess.run([*look, str(pid)], capture_output=True, text=True, check=False)
        assert done.returncode == 0 or "PermissionError" in done.stderr, done.stderr
        return "TOKENS" in done.stdout

    env = {**os.environ, TOKENS_VARIABLE: "{}"}
    other = [*plain, "-c", "import sys; sys.stdin.read()"]
    agent = [*plain, "-m", "brickyard.agent", "--unit", "-"]
    with (
        subprocess.Popen(other, env=env, stdin=subprocess.PIPE) as process,
        subprocess.Popen(agent, env=env, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as hidden,
    ):
        until(lambda: visible(process.pid), "another program of the user is open to it")
        until(lambda: not visible(hidden.pid), "the agent is not")
        assert hidden.poll() is None
        for each in (process, hidden):
            assert each.stdin is not None
            each.stdin.close()


def test_what_killed_agents_left_is_removed_and_what_lives_stays(tmp_path: Path) -> None:
    instances = tmp_path / "machine/instances/1234567890123456"
    (instances / "i-dead/node").mkdir(parents=True)
    (instances / "i-dead/agent.lock").touch()
    os.utime(instances / "i-dead/agent.lock", (1, 1))
    (instances / "i-newest").mkdir()
    (instances / "i-new").mkdir()
    (instances / "i-new/agent.lock").touch()  # its agent is about to take it
    place(document(tmp_path))
    assert sorted(path.name for path in instances.iterdir()) == ["i-1", "i-new", "i-newest"]


@pytest.mark.parametrize(("found", "why"), [(None, "is not mounted there"), ("9", "belongs to workspace 9")])
def test_a_machine_without_the_storage_is_refused(tmp_path: Path, found: str | None, why: str) -> None:
    unit = document(tmp_path)
    path = Path(unit.storage_dir) / "workspace.id"
    path.unlink()
    if found:
        path.write_text(found)
    with pytest.raises(UnitError, match=why):
        place(unit)


def test_a_mount_on_which_commits_could_replace_each_other_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = document(tmp_path)
    (Path(unit.storage_dir) / "dbfs").mkdir()
    monkeypatch.setattr("os.link", shutil.copy)
    with pytest.raises(UnitError, match=f"{unit.storage_dir}/dbfs"):
        place(unit)


def test_a_directory_that_another_user_planted_is_refused(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "machine").symlink_to(tmp_path / "theirs")
    with golden.refused(UnitError, user=f"user {os.geteuid()}", where=WHERE):
        place(document(tmp_path))
    assert not list((tmp_path / "theirs").iterdir())


def test_another_version_is_refused_before_the_document_is_understood(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "unit.json").write_text('{"version": "99.0", "of": "the future"}')
    with golden.refused(UnitError, "Install Brickyard 99.0", version=brickyard.__version__, where=WHERE):
        read(tmp_path / "unit.json")
    command = [sys.executable, "-m", "brickyard.agent", "--unit", "-", "--with-parent"]
    done = subprocess.run(command, input=b'{"version": "99.0"}', capture_output=True, check=False)
    assert done.returncode == CONFIG_EXIT
    assert b"Install Brickyard 99.0 there, " in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("count", "visible", "numbers"), [(0, "0,1", ()), (2, "1,3", (1, 3)), (1, "GPU-2", (2,)), (4, "", (0, 1, 2, 3))]
)
def test_assigned_gpus(count: int, visible: str, numbers: tuple[int, ...]) -> None:
    assert tuple(gpu.number for gpu in assigned(count, visible, GPUS)) == numbers


@pytest.mark.parametrize(("count", "visible"), [(1, "0,1"), (1, "7"), (1, ""), (2, "GPU-2")])
def test_gpus_that_do_not_match_are_refused(count: int, visible: str, golden: Golden) -> None:
    with golden.refused(UnitError, "nvidia-smi", where=WHERE):
        assigned(count, visible, GPUS)


def test_the_address_that_leads_to_the_server() -> None:
    assert own_address("http://127.0.0.1:8080") == "127.0.0.1"
    assert own_address("https://[::1]") == "::1"
