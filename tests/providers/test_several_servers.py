"""Two servers' local providers on one storage: they count together, end each other's instances, and survive each other's end."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.providers.local import LocalProvider
from brickyard.sandbox import launcher, network
from tests.agent.world import FAKES, World, living, world
from tests.providers.otherserver import TOTAL, launch, open_provider
from tests.providers.test_local_provider import Instances, switchboard
from tests.support.patience import until

NAME = f"i-{secrets.token_hex(4)}-"  # tests that run beside these have other ones


class Servers(Instances):
    """One provider here, and another one in a process of its own."""

    def __init__(self, here: World, place: Path) -> None:
        self.storage = self.place = place / "storage"
        self._places = (self.storage, here.cache_dir, here.server.file, FAKES)
        self.provider = self.opened("one")
        self.other = subprocess.Popen(
            [sys.executable, "-m", "tests.providers.otherserver", *map(str, (place / "two", *self._places))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def opened(self, name: str) -> LocalProvider:
        return open_provider(self.storage.parent / name, *self._places)

    def say(self, **asked: Any) -> None:
        assert self.other.stdin is not None
        self.other.stdin.write(json.dumps(asked) + "\n")
        self.other.stdin.flush()

    def hear(self) -> Any:
        assert self.other.stdout is not None
        return json.loads(self.other.stdout.readline())

    def ask(self, **asked: Any) -> Any:
        self.say(**asked)
        return self.hear()

    def config(self, instance_id: str) -> AgentConfig:
        return msgspec.json.decode((self.directory(instance_id) / "agent.json").read_bytes(), type=AgentConfig)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with world(tmp_path) as here:
        made = Servers(here, tmp_path)
        yield made
        made.other.kill()
        made.other.communicate()
        made.provider.close(keep_nodes=False)
        assert not made.provider.observe()


def test_launches_of_two_servers_never_exceed_the_room_and_share_no_address(servers: Servers) -> None:
    ours, theirs = [f"{NAME}a{n}" for n in range(10)], [f"{NAME}b{n}" for n in range(10)]
    servers.say(launch=theirs)
    said = [launch(servers.provider, each) for each in ours] + servers.hear()
    assert said.count("launched") == TOTAL and said.count("full") == 20 - TOTAL
    assert servers.provider.capacity().cores_left == 0
    seen = servers.provider.observe()
    assert len(seen) == TOTAL and all(each.alive for each in seen.values())
    assert servers.ask(observe=True) == dict.fromkeys(seen, True)
    addresses = [config.address or config.instance_id for config in map(servers.config, seen)]
    assert len(set(addresses)) == TOTAL


def test_a_server_ends_what_another_one_launched(servers: Servers) -> None:
    mine, theirs = f"{NAME}1", f"{NAME}2"
    assert launch(servers.provider, mine) == "launched"
    assert servers.ask(launch=[theirs]) == ["launched"]
    pids = [servers.pid(each) for each in (mine, theirs)]

    def both_end(instance_id: str) -> bool:
        servers.say(terminate=instance_id)
        servers.provider.terminate(instance_id, reason="a test")  # both at once
        return bool(servers.hear()) and instance_id not in servers.provider.observe()

    for each in (mine, theirs):
        until(lambda each=each: both_end(each))  # type: ignore[misc] # mypy knows no type of a lambda with a default
    assert servers.ask(observe=True) == {}
    assert not any(living(pid) for pid in pids)
    assert servers.provider.capacity().cores_left == TOTAL


@pytest.mark.parametrize("step", ["directory", "agent"])
def test_a_server_that_is_killed_in_the_middle_of_a_launch_is_in_nobodys_way(servers: Servers, step: str) -> None:
    begun, next_ = f"{NAME}1", f"{NAME}2"
    servers.ask(die=step)
    servers.say(launch=[begun])
    servers.other.wait()
    assert launch(servers.provider, next_) == "launched"
    if step == "agent":  # on record, and it may be on the way
        assert set(servers.provider.observe()) == {begun, next_}
        servers.gone(begun)
    assert launch(servers.provider, begun) == "launched" if step == "directory" else True
    assert set(servers.provider.observe()) - {begun} == {next_}
    servers.opened("three")  # a new server clears what was half made
    assert not [path for path in (servers.storage / "instances").iterdir() if path.name.startswith(".")]


def test_a_launch_that_another_server_began_is_finished(servers: Servers) -> None:
    begun = f"{NAME}1"
    servers.ask(die="agent")
    servers.say(launch=[begun])
    servers.other.wait()
    assert launch(servers.provider, begun) == "launched"
    assert living(servers.pid(begun))


def test_all_servers_have_one_switchboard_also_when_no_agent_runs(servers: Servers) -> None:
    if network.allowed(launcher.choose("auto", launcher.probe())).kind == "shared":
        pytest.skip("no networks here")
    first, second = f"{NAME}1", f"{NAME}2"
    assert servers.ask(launch=[first]) == ["launched"]
    board = switchboard(servers.pid(first))
    servers.gone(first)
    assert launch(servers.provider, second) == "launched"
    assert switchboard(servers.pid(second)) == board
    servers.other.kill()
    servers.other.wait()
    servers.gone(second)
    third = servers.opened("three")
    assert launch(third, first + "x") == "launched"
    assert switchboard(servers.pid(first + "x")) == board
    assert len(list((servers.storage / "switchboards").iterdir())) == 2  # the killed server's was removed
