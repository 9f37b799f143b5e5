"""The simulated world as a process of its own: who starts it, who ends it, and what its agents do when servers die."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
import requests

from brickyard.config.settings import Settings
from brickyard.domain.node import ServerAddress
from brickyard.providers.base import CapacityError, LaunchRequest, TransientError
from brickyard.providers.simulated import knobsfile, wire
from brickyard.providers.simulated.remote import RemoteSimulatedProvider, end, end_unused
from brickyard.testing.builders import SMALL
from brickyard.testing.contract import Bench, ProviderContract
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until

NOBODY = "http://127.0.0.1:1"


class Place:
    """A workspace's directory, for as many servers as a test wants."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.knobs = directory / "knobs.toml"
        self.knobs.write_text("")

    def settings(self, **more: object) -> Settings:
        values = {"ends_with": os.getpid(), "simulated_knobs": self.knobs, **more}
        return Settings(data_dir=self.directory / "data", **values)  # type: ignore[arg-type] # keyword arguments of a struct

    def server(self, url: str = NOBODY, **more: object) -> RemoteSimulatedProvider:
        return RemoteSimulatedProvider(settings=self.settings(**more), server_url=url, node_types=[SMALL])

    @property
    def world(self) -> Path:
        return wire.directory(self.settings())

    @property
    def note(self) -> wire.Note:
        found = wire.find(self.world)
        assert found is not None
        return found

    def turn(self, **knobs: object) -> None:
        """Have the world know these, and no others."""
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in knobs.items())
        self.knobs.write_text(text)
        seen = knobsfile.in_force(self.knobs)
        until(lambda: seen.exists() and seen.read_text() == text, "the knobs are turned")

    def processes(self) -> list[psutil.Process]:
        """Worlds of this directory that live."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.world) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with one world for all tests of the contract."""
    with opened(tmp_path_factory.mktemp("shared")) as made:
        made.server().launch(request("i-first"))
        yield made


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[Place]:
    made = Place(directory)
    try:
        yield made
    finally:
        end(made.world)
        assert not made.processes()


class TestRemote(ProviderContract):
    @pytest.fixture
    def bench(self, shared: Place) -> Iterator[Bench]:
        made = Bench(shared.server(), reopen=shared.server)

        def refuse(**knobs: float) -> LaunchRequest:
            shared.turn(**knobs)
            return made.request()

        made.refusals = {
            CapacityError: lambda: refuse(max_instances=0),
            TransientError: lambda: refuse(launch_error=1.0),
        }
        yield made
        shared.turn()


class Answers(BaseHTTPRequestHandler):
    """What a server says to agents. It gives no work."""

    protocol_version = "HTTP/1.1"
    server: FakeServer

    def do_POST(self) -> None:
        report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.reports.append(report)
        self._answer({"known": True})

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.server.polled.add(query["instance_id"][0])
        self.server.leaving.wait(float(query["wait"][0]))
        self._answer({"known": True, "assignment": None})

    def _answer(self, answer: dict[str, object]) -> None:
        if self.server.leaving.is_set():  # as one that was killed: the connection ends without an answer
            self.close_connection = True
            return
        assert self.headers["Authorization"] == "Bearer agent"
        body = json.dumps({"server_token": "server", "servers": [{"url": url} for url in self.server.names], **answer}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.names: list[str] = [self.url]
        self.reports: list[dict[str, object]] = []
        self.polled: set[str] = set()
        self.leaving = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def kill(self) -> None:
        self.leaving.set()
        self.shutdown()
        self.server_close()


@pytest.fixture
def servers() -> Iterator[list[FakeServer]]:
    made = [FakeServer() for _ in range(2)]
    for each in made:
        each.names = [server.url for server in made]
    yield made
    for each in made:
        each.kill()


def request(name: str, url: str = NOBODY, servers: tuple[ServerAddress, ...] = ()) -> LaunchRequest:
    return LaunchRequest(
        instance_id=name, node_type=SMALL, server_url=url, agent_token="agent", server_token="server", servers=servers
    )


def test_servers_that_start_at_once_make_one_world(place: Place) -> None:
    providers = [place.server() for _ in range(4)]
    threads = [threading.Thread(target=each.launch, args=(request(f"i-{n}"),)) for n, each in enumerate(providers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: len(place.processes()) == 1, "all but one have given way")
    assert all(set(each.observe()) == {"i-0", "i-1", "i-2", "i-3"} for each in providers)


def test_agents_turn_to_another_server_when_theirs_is_killed(place: Place, servers: list[FakeServer]) -> None:
    first, second = servers
    provider = place.server(first.url)
    names = {f"i-{n}" for n in range(20)}
    for name in names:
        provider.launch(request(name, first.url))
    until(lambda: first.polled >= names, "all agents wait at their server")
    assert not second.reports
    first.kill()
    until(lambda: second.polled >= names, "all agents wait at the other one")
    assert {report["instance_id"] for report in second.reports} == names, "it was told what they are"
    assert {report["moves"] for report in second.reports} == {1}


def test_servers_call_agents_with_the_token_of_each(place: Place, servers: list[FakeServer], golden: Golden) -> None:
    notes = place.directory / "begun"
    provider = place.server(servers[0].url)
    provider.launch(request("i-1", servers[0].url))
    (report,) = until(lambda: servers[0].reports, "the agent reports")
    contexts, mine = f"{report['endpoint']}/v1/contexts", {"Authorization": "Bearer server"}
    assert requests.post(contexts, timeout=PATIENCE_S).status_code == 401
    assert requests.post(contexts, headers={"Authorization": f"Bearer {place.note.token}"}, timeout=PATIENCE_S).status_code == 401
    refused = requests.post(contexts, json={"context_id": "c", "language": "python"}, headers=mine, timeout=PATIENCE_S)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID")
    golden(refused.json()["error"]["message"])
    place.turn(commands_file=str(notes), command_s=1.0)
    assert (
        requests.post(contexts, json={"context_id": "c", "language": "python"}, headers=mine, timeout=PATIENCE_S).status_code
        == 200
    )
    for _ in range(3):  # a server that does not know what came of its call makes it again
        body = {"command_id": "first", "language": "python", "command": "1"}
        assert requests.post(f"{contexts}/c/commands", json=body, headers=mine, timeout=PATIENCE_S).status_code == 200

    def status() -> str:
        return str(requests.get(f"{contexts}/c/commands/first", headers=mine, timeout=PATIENCE_S).json()["status"])

    assert status() == "Running"
    until(lambda: status() == "Finished", "it has finished")
    assert notes.read_text() == "first\n"
    missing = requests.get(f"{contexts}/c/commands/other", headers=mine, timeout=PATIENCE_S)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")
    gone = requests.get(f"{place.note.url}/instances/i-2/v1/contexts/c", headers=mine, timeout=PATIENCE_S)
    assert (gone.status_code, gone.json()["error"]["code"]) == (503, "NO_NODE")


def test_strangers_on_its_port_can_do_nothing(place: Place) -> None:
    place.server().launch(request("i-1"))
    for name in ("servers", "launch", "terminate", "observe", "leave", "end"):
        for headers in ({}, {"Authorization": "Bearer server"}, {"Authorization": f"bearer {place.note.token}x"}):
            assert (
                requests.post(f"{place.note.url}/world/{name}", data=b"{}", headers=headers, timeout=PATIENCE_S).status_code
                == 401
            )
    assert [path.name for path in place.world.iterdir() if path.stat().st_mode & 0o077] == []


def test_a_killed_world_has_no_instances_and_the_next_launch_makes_another(place: Place) -> None:
    first, second = place.server(), place.server()
    first.launch(request("i-1"))
    assert set(second.observe()) == {"i-1"}
    os.kill(place.note.pid, signal.SIGKILL)
    until(lambda: not wire.lives(place.world), "the world has ended")
    assert second.observe() == {} == first.observe()
    second.launch(request("i-2"))
    assert set(first.observe()) == {"i-2"}


def test_a_world_that_hangs_lists_nothing_as_gone_and_can_be_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    provider = place.server()
    provider.launch(request("i-1"))
    os.kill(place.note.pid, signal.SIGSTOP)
    monkeypatch.setattr("brickyard.providers.simulated.remote.CALL_S", 0.3)
    with golden.refused(TransientError):
        provider.observe()
    provider.close(keep_nodes=False)
    assert provider.observe() == {}


def test_a_world_that_cannot_be_looked_for_is_not_taken_for_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    provider = place.server()
    provider.launch(request("i-1"))

    def too_many(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", too_many)
    with golden.refused(TransientError):
        provider.observe()
    monkeypatch.undo()
    assert set(provider.observe()) == {"i-1"}


SERVER = """
import sys
from pathlib import Path
from brickyard.config.settings import Settings
from brickyard.providers.simulated.remote import RemoteSimulatedProvider
from brickyard.testing.builders import SMALL
owner = int(sys.argv[2])
settings = Settings(data_dir=Path(sys.argv[1]), orphan_grace_s=float(sys.argv[3]), ends_with=owner or None)
RemoteSimulatedProvider(settings=settings, server_url="http://127.0.0.1:1", node_types=[SMALL])._world()
print("there", flush=True)
sys.stdin.read()
"""


def server_process(place: Place, *, owner: int, grace_s: float) -> subprocess.Popen[str]:
    """A server of its own process, which has told the world of itself."""
    command = [sys.executable, "-c", SERVER, str(place.directory / "data"), str(owner), str(grace_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


def test_it_lives_as_long_as_any_server_and_then_for_the_grace_period(place: Place) -> None:
    first, second = (server_process(place, owner=0, grace_s=1.0) for _ in range(2))
    (world,) = place.processes()
    first.kill()
    first.communicate()
    with pytest.raises(psutil.TimeoutExpired):
        world.wait(1.5)
    assert end_unused(place.world) == 0
    assert world.is_running(), "a server uses it"
    second.kill()
    second.communicate()
    until(lambda: not wire.lives(place.world), "the world ends by itself")
    assert "orphan_grace_s" in (place.world / wire.LOG).read_text()


def test_it_ends_with_the_process_that_its_servers_end_with(place: Place) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    server = server_process(place, owner=owner.pid, grace_s=3600.0)
    (world,) = place.processes()
    for process in (owner, server):
        process.kill()
        process.communicate()
    until(lambda: not world.is_running() or world.status() == psutil.STATUS_ZOMBIE, "the world ends by itself")


def test_a_world_that_no_server_uses_can_be_ended(place: Place) -> None:
    server = server_process(place, owner=0, grace_s=3600.0)
    server.kill()
    server.communicate()
    until(lambda: end_unused(place.world) == 0 and not wire.lives(place.world), "it knows that the server has ended")
