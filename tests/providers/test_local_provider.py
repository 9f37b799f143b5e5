"""The local provider with real agents: what is listed, what is refused, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.config.settings import Settings
from brickyard.domain.node import Phase
from brickyard.domain.nodetypes import NodeType
from brickyard.machine import addresses
from brickyard.machine.gpus import opened
from brickyard.providers import nodetypes
from brickyard.providers.base import CapacityError, InvalidError, LaunchRequest, TransientError
from brickyard.providers.capacity import Hardware, require
from brickyard.providers.local import LocalProvider, ending, loopback_address
from brickyard.sandbox import launcher, network
from tests.agent.world import FAKES, World, assignment, living, world
from tests.support.golden import Golden
from tests.support.gpus import MODEL, describe
from tests.support.patience import until

NAME = f"i-{secrets.token_hex(4)}-"  # tests that run beside these have other ones
I1, I2, I3, I4, I5 = (f"{NAME}{number}" for number in range(1, 6))
SMALL = NodeType(node_type_id="small", num_cores=2, memory_mb=4096, category="test")
LARGE = NodeType(node_type_id="i3.xlarge", num_cores=4, memory_mb=31232, category="test")
GPU = NodeType(node_type_id="gpu", num_cores=1, memory_mb=1024, category="test", num_gpus=1)


class Instances:
    """The instances of a provider, whose directories are in `place`."""

    provider: LocalProvider
    place: Path

    def directory(self, instance_id: str) -> Path:
        return self.place / "instances" / instance_id

    def pid(self, instance_id: str) -> int:
        path = self.directory(instance_id) / "agent.pid"
        until(path.exists)
        return int(json.loads(path.read_bytes())["pid"])

    def gone(self, instance_id: str) -> None:
        def ended() -> bool:
            self.provider.terminate(instance_id, reason="the test is over")
            return instance_id not in self.provider.observe()

        until(ended)


class Shop(Instances):
    """A provider, and the server that its agents call."""

    def __init__(self, here: World) -> None:
        self.here, self.place = here, here.data_dir
        self.gpus = here.data_dir.parent / "gpus.json"
        describe(self.gpus, {}, {})
        self.provider = self.open()

    def open(self, **settings: object) -> LocalProvider:
        """A provider as a newly started server would make it."""
        values = {
            "data_dir": self.here.data_dir,
            "cache_dir": self.here.cache_dir,
            "cpu_overcommit": 4.0,
            "memory_overcommit": 1.5,
        }
        return LocalProvider(
            settings=Settings(**{**values, **settings}),  # type: ignore[arg-type]
            server_file=self.here.server.file,
            node_types=(SMALL, LARGE, GPU),
            machine=Hardware(2, 32 * 1024, 2),
            environments={"fake": "fake"},
            node_code_dir=FAKES,
            gpu_file=str(self.gpus),
        )

    def request(self, instance_id: str, node_type: NodeType = SMALL) -> LaunchRequest:
        return LaunchRequest(
            instance_id=instance_id, node_type=node_type, server_url=self.here.server.url, agent_token="agent-secret",
            server_token="server-secret",
        )  # fmt: skip

    def launch(self, instance_id: str, node_type: NodeType = SMALL) -> None:
        self.provider.launch(self.request(instance_id, node_type))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with world(tmp_path) as here:
        made = Shop(here)
        yield made
        made.provider.close(keep_nodes=False)
        assert not made.provider.observe()


def test_launch_observe_terminate(shop: Shop) -> None:
    shop.launch(I1)
    assert shop.provider.observe()[I1].alive
    shop.here.server.phase(I1, Phase.IDLE)
    pid = shop.pid(I1)
    assert os.getsid(pid) == pid, "it is the leader of a session of its own"
    mode = (shop.directory(I1) / "agent.json").stat().st_mode
    assert mode & 0o777 == 0o600
    assert shop.directory(I1).stat().st_mode & 0o777 == 0o700
    shop.gone(I1)
    assert not living(pid)
    assert not shop.directory(I1).exists()


def test_instances_have_networks_of_their_own_where_the_machine_allows_it(shop: Shop) -> None:
    allowed = network.allowed(launcher.choose("auto", launcher.probe()))
    for each in (I1, I2):
        shop.launch(each)
    configs = [msgspec.json.decode((shop.directory(each) / "agent.json").read_bytes(), type=AgentConfig) for each in (I1, I2)]
    assert [config.network for config in configs] == [allowed.kind] * 2
    if allowed.kind == "isolated":
        assert len({config.address for config in configs}) == 2
        assert all(addresses.in_range(config.node_host) for config in configs)
    else:
        assert all(config.network_reason for config in configs)
    shop.gone(I1)
    assert not configs[0].ways_dir or not Path(configs[0].ways_dir).exists()


def test_a_new_server_puts_instances_on_the_switchboard_that_lives(shop: Shop) -> None:
    if network.allowed(launcher.choose("auto", launcher.probe())).kind == "shared":
        pytest.skip("no networks here")
    shop.launch(I1)
    shop.here.server.phase(I1, Phase.IDLE)
    shop.provider = shop.open()
    shop.launch(I2)
    assert switchboard(shop.pid(I1)) == switchboard(shop.pid(I2))


def switchboard(pid: int) -> int:
    """The user namespace that an agent was given."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return Path(f"/proc/{pid}/fd/{int(words[words.index(b'--switchboard') + 1])}").stat().st_ino


def test_what_a_server_does_for_users_reaches_what_their_nodes_reach(shop: Shop) -> None:
    if network.allowed(launcher.choose("auto", launcher.probe())).kind == "shared":
        pytest.skip("no networks here")

    async def reached(provider: LocalProvider, port: int) -> bool:
        async with provider.lend_network() as lent:
            assert lent is not None
            program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 60)"
            line = launcher.enter(sys.executable, "exec", [sys.executable, "-c", program], network=lent)
            process = await asyncio.create_subprocess_exec(*line, stderr=asyncio.subprocess.DEVNULL, pass_fds=lent)
            return await process.wait() == 0

    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        assert not asyncio.run(reached(shop.provider, port)), "services of this machine are not for clusters"
        assert asyncio.run(reached(shop.open(network_allow=f"127.0.0.1:{port}"), port))
    assert not list((shop.here.data_dir / "ways").glob(".lent-*"))

    async def shared() -> object:
        async with shop.open(network="shared").lend_network() as lent:
            return lent

    assert asyncio.run(shared()) is None


def test_networks_can_be_switched_off(shop: Shop, golden: Golden) -> None:
    shop.provider = shop.open(network="shared")
    shop.launch(I1)
    shop.here.server.assign(I1, assignment())
    status = shop.here.server.phase(I1, Phase.READY)
    golden(status.network)
    assert status.host == loopback_address(I1)


def test_launching_again_changes_nothing(shop: Shop) -> None:
    shop.launch(I1)
    shop.here.server.phase(I1, Phase.IDLE)
    pid = shop.pid(I1)
    shop.launch(I1)
    shop.open().launch(shop.request(I1))
    assert shop.pid(I1) == pid
    assert len({report.pid for report in shop.here.server.reports}) == 1


def test_terminating_the_unknown_is_a_success(shop: Shop) -> None:
    shop.provider.terminate("i-unknown", reason="a test")
    shop.provider.terminate("../../etc", reason="a test")


def test_what_was_terminated_is_not_launched_again(shop: Shop) -> None:
    shop.launch(I1)
    (shop.directory(I1) / "ending.json").write_text(json.dumps({"reason": "a test", "since_ms": 0}))
    with pytest.raises(InvalidError, match="terminated"):
        shop.launch(I1)
    with pytest.raises(InvalidError):
        shop.launch("../i-1")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers at all of 127.0.0.0/8")
def test_nodes_have_addresses_of_their_own() -> None:
    found = {loopback_address(f"i-{number:016x}") for number in range(1000)}
    assert len(found) > 990
    assert all(ipaddress.ip_address(each) in ipaddress.ip_network("127.64.0.0/10") for each in found)
    assert not [each for each in found if each.rpartition(".")[2] in ("0", "255")]
    assert loopback_address("i-1") == loopback_address("i-1")
    for address in list(found)[:3]:
        with socket.create_server((address, 0)) as server:
            socket.create_connection(server.getsockname()).close()


def test_running_out_says_how_much_was_asked_and_left(shop: Shop, golden: Golden) -> None:
    shop.launch(I1, LARGE)
    with golden.refused(CapacityError, "i3.xlarge", "cpu_overcommit", "memory_overcommit") as raised:
        shop.launch(I2, LARGE)
    assert (raised.value.asked, raised.value.left) == ("4 cores and 30.5 GiB", "4 cores and 17.5 GiB")
    assert I2 not in shop.provider.observe()
    capacity = shop.provider.capacity()
    assert (capacity.cores_left, capacity.memory_mb_total) == (4.0, 48 * 1024)
    shop.gone(I1)
    shop.launch(I2, LARGE)


def test_a_shortage_is_what_launches_would_meet(shop: Shop) -> None:
    assert shop.provider.shortage([LARGE]) is None
    assert shop.provider.shortage([LARGE, LARGE]) is not None, "together they are too much"
    shop.launch(I1, LARGE)
    short = shop.provider.shortage([LARGE])
    with pytest.raises(CapacityError) as raised:
        shop.launch(I2, LARGE)
    assert (str(short), short and short.asked) == (str(raised.value), raised.value.asked)
    assert shop.provider.shortage([LARGE], freed=[I1]) is None, "a cluster that restarts is not refused because of itself"
    assert shop.provider.shortage([SMALL]) is None


def test_a_node_counts_for_no_more_than_the_machine(golden: Golden) -> None:
    """A driver and two workers of 30.5 GiB each on a laptop of 8 GiB, which shows 7.5 of them: what people's code asks for."""
    laptop = Hardware(4, 7680)
    total = laptop.times(cores=Settings().cpu_overcommit, memory=Settings().memory_overcommit)
    nodes = [Hardware.of(LARGE, laptop)] * 3
    for count in range(3):
        require(LARGE, machine=laptop, total=total, left=total.without(nodes[:count]))
    with golden.refused(CapacityError):
        require(LARGE, machine=laptop, total=total, left=total.without([*nodes, Hardware(0, 512)]))


def test_what_is_ending_or_dead_takes_no_room(shop: Shop) -> None:
    shop.launch(I1, LARGE)
    os.kill(shop.pid(I1), signal.SIGKILL)
    until(lambda: not shop.provider.observe()[I1].alive)
    shop.launch(I2, LARGE)
    shop.provider.terminate(I2, reason="a test")
    shop.launch(I3, LARGE)


def test_gpus_are_given_to_one_instance_each(shop: Shop) -> None:
    shop.launch(I1, GPU)
    shop.launch(I2, GPU)
    with pytest.raises(CapacityError, match="GPU"):
        shop.launch(I3, GPU)
    given = [json.loads((shop.directory(each) / "agent.json").read_bytes()) for each in (I1, I2)]
    assert [(each["gpus"], each["gpu_uuids"]) for each in given] == [([3], ["GPU-0"]), ([4], ["GPU-1"])]
    with pytest.raises(CapacityError, match="GPU"):
        shop.open().launch(shop.request(I3, GPU))  # a server that has just started


def test_a_gpu_is_free_once_nothing_is_left_of_its_instance(shop: Shop, golden: Golden) -> None:
    shop.launch(I1, GPU)
    shop.launch(I2, GPU)
    os.kill(shop.pid(I1), signal.SIGKILL)
    until(lambda: not shop.provider.observe()[I1].alive)
    with golden.refused(TransientError):
        shop.launch(I3, GPU)
    shop.gone(I1)
    shop.launch(I3, GPU)
    assert json.loads((shop.directory(I3) / "instance.json").read_bytes())["gpus"] == [3]


def test_a_gpu_that_was_lost_is_given_to_nobody(shop: Shop) -> None:
    describe(shop.gpus, {}, {}, lost=(0,))
    shop.launch(I1, GPU)
    assert json.loads((shop.directory(I1) / "instance.json").read_bytes())["gpus"] == [4]
    with pytest.raises(TransientError, match="0 of 1"):
        shop.launch(I2, GPU)


def test_types_with_gpus_are_offered_where_there_are_gpus(tmp_path: Path) -> None:
    found = opened(describe(tmp_path / "gpus.json", {})).found()
    types = {each.node_type_id: each for each in nodetypes.offered(found)}
    assert (types["brickyard.machine"].num_gpus, types["brickyard.machine"].gpu_model) == (1, MODEL)
    assert {each.num_gpus for each in types.values()} == {0, 1}
    assert {each.gpu_model for each in types.values() if each.num_gpus} == {MODEL}, "whatever cloud they are named after"
    assert not [each for each in nodetypes.offered() if each.num_gpus]


def test_a_killed_agent_is_listed_as_dead_and_its_remains_are_removed(shop: Shop) -> None:
    shop.launch(I1)
    shop.here.server.assign(I1, assignment(spark_conf={"test.child": "yes"}))
    shop.here.server.phase(I1, Phase.READY)
    groups = json.loads((shop.directory(I1) / "cgroup.json").read_bytes())["directories"]
    os.kill(shop.pid(I1), signal.SIGKILL)
    until(lambda: not shop.provider.observe()[I1].alive)
    shop.gone(I1)
    assert not any(Path(group).exists() for group in groups)
    kept = shop.here.data_dir / "logs" / "0101-000000-abcdefgh" / f"{I1}-1"
    assert (kept / "driver.log").exists()
    assert (kept / "agent.log").exists()


def test_what_a_node_leaves_is_removed_in_turns_that_nobody_waits_long_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.launch(I1)
    os.kill(shop.pid(I1), signal.SIGKILL)
    until(lambda: not shop.provider.observe()[I1].alive)
    for number in range(50):
        (shop.directory(I1) / "node" / "tmp" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(ending, "REMOVE_S", 0.0)
    for _ in range(3):
        shop.provider.terminate(I1, reason="test")
        assert I1 in shop.provider.observe()
    monkeypatch.undo()
    shop.gone(I1)


def test_an_agent_that_does_not_listen_is_killed(shop: Shop) -> None:
    shop.launch(I1)
    shop.here.server.phase(I1, Phase.IDLE)
    pid = shop.pid(I1)
    os.kill(pid, signal.SIGSTOP)
    shop.provider.terminate(I1, reason="a test")
    assert I1 in shop.provider.observe()
    mark = shop.directory(I1) / "ending.json"
    mark.write_text(json.dumps({"reason": "a test", "since_ms": json.loads(mark.read_bytes())["since_ms"] - 60_000}))
    shop.gone(I1)
    assert not living(pid)


def test_a_server_that_died_in_the_middle_leaves_nothing_unseen(shop: Shop) -> None:
    root = shop.here.data_dir / "instances"
    (root / f".{I1}").mkdir()  # died while the directory was being made
    (root / I2).mkdir()  # died while it was being removed
    shop.launch(I3)
    config = (shop.directory(I3) / "agent.json").read_bytes()
    record = msgspec.json.decode((shop.directory(I3) / "instance.json").read_bytes())
    (root / I4).mkdir()  # died between the directory and the process
    (root / I4 / "agent.json").write_bytes(config.replace(I3.encode(), I4.encode()))
    (root / I4 / "instance.json").write_bytes(msgspec.json.encode(record))
    (root / I5).mkdir()  # the same, long ago
    (root / I5 / "instance.json").write_bytes(msgspec.json.encode({**record, "launched_ms": 1}))
    shop.provider = shop.open()
    assert not (root / f".{I1}").exists()
    assert {key: value.alive for key, value in shop.provider.observe().items()} == {
        I2: False, I3: True, I4: True, I5: False,
    }  # fmt: skip
    shop.launch(I4)
    shop.here.server.phase(I4, Phase.IDLE)
    for each in (I2, I5):
        shop.gone(each)


def test_close_ends_everything_or_nothing(shop: Shop) -> None:
    for each in (I1, I2):
        shop.launch(each)
    pids = [shop.pid(each) for each in (I1, I2)]
    shop.provider.close(keep_nodes=True)
    assert all(living(pid) for pid in pids)
    adopted = shop.open()
    assert all(each.alive for each in adopted.observe().values())
    adopted.close(keep_nodes=False)
    assert not adopted.observe()
    until(lambda: not any(living(pid) for pid in pids))


def test_many_threads(shop: Shop) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            shop.launch(f"{NAME}{number % 3}", GPU if number % 3 else SMALL)
            shop.provider.observe()
            shop.provider.terminate(f"{NAME}0", reason="a test")
        except InvalidError:
            pass  # launched after it was terminated
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert set(shop.provider.observe()) >= {I1, I2}


def test_observing_is_cheap(shop: Shop) -> None:
    for number in range(4):
        shop.launch(f"{NAME}{number}", NodeType(node_type_id="tiny", num_cores=0.5, memory_mb=256, category="test"))
    shop.provider.observe()
    began = time.process_time()
    for _ in range(100):
        shop.provider.observe()
    assert (time.process_time() - began) / 100 < 0.002 * 4 / 10 * 2


def test_no_secret_of_the_server_is_handed_down(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRICKYARD_ADMIN_TOKEN", "dapi0")
    monkeypatch.setenv("DATABRICKS_TOKEN", "dapi1")
    shop.launch(I1)
    environ = Path(f"/proc/{shop.pid(I1)}/environ").read_bytes()
    assert b"dapi" not in environ
