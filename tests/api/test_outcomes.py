"""What a call is answered when the store fails: no client is told to repeat what may have been done, whichever operation it is
and wherever the store fails; and what is done outside the database has its audit entry first."""

from __future__ import annotations

import base64
import itertools
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest
import requests
from starlette.types import ASGIApp

from brickyard.api.app import build_app
from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import RETRY_PHRASES, ApiError, DatabaseAway, DatabaseFull, DatabaseUnsure, RequestLimitExceeded
from brickyard.domain.nodeops import AgentUnreachable
from brickyard.store.store import Store
from tests.api.test_permissions import EXAMPLES, FOR_USERS, OPERATIONS, World
from tests.support.asgi import call
from tests.support.desk import ADMIN
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

CHANGES = [name for name in FOR_USERS if OPERATIONS[name].changes]
RETRIED = (429, 503, 504)
_BESIDE = ('INSERT INTO "audit', 'INSERT INTO "sqlite_sequence"')


class Administrator:
    """Knows the administrator, by any token."""

    def known(self, bearer: str) -> Caller | None:
        return ADMIN

    async def authenticate(self, bearer: str) -> Caller | None:
        return ADMIN


class Failing:
    """Lets the store fail at one of its reads and writes: instead of it, or after its commit, so that nobody knows whether it was
    done."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = 0
        self._at = -1
        self._error: ApiError | None = None
        for name in ("_read_soon", "_write_soon"):
            monkeypatch.setattr(store, name, self._failing(getattr(store, name), commits=name == "_write_soon"))

    def at(self, point: int, error: ApiError | None) -> None:
        self.reached, self._at, self._error = 0, point, error

    @property
    def has_failed(self) -> bool:
        return self.reached > self._at

    def _failing(self, work: Callable[..., Awaitable[Any]], *, commits: bool) -> Callable[..., Awaitable[Any]]:
        async def attempt(*arguments: Any, **options: Any) -> Any:
            unsure = isinstance(self._error, DatabaseUnsure)
            if unsure and not commits:
                return await work(*arguments, **options)
            fails, self.reached = self.reached == self._at, self.reached + 1
            if fails and not unsure and self._error is not None:
                raise self._error
            result = await work(*arguments, **options)
            if fails and self._error is not None:
                raise self._error
            return result

        return attempt


class State(NamedTuple):
    """What calls may change: rows but those of the audit log, files with their content, and what agents were asked."""

    rows: frozenset[str]
    files: frozenset[tuple[Path, bytes]]
    asked: int


def state(world: World) -> State:
    with sqlite3.connect(world.place / "test.db") as connection:
        rows = [
            row for row in connection.iterdump() if not row.startswith(('INSERT INTO "audit', 'INSERT INTO "sqlite_sequence"'))
        ]
    connection.close()
    found = (path for tree in (*world.trees, world.place / "spool") for path in tree.rglob("*"))
    files = {(path, path.read_bytes() if path.is_file() else b"") for path in found if ".servers" not in path.parts}
    return State(frozenset(rows), frozenset(files), world.agents.calls)


def entries(world: World, operation: str) -> int:
    with sqlite3.connect(world.place / "test.db") as connection:
        (count,) = connection.execute("SELECT count(*) FROM audit WHERE operation = ?", (operation,)).fetchone()
    connection.close()
    return int(count)


async def ask(
    app: ASGIApp,
    operation: Operation,
    request: msgspec.Struct,
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, Any]:
    """Sends the request as clients do, with more in its query."""
    fields = {name: value for name, value in msgspec.to_builtins(request).items() if value is not None}
    path = operation.paths[0]
    for name, whole in re.findall(r"\{(\w+)(:path)?\}", path):
        path = path.replace(f"{{{name}{whole}}}", quote(str(fields.pop(name)), safe="/" if whole else ""))
    for name in operation.surroundings:
        fields.pop(name, None)
    if operation.reads_body:
        body = fields.pop(operation.document) if operation.document else fields
        return await call(app, operation.method, path, token="t", body=body, headers=headers, **dict[str, Any](more))
    query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}
    raw = b"new" if operation.streams else None
    return await call(app, operation.method, path, token="t", raw=raw, headers=headers, **query, **dict[str, Any](more))


def is_retried(status: int, answer: Any) -> bool:
    return status in RETRIED or any(phrase in str(answer) for phrase in RETRY_PHRASES)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def served(world: World) -> ASGIApp:
    return build_app(world.context, authenticator=Authenticator(tokens=Administrator(), links=world.context.services.ui_links))


@pytest.mark.parametrize("group", sorted({name.partition(".")[0] for name in CHANGES}))
async def test_what_may_have_been_done_is_never_to_be_repeated(world: World, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def attempt(app: ASGIApp, name: str, point: int, error: ApiError, failing: Failing) -> bool:
        """Whether the store has failed at that point of the call."""
        failing.at(-1, None)
        request = await EXAMPLES[name](world)
        before, known = state(world), entries(world, name)
        failing.at(point, error)
        status, answer = await ask(app, OPERATIONS[name], request)
        failed = failing.has_failed
        failing.at(-1, None)
        after = state(world)
        where = f"{name}, {type(error).__name__} at {point}: {status} {answer}"
        assert status < 500 or failed, where
        if is_retried(status, answer) or status == DatabaseFull.http_status:
            assert after == before, where
        if (after.files, after.asked) != (before.files, before.asked):
            assert entries(world, name) > known, where
        return failed

    monkeypatch.setattr("brickyard.features.audit.service.AGAIN_S", 0.01)
    monkeypatch.setattr("brickyard.store.patience.PAUSE_S", (0.01, 0.01))
    failing, app = Failing(world.store, monkeypatch), served(world)
    await world.context.services.workspace.status(ADMIN, "/")  # which makes homes
    errors = itertools.cycle((DatabaseAway("x"), RequestLimitExceeded("x"), DatabaseFull("x")))
    for name in (each for each in CHANGES if each.partition(".")[0] == group):
        refused, unsure = 0, 0
        while await attempt(app, name, refused, next(errors), failing):
            refused += 1
        while await attempt(app, name, unsure, DatabaseUnsure("x"), failing):
            unsure += 1
        assert refused > 0, f"{name} uses no database"


@pytest.mark.parametrize("name", ["contexts.create", "commands.execute"])
@pytest.mark.parametrize("sent", [True, False])
async def test_a_node_that_does_not_answer_may_have_done_it(
    world: World, name: str, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.context.services.commands, "_pause_s", 0.0)

    async def silent(*_: Any, **__: Any) -> Any:
        assert entries(world, name) == 1, "its entry comes first"
        raise AgentUnreachable("no answer", sent=sent)

    monkeypatch.setattr(world.agents, "call", silent)

    status, answer = await ask(served(world), OPERATIONS[name], await EXAMPLES[name](world))
    assert status == 500
    assert is_retried(status, answer) != sent


def test_a_block_that_is_sent_again_after_a_locked_database_is_there_once(tmp_path: Path) -> None:
    with Server.running(tmp_path, provider="simulated") as server:

        def post(verb: str, **body: Any) -> requests.Response:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return requests.post(f"{server.url}/api/2.0/dbfs/{verb}", json=body, headers=headers, timeout=PATIENCE_S)

        handle = post("create", path="/f").json()["handle"]
        block = {"handle": handle, "data": base64.b64encode(b"ABCDEFGH").decode()}
        locking = sqlite3.connect(server.data_dir / "brickyard.db", isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        try:
            refused = post("add-block", **block)
        finally:
            locking.execute("ROLLBACK")
            locking.close()
        assert is_retried(refused.status_code, refused.text), refused.text
        until(lambda: post("add-block", **block).ok)
        assert post("close", handle=handle).ok
        assert (server.data_dir / "dbfs" / "f").read_bytes() == b"ABCDEFGH"
