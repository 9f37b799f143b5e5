"""The Ray provider on a real Ray: the contract, and what it does with machines that are well."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import brickyard
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError, InvalidError, Observed, Provider, TransientError
from brickyard.testing.contract import Bench, ProviderContract
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.rays import FOURTH, HEAD, SECOND, THIRD, RayCluster
from tests.support.rayworld import TOKEN, World

pytestmark = [pytest.mark.spark, pytest.mark.extended]  # it starts much, and waits: not beside the fast tests

HUGE = NodeType(node_type_id="huge", num_cores=512, memory_mb=4_000_000, category="test")
TINY = {"node_type_id": "tiny", "num_cores": 0.5, "memory_mb": 256}


class TestRay(ProviderContract):
    @pytest.fixture
    def bench(self, world: World) -> Bench:
        reopen: Callable[[], Provider] = world.open
        made = Bench(reopen(), reopen=reopen, count=world.agents)
        made.refusals = {CapacityError: lambda: made.request(HUGE)}
        return made


def test_node_types_are_those_of_rays_machines_and_of_the_settings(world: World) -> None:
    provider = world.open(node_types=[TINY])
    assert [each.node_type_id for each in provider.node_types()] == ["tiny", "ray.1c-2g", "ray.2c-5g"]
    room = provider.capacity()
    assert room is not None and (room.cores_total, room.memory_mb_total) == (6.0, 15 * 1024)
    wanted = [provider.node_types()[2]] * 3
    assert provider.shortage(wanted) is None
    missing = provider.shortage([*wanted, wanted[0]])
    assert missing is not None and (missing.asked, missing.left) == ("2 cores, 5 GiB", "0 cores, 0 GiB")


def test_instances_spread_over_the_machines(world: World) -> None:
    world.open()
    world.launch("i-1", "i-2", "i-3", node_type=world.providers[0].node_types()[1])
    assert sorted(world.host_of(name) for name in ("i-1", "i-2", "i-3")) == [HEAD, SECOND, THIRD]


def test_what_is_being_ended_leaves_its_room_to_the_next(world: World, golden: Golden) -> None:
    """A cluster that restarts on full machines is not refused because of itself."""
    provider = world.open()
    whole = provider.node_types()[1]
    world.launch("i-1", "i-2", "i-3", node_type=whole)
    with golden.refused(CapacityError):
        provider.launch(world.request("i-4", whole))
    room = world.host_of("i-2")
    provider.terminate("i-2", reason="it restarts")
    world.launch("i-4", node_type=whole)
    assert world.host_of("i-4") == room
    with pytest.raises(CapacityError):
        provider.launch(world.request("i-5", whole))


def test_the_servers_of_a_workspace_see_the_same_and_others_see_nothing(
    world: World, tmp_path: Path, ray: RayCluster, golden: Golden
) -> None:
    first, second = world.open(), world.open()
    first.launch(world.request("i-1"))
    assert set(second.observe()) == {"i-1"}
    second.launch(world.request("i-1"))
    (tmp_path / "other").mkdir()
    stranger = World(tmp_path / "other", ray)
    assert stranger.open(workspace_id="9").observe() == {}
    stranger.providers[0].terminate("i-1", reason="it is not theirs")
    stranger.close()
    until(lambda: world.agents("i-1") == 1, "its agent")
    second.terminate("i-1", reason="the other server's")
    with golden.refused(InvalidError):
        second.launch(world.request("i-1"))
    world.end("i-1")
    with golden.refused(InvalidError):
        second.launch(world.request("i-1"))
    until(lambda: not first.observe(), "the first server no longer lists it")
    until(lambda: not world.agents("i-1"), "its agent has ended")


def test_tokens_are_nowhere_on_disk_and_in_no_command_line(world: World, ray: RayCluster) -> None:
    world.open()
    world.launch("i-1")
    assert not [key for key in world.agent_processes("i-1")[0].environ() if key.startswith("RAY_")]
    commands = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not [each for each in commands if TOKEN in each]
    for root in (ray.place, world.directory):
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert TOKEN.encode() not in path.read_bytes(), path


def test_another_version_on_the_machine_says_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    world.open(agent_python=sys.executable)
    with monkeypatch.context() as patch:
        patch.setattr(brickyard, "__version__", "99.0")
        request = world.request("i-1")
        world.providers[0].launch(request)
    golden(world.ended("i-1"), host=socket.gethostname())
    with pytest.raises(InvalidError):
        world.providers[0].launch(request)
    world.end("i-1")
    assert world.seen("i-1") is None


def test_a_python_without_brickyard_says_what_to_do(world: World, tmp_path: Path, golden: Golden) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    world.open(agent_python=python)
    world.providers[0].launch(world.request("i-1"))
    message = world.ended("i-1")
    golden(message, f"{python} ", "agent_python")
    world.open(agent_python="/nonexistent/python")
    world.providers[-1].launch(world.request("i-2"))
    assert "cannot start /nonexistent/python" in world.ended("i-2")


def test_a_machine_without_the_storage_says_so(world: World, golden: Golden) -> None:
    world.open(machine_storage_dir="/nonexistent")
    world.providers[0].launch(world.request("i-1"))
    golden(world.ended("i-1"), "/nonexistent", host=socket.gethostname())


def test_with_an_autoscaler_an_instance_waits_and_says_for_what(world: World, golden: Golden) -> None:
    provider = world.open(autoscaler=True)
    assert provider.shortage([HUGE]) is None
    provider.launch(world.request("i-1", HUGE))
    seen = world.seen("i-1")
    assert seen is not None and seen.alive
    golden(seen.message, "512 cores, 3906.2 GiB")
    provider.terminate("i-1", reason="nobody wants it any more")
    until(lambda: not provider.observe(), "it no longer waits")


def test_what_waits_is_started_when_a_machine_joins(world: World, ray: RayCluster, golden: Golden) -> None:
    provider = world.open(autoscaler=True)
    wide = NodeType(node_type_id="wide", num_cores=3, memory_mb=1024, category="test")
    provider.launch(world.request("i-1", wide))
    until(lambda: "none of its machines is so large yet" in str(world.seen("i-1")), "it waits")
    world.open(autoscaler=True)  # a server that starts anew does not know what was asked for it
    seen = world.seen("i-1")
    assert seen is not None
    golden(seen.message)
    ray.start_node(FOURTH, num_cpus="3")
    try:
        until(lambda: world.agents("i-1") == 1, "its agent")
        assert world.host_of("i-1") == FOURTH
        until(lambda: world.seen("i-1") == Observed(instance_id="i-1", alive=True), "it waits for nothing")
        until(lambda: "ray.3c-5g" in [each.node_type_id for each in provider.node_types()], "the machine's size is on offer")
    finally:
        ray.kill(FOURTH)
    until(lambda: "ray.3c-5g" not in [each.node_type_id for each in provider.node_types()], "the size is gone with the machine")


def test_an_agent_that_ends_by_itself_frees_its_room_and_says_so(world: World, golden: Golden) -> None:
    world.open()
    world.launch("i-1")
    world.agent_processes("i-1")[0].terminate()
    golden(world.ended("i-1"), "exit code 0")
    world.end("i-1")


def test_a_killed_actor_takes_its_agent_along(world: World, golden: Golden) -> None:
    world.open()
    world.launch("i-1")
    agent = world.agent_processes("i-1")[0]
    worker = agent.parent()
    assert worker is not None
    worker.kill()
    golden(world.ended("i-1"))
    until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE, "the agent has ended")
    world.end("i-1")


def test_the_process_beside_the_server_may_die(world: World) -> None:
    provider = world.open()
    world.launch("i-1")
    died = provider.process
    psutil.Process(died).kill()

    def back() -> bool:
        try:
            return set(provider.observe()) == {"i-1"} and provider.process != died
        except TransientError as error:
            assert "Ray" in str(error)
            return False

    until(back, "the instance is listed again")
    assert world.agents("i-1") == 1
    world.end("i-1")


def test_the_process_beside_the_server_ends_with_it(world: World, tmp_path: Path) -> None:
    """Also if the server is killed: its end of the pipe is closed then."""
    code = """
import json, sys, time
from pathlib import Path
from tests.support.rays import RayCluster
from tests.support.rayworld import World
world = World.__new__(World)
world.directory, world.providers = Path(sys.argv[1]), []
world.ray = type("Known", (), {"address": sys.argv[2]})
print(json.dumps(world.open().process), flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", code, str(world.directory), world.ray.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        beside = psutil.Process(json.loads(server.stdout.readline()))
        server.kill()
    until(lambda: not beside.is_running(), "it has ended too")
