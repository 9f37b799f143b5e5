"""An agent and several servers: it goes from one to another as they come and go, and its token to no stranger."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.link.servers import KEPT_FILE, Servers
from brickyard.domain.node import Phase, ServerAddress
from brickyard.domain.samples import NodeSamples
from brickyard.machine import processes
from tests.agent.world import FakeServer, Instance, World, assignment
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, Stopwatch, until

ROOT = Path(__file__).parents[2]
FOUND_S = 5.0  # an agent has another server by then, whatever became of its own (docs/replicas.md)
_CHILD = """
import sys, time
from pathlib import Path
import msgspec
from brickyard.domain.node import ServerAddress
from tests.agent.world import FakeServer, assignment
server = FakeServer(Path(sys.argv[1]), file="killed.json")
server.start()
server.servers = (server.address, msgspec.json.decode(sys.argv[2], type=ServerAddress))
server.assign(sys.argv[3], assignment())
time.sleep(3600)
"""


class Other:
    """A server in a process of its own, which can be killed. It tells agents of itself and of the world's server."""

    def __init__(self, here: World, instance: str) -> None:
        self.file = here.data_dir / "killed.json"
        told = json.dumps({"url": here.server.url, "file": str(here.server.file)})
        command = [sys.executable, "-c", _CHILD, str(here.data_dir), told, instance]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT)
        until(lambda: self.file.exists() and self.file.read_text(), "the other server's note")
        self.url = str(json.loads(self.file.read_text())["url"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def other(here: World, instance: Instance) -> Iterator[Other]:
    made = Other(here, instance.id)
    try:
        yield made
    finally:
        made.kill()


def log(instance: Instance) -> str:
    path = instance.directory / "agent.log"
    return path.read_text() if path.exists() else ""


def ready_at(here: World, server: Other, one: Instance) -> None:
    """The agent has become a node at that server's word."""
    here.server.assign(one.id, assignment())
    one.start()
    until(lambda: (one.directory / KEPT_FILE).exists() and (one.node / "logs").exists(), "the node at the other server")
    assert not here.server.reports, "it called another server than the one that launched it"
    assert server.process.poll() is None


@pytest.mark.parametrize("by_url", [False, True])
def test_it_turns_to_another_server_when_its_own_is_killed(here: World, by_url: bool, golden: Golden) -> None:
    one = here.instance()
    with other(here, one) as killed:
        own = {"server_url": killed.url, "server_file": "" if by_url else str(killed.file)}
        one.config = here.instance(one.id, **own).config
        ready_at(here, killed, one)
        killed.kill()
        watch = Stopwatch()
        assert here.server.phase(one.id, Phase.READY).generation == 1
        assert watch.took_s < FOUND_S
        until(lambda: here.server.polls, "a long poll at the other server")
    # Its next process finds that server as well, though the one that launched it is no more.
    here.server.reports.clear()
    one.end()
    one.start()
    here.server.status(one.id, lambda _: True)
    turned = [line for line in log(one).splitlines() if line.endswith(f" {here.server.url}")]
    golden(turned[0], here.server.url)


def test_it_sends_a_new_server_the_samples_that_a_killed_one_may_not_have_written(here: World) -> None:
    one = here.instance()
    here.server.assign(one.id, assignment())
    one.start()
    here.server.phase(one.id, Phase.READY)

    def sent() -> list[NodeSamples]:
        return [each.samples for each in here.server.reports if each.samples is not None]

    until(lambda: any(each.earlier for each in sent()), "a report after one with samples that were taken")
    first = sent()[0].samples[0]
    here.server.samples_again = True
    here.server.reports.clear()
    until(lambda: any(each.samples[0] == first and not each.earlier for each in sent()), "all samples again")


def test_it_turns_to_another_server_when_its_own_hangs(here: World) -> None:
    one = here.instance()
    with other(here, one) as hung:
        one.config = here.instance(one.id, server_url=hung.url, server_file=str(hung.file)).config
        ready_at(here, hung, one)
        hung.process.send_signal(signal.SIGSTOP)
        here.server.phase(one.id, Phase.READY)
        until(lambda: here.server.polls, "a long poll at the other server, though the hung one holds one")


def test_its_token_goes_to_nobody_on_a_dead_servers_port(here: World) -> None:
    one = here.instance()
    with other(here, one) as killed:
        one.config = here.instance(one.id, server_url=killed.url, server_file=str(killed.file)).config
        ready_at(here, killed, one)
        killed.kill()
        host, _, port = killed.url.removeprefix("http://").partition(":")
        with socket.create_server((host, int(port))) as stranger:
            here.server.phase(one.id, Phase.READY)
            here.server.stop()  # now nobody is left, and it looks for a server again and again
            until(lambda: "cannot be reached" in log(one))
            time_to_try = time.monotonic() + 1.0
            until(lambda: time.monotonic() > time_to_try)
            stranger.setblocking(False)
            with pytest.raises(BlockingIOError):
                stranger.accept()


def test_it_moves_to_the_server_that_its_own_names(here: World) -> None:
    """To a stranger it does not go, and where nobody answers it does not stay."""
    second = FakeServer(here.data_dir, file="second.json")
    second.start()
    gone = FakeServer(here.data_dir, file="gone.json")
    gone.start()
    gone.stop()
    try:
        here.server.servers = second.servers = (here.server.address, second.address, gone.address)
        one = here.instance().start()
        here.server.assign(one.id, assignment())
        here.server.phase(one.id, Phase.READY)
        for nobody in (ServerAddress(url="http://127.0.0.1:9", file=str(here.data_dir / "stranger.json")), gone.address):
            here.server.move_to = nobody
            here.server.reports.clear()
            until(lambda: len(here.server.reports) >= 3, "it stays")
        assert not second.reports
        second.assign(one.id, assignment())
        here.server.move_to = second.address
        until(lambda: second.reports and second.polls, "reports and a long poll at the other server")
        here.server.reports.clear()
        polls = here.server.polls
        second.assign(one.id, assignment(2, 2))
        assert second.phase(one.id, Phase.READY).generation in (1, 2)
        second.status(one.id, lambda status: status.phase is Phase.READY and status.generation == 2)
        assert not here.server.reports
        assert here.server.polls == polls
        assert min(each.moves for each in second.reports) > 0
    finally:
        second.stop()


def test_it_goes_back_and_forth_and_says_which_report_is_the_newest(here: World) -> None:
    second = FakeServer(here.data_dir, file="second.json")
    second.start()
    try:
        here.server.servers = second.servers = (here.server.address, second.address)
        one = here.instance().start()
        here.server.assign(one.id, assignment())
        here.server.phase(one.id, Phase.READY)
        second.assign(one.id, assignment(2, 2))
        here.server.server_token = "an impostor's"  # what a stranger or a proxy answers counts as no answer
        assert second.phase(one.id, Phase.READY).generation in (1, 2)
        here.server.server_token = second.server_token
        here.server.reports.clear()
        here.server.assign(one.id, assignment(3, 3))
        second.database_away = True
        here.server.status(one.id, lambda status: status.phase is Phase.READY and status.generation == 3)
        moves = [each.moves for each in here.server.reports]
        assert min(moves) > max(each.moves for each in second.reports if each.status.generation == 1)
        assert moves == sorted(moves)
    finally:
        second.stop()


# ── which servers it may call ───────────────────────────────────────────────────────────────────────────────────────────────


def config(
    tmp_path: Path, *, url: str = "http://127.0.0.1:1", file: str = "", servers: tuple[ServerAddress, ...] = ()
) -> AgentConfig:
    return AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url=url, server_file=file, servers=servers,
        instance_dir=str(tmp_path), cache_dir="/", logs_dir="/", node_code_dir="/",
    )  # fmt: skip


def note(path: Path, url: str, *, pid: int = 0, start: int | None = None) -> str:
    itself = processes.find(os.getpid())
    assert itself is not None
    path.write_text(json.dumps({"pid": pid or itself.pid, "url": url, "start": itself.start if start is None else start}))
    return str(path)


def test_servers_of_this_machine_are_called_only_while_their_process_lives(tmp_path: Path) -> None:
    own = note(tmp_path / "own.json", "http://127.0.0.1:1")
    reused = note(tmp_path / "reused.json", "http://127.0.0.1:2", start=1)  # another process has its number now
    dead = note(tmp_path / "dead.json", "http://127.0.0.1:3", pid=2**22 - 1)
    told = (
        ServerAddress(url="http://127.0.0.1:2", file=reused),
        ServerAddress(url="http://127.0.0.1:3", file=dead),
        ServerAddress(url="http://127.0.0.1:4", file=str(tmp_path / "withdrawn.json")),
        ServerAddress(url="http://127.0.0.1:5"),  # it does not say how to know it
    )
    servers = Servers(config(tmp_path, file=own, servers=told))
    assert servers.candidates() == ["http://127.0.0.1:1"]
    note(tmp_path / "own.json", "http://127.0.0.1:9", start=1)
    assert servers.candidates() == []
    note(tmp_path / "own.json", "http://127.0.0.1:9")  # it was started again, on another port
    assert servers.candidates() == ["http://127.0.0.1:9"]


def test_the_server_that_answered_last_is_asked_first_and_what_was_told_is_kept(tmp_path: Path) -> None:
    servers = Servers(config(tmp_path))
    urls = [f"http://127.0.0.1:{port}" for port in range(1, 6)]
    servers.told(tuple(ServerAddress(url=url) for url in urls))
    for url in ("http://127.0.0.1:4", "http://127.0.0.1:2"):
        assert servers.answered(url)
        assert not servers.answered(url)
        assert servers.candidates()[0] == url
        assert sorted(servers.candidates()) == urls
    assert sorted(Servers(config(tmp_path)).candidates()) == urls
    servers.told((ServerAddress(url="http://127.0.0.1:7"),))
    assert sorted(servers.candidates()) == ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:7"]
    assert (tmp_path / KEPT_FILE).stat().st_mode & 0o777 == 0o600


def test_moves_count_the_servers_that_reports_went_to(tmp_path: Path) -> None:
    servers = Servers(config(tmp_path))
    assert [servers.reporting_to(url) for url in ("a", "a", "b", "b", "a")] == [0, 0, 1, 1, 2]


def test_a_damaged_note_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / KEPT_FILE).write_text("{")
    assert Servers(config(tmp_path)).candidates() == ["http://127.0.0.1:1"]
