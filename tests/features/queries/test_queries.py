"""The history of SQL statements in both databases: each statement once, whoever is killed, and shown to whom it may be."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.identity import UserRow
from brickyard.domain.statements import Statement, StatementOutcome, StatementSource, StatementState
from brickyard.domain.states import ClusterSource
from brickyard.domain.warehouses import Warehouse
from brickyard.features.queries.model import ListQueries, QueryFilter, QueryInfo, TimeRange
from brickyard.features.queries.rules import statement_type
from brickyard.features.queries.service import LOST_MS, QueryHistory
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, USER
from tests.support.world import World


class Archive(World):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.history = self.server()

        def enter(tx: Tx) -> None:
            tx.users.put(UserRow(user_name=USER.user_name, user_id=USER.user_id))

        store.write_sync(enter)

    def server(self) -> QueryHistory:
        return QueryHistory(store=self.store, clock=self.clock, authorizer=self.authorizer, days=30)

    def began(self, number: int, user: Caller = USER, **fields: Any) -> Statement:
        self.clock.advance(ms=1)
        statement = Statement(
            statement_id=f"00000000-0000-0000-0000-{number:012d}",
            user_name=user.user_name,
            cluster_id=fields.pop("cluster_id", "c"),
            session_id="s",
            text=f"SELECT {number}",
            source=StatementSource.THRIFT,
            started_ms=self.clock.now_ms(),
            **fields,
        )
        self.history.began(statement)
        return statement

    def ended(self, statement: Statement, state: StatementState = StatementState.FINISHED, **fields: Any) -> None:
        self.history.ended(statement, StatementOutcome(state=state, ended_ms=self.clock.now_ms() + 5, **fields))

    async def list(self, caller: Caller = ADMIN, **fields: Any) -> list[QueryInfo]:
        return (await self.history.list(caller, ListQueries(**fields))).res


@pytest.fixture
def archive(store: Store) -> Archive:
    return Archive(store)


@both_databases
async def test_a_statement_is_there_once_from_its_beginning_to_its_end(archive: Archive) -> None:
    statement = archive.began(1, client_application="PyDatabricksSqlConnector/4")
    await archive.history.run_once()
    (running,) = await archive.list(USER)
    assert (running.status, running.is_final, running.user_id) == ("RUNNING", False, int(USER.user_id))
    archive.ended(statement, StatementState.FAILED, rows_produced=7, error="no such table", sql_state="42P01")
    await archive.history.run_once()
    await archive.history.run_once()
    (failed,) = await archive.list(USER, include_metrics=True)
    assert (failed.status, failed.rows_produced, failed.error_message, failed.duration) == ("FAILED", 7, "no such table", 5)
    assert failed.client_application == "PyDatabricksSqlConnector/4"
    assert failed.metrics is not None


@both_databases
async def test_what_a_killed_server_ran_ends(archive: Archive) -> None:
    archive.began(1)
    await archive.history.run_once()
    archive.history = archive.server()
    await archive.history.run_once()
    assert [each.status for each in await archive.list()] == ["RUNNING"]
    archive.clock.advance(ms=LOST_MS + 1)
    await archive.history.run_once()
    assert [each.status for each in await archive.list()] == ["FAILED"]


@both_databases
async def test_another_server_goes_on_with_a_statement_and_tells_of_its_end(archive: Archive) -> None:
    statement = archive.began(1)
    await archive.history.run_once()
    first, archive.history = archive.history, archive.server()
    first.left(statement)
    adopted = msgspec.structs.replace(statement, text="", started_ms=statement.started_ms + 7)
    archive.history.went_on(adopted)
    for _ in range(3):
        archive.clock.advance(ms=LOST_MS * 3 // 4)
        await archive.history.run_once()
        await first.run_once()
        assert [each.status for each in await archive.list()] == ["RUNNING"]
    archive.ended(adopted, rows_produced=3)
    await archive.history.run_once()
    (found,) = await archive.list()
    assert (found.status, found.rows_produced, found.query_text) == ("FINISHED", 3, "SELECT 1")


@pytest.mark.parametrize("other", [{"user_name": "other@example.com"}, {"cluster_id": "other"}])
async def test_a_handle_that_was_made_up_changes_nothing(archive: Archive, other: dict[str, str]) -> None:
    statement = archive.began(1)
    await archive.history.run_once()
    archive.history = archive.server()
    foreign = msgspec.structs.replace(statement, **other)
    archive.history.went_on(foreign)
    archive.ended(foreign, StatementState.FAILED)
    await archive.history.run_once()
    assert [each.status for each in await archive.list()] == ["RUNNING"]


async def test_a_long_statement_does_not(archive: Archive) -> None:
    statement = archive.began(1)
    for _ in range(10):
        archive.clock.advance(ms=LOST_MS // 2)
        await archive.history.run_once()
    assert [each.status for each in await archive.list()] == ["RUNNING"]
    archive.ended(statement)
    await archive.history.run_once()
    assert [each.status for each in await archive.list()] == ["FINISHED"]


@both_databases
async def test_pages_and_filters(archive: Archive) -> None:
    statements = [archive.began(number, cluster_id=f"c{number % 2}") for number in range(5)]
    archive.ended(statements[0], StatementState.CANCELED)
    await archive.history.run_once()
    ids = [each.statement_id for each in reversed(statements)]
    found, token = list[str](), None
    while token is None or token:
        page = await archive.history.list(ADMIN, ListQueries(max_results=2, page_token=token))
        found += [each.query_id for each in page.res]
        token = page.next_page_token
        assert page.has_next_page == bool(token)
    assert found == ids
    for asked, expected in (
        (QueryFilter(statuses=["CANCELED"]), ids[4:]),
        (QueryFilter(statement_ids=ids[1:2]), ids[1:2]),
        (QueryFilter(warehouse_ids=["c1"]), [ids[1], ids[3]]),
        (QueryFilter(user_ids=[int(USER.user_id)]), ids),
        (QueryFilter(user_ids=[12345]), []),
        (QueryFilter(query_start_time_range=TimeRange(start_time_ms=statements[3].started_ms)), ids[:2]),
        (QueryFilter(query_start_time_range=TimeRange(end_time_ms=statements[1].started_ms)), ids[3:]),
    ):
        assert [each.query_id for each in await archive.list(filter_by=asked)] == expected
    with pytest.raises(InvalidParameterValue):
        await archive.list(page_token="x")


def _grant(tx: Tx, *, grants: list[Grant]) -> None:
    tx.grants.put(Place(ObjectKind.CLUSTER, "w"), grants)


@both_databases
async def test_who_sees_what(archive: Archive) -> None:
    other = msgspec.structs.replace(USER, user_name="other@example.com", user_id="77")
    made = msgspec.structs.replace(
        cluster(cluster_id="w"), source=ClusterSource.SQL, warehouse=Warehouse(cluster_size="Small"), creator_user_name="x"
    )
    await archive.store.write(lambda tx: tx.clusters.insert(made))
    archive.began(1, cluster_id="w", warehouse_id="w")
    archive.began(2)
    await archive.history.run_once()
    assert (len(await archive.list(ADMIN)), len(await archive.list(USER)), len(await archive.list(other))) == (2, 2, 0)
    for level, count in ((Permission.CAN_USE, 0), (Permission.CAN_MONITOR, 1), (Permission.CAN_MANAGE, 1)):
        await archive.store.write(partial(_grant, grants=[Grant(other.user_id, level)]))
        assert len(await archive.list(other)) == count


async def test_retention(archive: Archive) -> None:
    archive.ended(archive.began(1))
    await archive.history.run_once()
    archive.clock.advance(ms=31 * 86_400_000)
    await archive.history.run_once()
    assert await archive.list() == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("select 1", "SELECT"),
        ("-- x\n/* y */ (WITH a AS (SELECT 1) SELECT * FROM a)", "SELECT"),
        ("  INSERT INTO t VALUES (1)", "INSERT"),
        ("desc t", "DESCRIBE"),
        ("CACHE TABLE t", "OTHER"),
        ("", "OTHER"),
    ],
)
def test_kinds_of_statements(text: str, kind: str) -> None:
    assert statement_type(text) == kind


@given(st.text())
def test_any_text_has_a_kind(text: str) -> None:
    assert statement_type(text)
