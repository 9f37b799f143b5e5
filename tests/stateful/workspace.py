"""A workspace on simulated machines that can be killed and started again, and is spoken to through its HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import create_engine, text

from brickyard.config.settings import Settings
from brickyard.domain.clock import Clock
from brickyard.domain.node import AssignmentReply, Poll, StatusReply, StatusReport
from brickyard.domain.states import State
from brickyard.nodes.sessions import AgentService
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.server.lifecycle import Application
from brickyard.testing.builders import SMALL
from brickyard.testing.clock import ManualClock
from tests.support.asgi import call
from tests.support.databases import empty_sqlite
from tests.support.server import TOKEN

T = TypeVar("T")
SHORT, LONG = 200, 5_000  # milliseconds of a settling step: first for machines to start, then for pauses after failures to end
STEPS = 50, 350

# From the state machine of the Clusters API. A write may take several edges at once, but only those through TERMINATING: when the
# system ends a cluster of which nothing is left.
LEGAL: Mapping[State, set[State]] = {
    State.PENDING: {State.RUNNING, State.TERMINATING, State.TERMINATED},
    State.RUNNING: {State.RESIZING, State.RESTARTING, State.TERMINATING, State.TERMINATED},
    State.RESTARTING: {State.RUNNING, State.TERMINATING, State.TERMINATED},
    State.RESIZING: {State.RUNNING, State.TERMINATING, State.TERMINATED},
    State.TERMINATING: {State.TERMINATED},
    State.TERMINATED: {State.PENDING},
}


class Line:
    """The agents' line to whichever server there is. A call that a server's end cuts off is made again to the next one."""

    def __init__(self) -> None:
        self._server: AgentService | None = None
        self._there = asyncio.Event()
        self._calls: set[asyncio.Future[Any]] = set()

    def connect(self, server: AgentService) -> None:
        self._server = server
        self._there.set()

    def cut(self) -> None:
        self._server = None
        self._there.clear()
        for running in self._calls:
            running.cancel()

    async def report(self, report: StatusReport) -> StatusReply:
        return await self._call(lambda server: server.report(report))

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        return await self._call(lambda server: server.assignment(instance_id, have, wait_s, same=same))

    async def poll(self, poll: Poll) -> AssignmentReply:
        return await self._call(lambda server: server.poll(poll))

    async def _call(self, make: Callable[[AgentService], Awaitable[T]]) -> T:
        while True:
            await self._there.wait()
            server = self._server
            assert server is not None
            running = asyncio.ensure_future(make(server))
            self._calls.add(running)
            try:
                return await running
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    running.cancel()
                    raise  # the agent ends, or asks anew
            except Exception:
                if server is self._server:
                    raise
            finally:
                self._calls.discard(running)


def now() -> ManualClock:
    """A clock that starts at the true time: simulated drivers tell the true time of their load."""
    return ManualClock(time.time_ns() // 1_000_000)


class Workspace:
    """Make it on the event loop that it shall live on."""

    def __init__(
        self,
        directory: Path,
        *,
        passed: ManualClock | None = None,
        clock: Clock | None = None,
        machines: SimulatedProvider | None = None,
        others: Sequence[SimulatedProvider] = (),
        **settings: Any,
    ) -> None:
        """`passed` is the time that `pass_time` moves on; `clock` is the server's, if that shows another one."""
        self.clock = passed or now()
        self._clock = clock or self.clock
        self.machines = machines or SimulatedProvider(node_types=[SMALL])
        self.others = others  # providers beside that one
        # Its clock jumps, so nobody is taken for silent.
        self._settings = Settings(data_dir=directory, provider="simulated", **{"agent_silence_s": 1e9, **settings})
        self._line = Line()
        self._life = contextlib.AsyncExitStack()
        self.app: Application

    async def boot(self) -> None:
        if not (file := self._settings.data_dir / "brickyard.db").exists() and not self._settings.database_url:
            empty_sqlite(file)
        self._life = contextlib.AsyncExitStack()
        opened = Application.open(
            self._settings,
            server_url="http://127.0.0.1:1",
            workspace_key=b"k" * 32,
            admin_token=TOKEN,
            provider=Providers(self.machines, *self.others),
            clock=self._clock,
        )
        self.app = await self._life.enter_async_context(opened)
        self._line.connect(self.app.parts.nodes.agents)
        for each in (self.machines, *self.others):
            each.attach(self._line)

    async def crash(self) -> None:
        """The server is gone, whatever it was doing; its machines are not."""
        self._line.cut()
        await self._life.aclose()

    async def post(self, verb: str, **body: Any) -> tuple[int, Any]:
        return await self._patiently("POST", f"/api/2.1/clusters/{verb}", body=body)

    async def post_once(self, verb: str, **body: Any) -> tuple[int, Any]:
        """The answer may be that the server is late and took nothing on: 429."""
        return await call(self.app.asgi, "POST", f"/api/2.1/clusters/{verb}", token=TOKEN, body=body)

    async def get(self, verb: str, *, version: str = "2.1", **query: Any) -> tuple[int, Any]:
        return await self._patiently("GET", f"/api/{version}/clusters/{verb}", **query)

    async def call(self, method: str, path: str, **sent: Any) -> tuple[int, Any]:
        """Any other call of the API."""
        return await self._patiently(method, path, **sent)

    async def pool(self, method: str, verb: str, **fields: Any) -> tuple[int, Any]:
        """A call of the Instance Pools API: the body of a POST, the query of a GET."""
        sent = {"body": fields} if method == "POST" else fields
        return await self._patiently(method, f"/api/2.0/instance-pools/{verb}", **sent)

    async def _patiently(self, method: str, path: str, **sent: Any) -> tuple[int, Any]:
        """Calls again while the server is late, as clients do: it is on a busy machine."""
        while True:
            status, answer = await call(self.app.asgi, method, path, token=TOKEN, **sent)
            if status != 429:
                return status, answer
            await asyncio.sleep(1)  # what its Retry-After says

    async def pass_time(self, ms: int) -> None:
        """Let what is due be done, and the machines do something."""
        self.clock.advance(ms=ms)
        await self.app.parts.loops.monitor.run_once()
        await self.app.parts.loops.owners.first_pass()
        await asyncio.sleep(0.002)

    async def state(self, cluster_id: str) -> str:
        status, found = await self.get("get", cluster_id=cluster_id)
        return str(found["state"]) if status == 200 else str(found["message"])

    async def until(self, cluster_id: str, state: str) -> None:
        """Let time pass until the cluster is in a state."""

        async def settled() -> str:
            found = await self.state(cluster_id)
            return "" if found == state else found

        await self.settle(settled)

    async def settle(self, settled: Callable[[], Awaitable[str]]) -> None:
        """Let time pass until `settled` no longer says what is missing."""
        missing = "nothing was looked at"
        for step in range(sum(STEPS)):
            await self.pass_time(SHORT if step < STEPS[0] else LONG)
            if not (missing := await settled()):
                return
        raise AssertionError(f"does not settle: {missing}")


class StateLog:
    """Every change of a cluster's public state, in the order of the commits, noted by the database itself."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        self._read = 0
        with self._engine.begin() as connection:
            sqlite = connection.dialect.name == "sqlite"
            number = "INTEGER PRIMARY KEY AUTOINCREMENT" if sqlite else "SERIAL PRIMARY KEY"
            connection.execute(text(f"CREATE TABLE noted (number {number}, name TEXT, before TEXT, after TEXT)"))
            for statement in _SQLITE if sqlite else _POSTGRESQL:
                connection.execute(text(statement))

    def new(self) -> list[tuple[str, State, State]]:
        """The changes since the last call."""
        with self._engine.connect() as connection:
            found = connection.execute(
                text("SELECT * FROM noted WHERE number > :read ORDER BY number"), {"read": self._read}
            ).all()
        self._read = found[-1][0] if found else self._read
        return [(name, State(before), State(after)) for _, name, before, after in found]

    def close(self) -> None:
        self._engine.dispose()


_NOTE = "INSERT INTO noted (name, before, after) VALUES (NEW.cluster_id, OLD.state, NEW.state)"
_SQLITE = (f"CREATE TRIGGER note AFTER UPDATE OF state ON clusters WHEN OLD.state <> NEW.state BEGIN {_NOTE}; END",)
_POSTGRESQL = (
    f"CREATE FUNCTION note() RETURNS trigger AS $$ BEGIN {_NOTE}; RETURN NEW; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER note AFTER UPDATE ON clusters FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION note()",
)
