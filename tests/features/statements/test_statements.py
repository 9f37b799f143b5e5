"""The Statement Execution API over a runner that stands in for Spark, in both databases."""

from __future__ import annotations

import asyncio
import csv
import datetime
import decimal
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, ResourceDoesNotExist
from brickyard.domain.warehouses import Compute
from brickyard.features.statements import running
from brickyard.features.statements.links import ResultLinks
from brickyard.features.statements.model import (
    ColumnInfo,
    Disposition,
    ExecuteStatement,
    ExecutionState,
    Format,
    OnWaitTimeout,
    Part,
    Query,
    SignedChunk,
    StatementAnswer,
    StatementChunk,
    StatementFailed,
    StatementId,
)
from brickyard.features.statements.results import ResultFiles
from brickyard.features.statements.rules import KEPT_MS, LINK_MS, LOST_MS, MAX_INLINE, MAX_STATEMENT, as_csv, check
from brickyard.features.statements.service import StatementService
from brickyard.gateway.sql.results import text_of
from brickyard.store.store import Store
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, USER
from tests.support.world import World

ASK = ExecuteStatement(statement="SELECT 1", warehouse_id="w", wait_timeout="50s")


class Spark:
    """Runs each statement as the test says. A part is its rows as JSON."""

    def __init__(self) -> None:
        self.parts: list[list[list[str | None]]] = [[["1"]]]
        self.ran: list[str] = []
        self.ended: list[str] = []
        self.failure: StatementFailed | None = None
        self.go, self.ends = asyncio.Event(), asyncio.Event()
        self.go.set()
        self.ends.set()

    async def run(self, caller: Caller, query: Query) -> AsyncIterator[Part]:
        del caller
        self.ran.append(query.statement_id)
        try:
            yield Part(0, b"[]")
            await self.go.wait()
            if self.failure is not None:
                raise self.failure
            for rows in self.parts:
                yield Part(len(rows), json.dumps(rows).encode())
        finally:
            self.ended.append(query.statement_id)
            await asyncio.shield(self.ends.wait())

    async def end(self, caller: Caller, cluster_id: str, session_id: str) -> None:
        raise NotImplementedError  # only tasks have sessions of their own

    def columns(self, stream: bytes) -> list[ColumnInfo]:
        del stream
        return [ColumnInfo(name="a", position=0, type_text="INT", type_name="INT")]

    def rows(self, stream: bytes) -> list[list[str | None]]:
        rows: list[list[str | None]] = json.loads(stream)
        return rows


class Warehouses:
    async def cluster_of(self, caller: Caller, warehouse_id: str) -> str | None:
        del caller
        return None if warehouse_id == "none" else f"cluster of {warehouse_id}"

    async def compute_of(self, caller: Caller, warehouse_id: str) -> Compute | None:
        cluster_id = await self.cluster_of(caller, warehouse_id)
        return None if cluster_id is None else Compute(cluster_id, warehouse_id)


class Office(World):
    def __init__(self, store: Store, place: Path) -> None:
        super().__init__(store, place=place)
        self.spark = Spark()
        self.statements = self.server()

    def server(self) -> StatementService:
        """One more server of the workspace."""
        return StatementService(
            store=self.store,
            clock=self.clock,
            authorizer=self.authorizer,
            warehouses=Warehouses(),
            runner=self.spark,
            files=ResultFiles(self.place / "statements"),
            links=ResultLinks(key=b"k" * 32, clock=self.clock),
        )

    async def execute(self, **changes: Any) -> StatementAnswer:
        return await self.statements.execute(ADMIN, msgspec.structs.replace(ASK, **changes))

    async def get(self, statement_id: str, caller: Caller = ADMIN) -> StatementAnswer:
        return await self.statements.get(caller, StatementId(statement_id=statement_id, base_url="https://here"))

    async def until(self, statement_id: str, done: Callable[[StatementAnswer], bool]) -> StatementAnswer:
        for _ in range(500):
            if done(found := await self.get(statement_id)):
                return found
            await asyncio.sleep(0.01)
        raise AssertionError("it does not come")


@both_databases
async def test_a_result_is_there_with_the_answer_and_for_an_hour(office: Office) -> None:
    office.spark.parts = [[["1"], [None]], [["3"]]]
    answer = await office.execute()
    assert answer.status.state is ExecutionState.SUCCEEDED
    assert answer.manifest is not None
    assert answer.result is not None
    assert [(each.row_offset, each.row_count) for each in answer.manifest.chunks] == [(0, 2), (2, 1)]
    assert (answer.manifest.total_row_count, answer.manifest.truncated) == (3, False)
    assert (answer.result.data_array, answer.result.next_chunk_index) == ([["1"], [None]], 1)
    last = await office.statements.chunk(ADMIN, StatementChunk(statement_id=answer.statement_id, chunk_index=1))
    assert (last.data_array, last.next_chunk_index, last.row_offset) == ([["3"]], None, 2)
    with pytest.raises(InvalidParameterValue):
        await office.statements.chunk(ADMIN, StatementChunk(statement_id=answer.statement_id, chunk_index=2))
    office.statements = office.server()  # another server, or the next one
    office.clock.advance(ms=KEPT_MS - 60_000)
    await office.statements.run_once()
    assert (await office.get(answer.statement_id)).result == answer.result
    office.clock.advance(ms=120_000)
    await office.statements.run_once()
    with pytest.raises(ResourceDoesNotExist):
        await office.get(answer.statement_id)
    assert not list((office.place / "statements").iterdir())


@both_databases
async def test_it_goes_on_or_ends_when_the_wait_is_over(office: Office) -> None:
    office.spark.go.clear()
    begun = await office.execute(wait_timeout="0s")
    assert not begun.status.state.final
    await office.until(begun.statement_id, lambda found: found.status.state is ExecutionState.RUNNING)
    await office.statements.cancel(ADMIN, StatementId(statement_id=begun.statement_id))
    assert (await office.get(begun.statement_id)).status.state is ExecutionState.CANCELED
    await office.statements.cancel(ADMIN, StatementId(statement_id=begun.statement_id))
    await office.statements.running.wait(begun.statement_id, 5)
    assert office.spark.ended == [begun.statement_id]
    assert (await office.get(begun.statement_id)).status.state is ExecutionState.CANCELED


async def test_on_wait_timeout_cancel(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.spark.go.clear()
    wait = office.statements.running.wait
    monkeypatch.setattr(office.statements.running, "wait", lambda statement_id, _: wait(statement_id, 0.05))
    ended = await office.execute(on_wait_timeout=OnWaitTimeout.CANCEL)
    assert ended.status.state is ExecutionState.CANCELED


@both_databases
async def test_a_server_that_is_killed_fails_its_statements_and_nobody_runs_them_again(office: Office) -> None:
    office.spark.go.clear()
    begun = await office.execute(wait_timeout="0s")
    other = office.server()
    office.clock.advance(ms=LOST_MS + 1)
    found = await other.get(ADMIN, StatementId(statement_id=begun.statement_id))
    assert found.status.state is ExecutionState.FAILED
    assert found.status.error is not None
    office.spark.go.set()  # the first server was only slow: what it says now comes too late
    await office.statements.running.wait(begun.statement_id, 5)
    assert (await office.get(begun.statement_id)).status == found.status
    assert office.spark.ran == [begun.statement_id]


async def test_a_server_stops_though_a_driver_ends_no_statement(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "STOP_S", 0.05)
    office.spark.go.clear()
    office.spark.ends.clear()
    answer = await office.statements.execute(USER, msgspec.structs.replace(ASK, wait_timeout="0s"))
    while office.spark.ran != [answer.statement_id]:
        await asyncio.sleep(0.01)
    async with asyncio.timeout(5):
        await office.statements.running.close()
    assert office.spark.ended == [answer.statement_id]
    office.spark.ends.set()


@both_databases
async def test_a_statement_is_its_users_alone(office: Office) -> None:
    answer = await office.execute()
    for caller in (USER, msgspec.structs.replace(ADMIN, user_id="99", user_name="b")):
        with pytest.raises(ResourceDoesNotExist):
            await office.get(answer.statement_id, caller)
        with pytest.raises(ResourceDoesNotExist):
            await office.statements.cancel(caller, StatementId(statement_id=answer.statement_id))


async def test_failures_say_why(office: Office) -> None:
    office.spark.failure = StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] no", sql_state="42P01")
    answer = await office.execute()
    assert (answer.status.state, answer.status.sql_state) == (ExecutionState.FAILED, "42P01")
    assert answer.status.error is not None
    assert answer.status.error.message.startswith("[TABLE_OR_VIEW")
    with pytest.raises(ResourceDoesNotExist):
        await office.execute(warehouse_id="none")


async def test_limits(office: Office) -> None:
    part: list[list[str | None]] = [["x" * 1000]] * 1000
    office.spark.parts = [part] * 30
    answer = await office.execute()
    assert (answer.status.state, answer.manifest) == (ExecutionState.FAILED, None)  # INLINE: 25 MiB
    large = await office.execute(disposition=Disposition.EXTERNAL_LINKS)
    assert large.manifest is not None
    assert large.manifest.total_byte_count > MAX_INLINE
    cut = await office.execute(byte_limit=3_000_000)
    assert cut.manifest is not None
    assert (cut.manifest.truncated, cut.manifest.total_chunk_count) == (True, 2)
    office.spark.parts = [[["1"]]]
    limited = await office.execute(row_limit=1)
    assert limited.manifest is not None
    assert limited.manifest.truncated


@pytest.mark.parametrize("form", list(Format))
async def test_links_are_for_one_chunk_and_expire(office: Office, form: Format) -> None:
    office.spark.parts = [[["a,b"], [None]], [["c"]]]
    answer = await office.execute(disposition=Disposition.EXTERNAL_LINKS, format=form, base_url="https://here")
    assert answer.result is not None
    assert answer.result.external_links is not None
    link = answer.result.external_links[0]
    path, _, signature = link.external_link.partition("?signature=")
    assert path == f"https://here/api/2.0/sql/statements/{answer.statement_id}/external/0"
    asked = SignedChunk(statement_id=answer.statement_id, chunk_index=0, signature=signature)
    content = (await office.statements.external(asked))[1]
    body = content if isinstance(content, bytes) else b"".join([piece async for piece in content.pieces()])
    expected = {
        Format.CSV: b'a\r\n"a,b"\r\nnull\r\n',
        Format.JSON_ARRAY: b'[["a,b"],[null]]',
        Format.ARROW_STREAM: b'[["a,b"], [null]]',
    }
    assert body == expected[form]
    for wrong in ({"chunk_index": 1}, {"signature": ""}, {"signature": "9" + signature}, {"statement_id": "x"}):
        with pytest.raises(PermissionDenied):
            await office.statements.external(msgspec.structs.replace(asked, **wrong))
    office.clock.advance(ms=LINK_MS + 1)
    with pytest.raises(PermissionDenied):
        await office.statements.external(asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"statement": " "},
        {"statement": "x" * (MAX_STATEMENT + 1)},
        {"wait_timeout": "4s"},
        {"wait_timeout": "51s"},
        {"wait_timeout": "10"},
        {"format": Format.CSV},
        {"format": Format.ARROW_STREAM},
        {"row_limit": 0},
        {"byte_limit": -1},
    ],
)
def test_what_databricks_refuses_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterValue, match=next(iter(wrong))):
        check(msgspec.structs.replace(ASK, **wrong))


@given(st.one_of(st.just(0), st.integers(5, 50)))
def test_waits(seconds: int) -> None:
    assert check(msgspec.structs.replace(ASK, wait_timeout=f"{seconds}s")) == seconds


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), min_size=2, max_size=2)))
def test_csv_is_read_back(rows: list[list[str]]) -> None:
    assert list(csv.reader(io.StringIO(as_csv(rows).decode(), newline=""))) == rows


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (1e20, "1.0E20"),
        (1.5e-7, "1.5E-7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (decimal.Decimal("12.30"), "12.30"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, 678900, datetime.UTC), "2024-01-02T03:04:05.678Z"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05.000"),  # noqa: DTZ001 - a timestamp without zone
        (b"abc", "YWJj"),
        ([1, None, {"a": decimal.Decimal("1.0")}], '[1,null,{"a":"1.0"}]'),
        ("ä", "ä"),
    ],
)
def test_values_as_text(value: object, text: str) -> None:
    assert text_of(value) == text
