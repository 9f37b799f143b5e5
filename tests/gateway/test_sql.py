"""SQL's way into a cluster before a Spark Connect that is a fake."""

from __future__ import annotations

import asyncio
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from databricks import sql
from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.domain.errors import QuotaExceeded
from brickyard.domain.statements import StatementState
from brickyard.domain.warehouses import Warehouse
from brickyard.gateway import connect
from brickyard.gateway.sql import operations, sessions
from brickyard.gateway.sql.handles import operation_handle, session_ids
from brickyard.gateway.sql.settings import TIMESTAMP_AS_STRING
from brickyard.testing.builders import cluster, up
from tests.gateway.sqlworld import PATH, Refused, SqlWorld, served, sql_world

_STATUS, _STATE = ttypes.TStatusCode, ttypes.TOperationState
DIRECT = {"getDirectResults": ttypes.TSparkGetDirectResults(maxRows=1000, maxBytes=1 << 20), "canReadArrowResult": True}


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def finished(w: SqlWorld, token: str, handle: Any, **how: Any) -> Any:
    """The state that a statement ends with."""
    while True:
        status = await w.call(token, "GetOperationStatus", ttypes.TGetOperationStatusReq(handle), **how)
        if status.operationState != _STATE.RUNNING_STATE:
            return status


async def fetched(w: SqlWorld, token: str, handle: Any, **how: Any) -> Any:
    return await w.call(token, "FetchResults", ttypes.TFetchResultsReq(handle, maxRows=1000), **how)


async def test_the_connector_reads_types_parts_and_errors(tmp_path: Path) -> None:
    kinds = pyarrow.table(
        {
            "n": pyarrow.array([1, None]),
            "d": pyarrow.array([decimal.Decimal("1.50"), None]),
            "a": pyarrow.array([[1, 2], []]),
            "m": pyarrow.array([[("k", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
        }
    )

    def client(url: str, token: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with (
            sql.connect("127.0.0.1", PATH, access_token=token, _connection_uri=url + PATH, enable_telemetry=False) as connection,
            connection.cursor() as cursor,
        ):
            found["types"] = [(row.n, row.d, list(row.a), row.m) for row in cursor.execute("types").fetchall()]
            found["parts"] = [row[0] for row in cursor.execute("rows 1000 100").fetchall()]
            with pytest.raises(sql.exc.ServerOperationError) as caught:
                cursor.execute("fail")
            found["error"] = str(caught.value)
            cursor.execute("by name :a", {"a": 5})
        return found

    async with sql_world(tmp_path) as w, served(w) as url:
        w.spark.tables["types"] = kinds
        found = await asyncio.to_thread(client, url, await w.world.token("me@example.com"))
        assert found["types"] == [(1, decimal.Decimal("1.50"), [1, 2], [("k", 1)]), (None, None, [], None)]
        assert found["parts"] == list(range(1000))
        assert found["error"] == "[DIVIDE_BY_ZERO] Division by zero."
        assert list(w.spark.plans[-1].sql.named_arguments) == ["a"]
        assert [each.text for each in w.observer.begun] == ["types", "rows 1000 100", "fail", "by name :a"]
        ends = [(outcome.state, outcome.rows_produced, outcome.error_class) for _, outcome in w.observer.over]
        assert ends[:3] == [
            (StatementState.FINISHED, 2, ""),
            (StatementState.FINISHED, 1000, ""),
            (StatementState.FAILED, 0, "DIVIDE_BY_ZERO"),
        ]
        assert w.observer.begun[0].client_application.startswith("PyDatabricksSqlConnector/")
        assert not w.spark.incarnations, "the session is closed in Spark"


async def test_the_version_of_the_protocol_is_of_the_clients_kind(tmp_path: Path) -> None:
    version = ttypes.TProtocolVersion
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        answers = [
            (await w.call(token, "OpenSession", ttypes.TOpenSessionReq(configuration={}, **asked))).serverProtocolVersion
            for asked in (
                {"client_protocol": version.HIVE_CLI_SERVICE_PROTOCOL_V6},
                {"client_protocol": version.HIVE_CLI_SERVICE_PROTOCOL_V10},
                {"client_protocol_i64": version.SPARK_CLI_SERVICE_PROTOCOL_V6, "client_protocol": -7},
                {"client_protocol_i64": version.SPARK_CLI_SERVICE_PROTOCOL_V7 + 5},
            )
        ]
        assert answers == [
            version.HIVE_CLI_SERVICE_PROTOCOL_V6,
            version.HIVE_CLI_SERVICE_PROTOCOL_V10,
            version.SPARK_CLI_SERVICE_PROTOCOL_V6,
            version.SPARK_CLI_SERVICE_PROTOCOL_V8,
        ]


async def test_a_warehouse_is_its_cluster_and_another_path_is_refused(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        await w.world.set(up(cluster(creator_user_name="me@example.com"), warehouse=Warehouse(cluster_size="2X-Small")))
        token = await w.world.token("me@example.com")
        opened = ttypes.TOpenSessionReq(configuration={})
        handle = (await w.call(token, "OpenSession", opened, path="/sql/1.0/warehouses/w1")).sessionHandle
        request = ttypes.TExecuteStatementReq(handle, "x")
        await w.call(token, "ExecuteStatement", request, path="/sql/1.0/warehouses/w1")
        assert w.observer.begun[0].warehouse_id == "w1"
        for path in ("/sql/1.0/warehouses/w2", "/sql/elsewhere", "/sql/protocolv1/o/0/0101-000000-nowhere1"):
            with pytest.raises(Refused) as caught:
                await w.call(token, "OpenSession", opened, path=path)
            assert caught.value.status == 404
            assert caught.value.headers[b"x-thriftserver-error-message"]
        with pytest.raises(Refused) as caught:
            await w.call("dapi0", "OpenSession", opened)
        assert caught.value.status == 401


async def test_what_is_wrong_with_a_session_is_said_when_it_is_opened(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        for name, value in (("no_such_setting", "1"), (TIMESTAMP_AS_STRING, "true")):
            request = ttypes.TOpenSessionReq(configuration={"spark.sql.ansi.enabled": "false", name: value})
            answer = await w.call(token, "OpenSession", request)
            assert (answer.status.statusCode, answer.status.sqlState) == (_STATUS.ERROR_STATUS, "42000")
        namespace = ttypes.TNamespace(catalogName="main", schemaName="s`x")
        await w.session(token, initialNamespace=namespace)
        assert w.spark.ran == ["SET CATALOG `main`", "USE SCHEMA `s``x`"]


async def test_a_handle_is_of_no_use_to_another_user(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        me, you = await w.world.token("me@example.com"), await w.world.token("you@example.com")
        session = await w.session(me)
        answer = await w.begin(you, session, "theirs", **DIRECT)
        assert answer.status.statusCode == _STATUS.INVALID_HANDLE_STATUS
        assert "theirs" not in w.spark.ran
        mine = (await w.begin(me, session, "rows 10 5")).operationHandle
        assert (await finished(w, me, mine)).operationState == _STATE.FINISHED_STATE
        assert (await fetched(w, you, mine)).status.statusCode == _STATUS.INVALID_HANDLE_STATUS
        await w.call(you, "CloseOperation", ttypes.TCloseOperationReq(mine))
        await w.call(you, "CancelOperation", ttypes.TCancelOperationReq(mine))
        assert (await fetched(w, me, mine)).status.statusCode == _STATUS.SUCCESS_STATUS


async def test_old_clients_get_columns_their_log_and_where_rows_start(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        w.spark.tables["map"] = pyarrow.table({"m": pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int32()))})
        handle = (await w.begin(token, session, "map")).operationHandle
        log = await w.call(token, "FetchResults", ttypes.TFetchResultsReq(handle, maxRows=10, fetchType=1))
        assert (log.hasMoreRows, log.results.columns[0].stringVal.values) == (False, [])
        request = ttypes.TFetchResultsReq(handle, maxRows=10, includeResultSetMetadata=True)
        rows = await w.call(token, "FetchResults", request)
        assert rows.results.columns[0].stringVal.values == ['{"k":1}']
        assert rows.resultSetMetadata.schema.columns[0].position == 1
        handle = (await w.begin(token, session, "rows 3000000 1000000")).operationHandle
        starts, more = [], True
        while more:
            part = await fetched(w, token, handle)
            starts.append((part.results.startRowOffset, len(part.results.columns[0].i64Val.values)))
            more = part.hasMoreRows
        assert starts == [(at * 1_000_000, 1_000_000) for at in range(3)]


async def test_cancel_close_and_limits_of_time_end_what_runs(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)

        async def hanging(number: int, **fields: Any) -> Any:
            answer = await w.begin(token, session, "hang", **fields)
            assert len(w.observer.begun) == number
            return answer.operationHandle

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("brickyard.gateway.sql.service.DIRECT_S", 0.05)
            first, second = await hanging(1), await hanging(2)
            await w.call(token, "CancelOperation", ttypes.TCancelOperationReq(first))
            status = await finished(w, token, first)
            assert (status.operationState, status.sqlState) == (_STATE.CANCELED_STATE, "HY008")
            await w.call(token, "CloseOperation", ttypes.TCloseOperationReq(second))
            limited = await hanging(3, queryTimeout=1)
            status = await finished(w, token, limited)
            assert (status.operationState, status.sqlState) == (_STATE.ERROR_STATE, "57014")
            await hanging(4)
            await w.call(token, "CloseSession", ttypes.TCloseSessionReq(session))
            patch.setattr(operations, "IDLE_S", 0.05)
            patch.setattr(operations, "LOOK_S", 0.05)
            session = await w.session(token)
            await hanging(5)
            await until(lambda: len(w.observer.over) == 5)
        ids = [each.statement_id for each in w.observer.begun]
        await until(lambda: all(w.spark.interrupted[each].is_set() for each in ids))
        assert {outcome.state for _, outcome in w.observer.over} == {StatementState.CANCELED}


async def test_a_statement_that_is_sent_again_runs_once(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        gone = asyncio.Event()
        first = asyncio.create_task(w.begin(token, session, "wait INSERT", gone=gone, **DIRECT))
        await until(lambda: w.spark.ran)
        gone.set()
        await first
        again = asyncio.create_task(w.begin(token, session, "wait INSERT", **DIRECT))
        await asyncio.sleep(0.05)
        w.spark.hold.set()
        answer = await again
        assert answer.directResults.operationStatus.operationState == _STATE.FINISHED_STATE
        assert w.spark.ran == ["wait INSERT"]
        assert (await w.begin(token, session, "wait INSERT", **DIRECT)).status.statusCode == _STATUS.SUCCESS_STATUS
        assert w.spark.ran == ["wait INSERT"] * 2, "a client that has its answer runs it again"


async def test_a_statement_of_a_killed_server_does_not_run_again(tmp_path: Path) -> None:
    """The other server shares nothing but Spark with it."""
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        first = asyncio.create_task(w.begin(token, session, "wait INSERT", **DIRECT))
        await until(lambda: w.spark.ran)
        again = await w.begin(token, session, "wait INSERT", entrance=w.other, **DIRECT)
        assert (again.status.statusCode, again.status.sqlState) == (_STATUS.ERROR_STATUS, "08007")
        assert w.spark.ran == ["wait INSERT"]
        w.spark.hold.set()
        await first
        await until(lambda: not any(w.spark.sessions.values()))
        other = await w.begin(token, session, "wait INSERT", entrance=w.other, **DIRECT)
        assert other.status.statusCode == _STATUS.SUCCESS_STATUS, "any server runs statements of a session"


async def test_another_server_goes_on_with_a_statement_whose_result_nobody_has_fetched(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        handle = (await w.begin(token, session, "rows 10 5", canReadArrowResult=True)).operationHandle
        assert (await finished(w, token, handle, entrance=w.other)).operationState == _STATE.FINISHED_STATE
        part = await fetched(w, token, handle, entrance=w.other)
        assert (part.results.startRowOffset, part.results.arrowBatches[0].rowCount) == (0, 5)
        assert w.spark.ran == ["rows 10 5"]
        assert [each.text for each in w.observer.begun] == ["rows 10 5"], "told once, with its text"
        large = (await w.begin(token, session, "rows 3000000 1000000")).operationHandle
        await fetched(w, token, large)
        released = len(w.spark.released)
        assert (await fetched(w, token, large, entrance=w.other)).status.statusCode == _STATUS.INVALID_HANDLE_STATUS, (
            "no row twice"
        )
        assert len(w.spark.released) == released, "its own server goes on"


async def test_a_statement_whose_client_asks_one_server_after_the_other_ends_well(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        beginning = asyncio.create_task(w.begin(token, session, "wait SELECT"))
        await until(lambda: w.spark.ran)
        statement_id = w.observer.begun[0].statement_id
        handle = operation_handle(statement_id, session_ids(session)[0])
        asked = ttypes.TGetOperationStatusReq(handle)
        for entrance in (w.other, w.entrance, w.other, w.entrance):
            status = await w.call(token, "GetOperationStatus", asked, entrance=entrance)
            assert status.operationState == _STATE.RUNNING_STATE
        await beginning
        w.spark.hold.set()
        assert (await finished(w, token, handle, entrance=w.other)).operationState == _STATE.FINISHED_STATE
        assert (await fetched(w, token, handle, entrance=w.other)).status.statusCode == _STATUS.SUCCESS_STATUS
        assert [each.text for each in w.observer.begun] == ["wait SELECT"]
        assert {outcome.state for _, outcome in w.observer.over} == {StatementState.FINISHED}
        assert w.spark.ran == ["wait SELECT"]
        assert not w.spark.released


async def test_rows_whose_client_was_gone_are_given_again(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        handle = (await w.begin(token, session, "rows 10 5")).operationHandle
        await finished(w, token, handle)
        await fetched(w, token, handle, gone=asyncio.Event())
        part = await fetched(w, token, handle)
        assert (part.results.startRowOffset, part.results.columns[0].i64Val.values[:5]) == (0, list(range(5)))


async def test_rows_whose_client_goes_while_they_are_fetched_are_given_again(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        handle = (await w.begin(token, session, "rows 3000000 1000000")).operationHandle
        await finished(w, token, handle)
        w.spark.releases.clear()
        gone = asyncio.Event()
        fetch = asyncio.create_task(fetched(w, token, handle, gone=gone))
        await until(lambda: w.spark.released)  # the rows are taken, and the answer is not sent
        gone.set()
        await fetch
        w.spark.releases.set()
        starts, rows, more = list[int](), 0, True
        while more:
            part = await fetched(w, token, handle)
            starts.append(part.results.startRowOffset)
            rows, more = rows + len(part.results.columns[0].i64Val.values), part.hasMoreRows
        assert (starts[0], rows) == (0, 3_000_000)


async def test_limits_of_sessions_and_statements_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OPEN", sessions.OPEN._replace(share=1, admin_share=1))
    monkeypatch.setattr(operations, "OPEN", operations.OPEN._replace(share=1, admin_share=1))
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        with pytest.raises(Refused) as caught:
            await w.session(token)
        assert caught.value.status == QuotaExceeded.http_status
        handle = (await w.begin(token, session, "rows 10 5")).operationHandle
        answer = await w.begin(token, session, "one more")
        assert (answer.status.statusCode, answer.status.sqlState) == (_STATUS.ERROR_STATUS, "53300")
        await w.call(token, "CloseOperation", ttypes.TCloseOperationReq(handle))
        assert (await w.begin(token, session, "one more")).status.statusCode == _STATUS.SUCCESS_STATUS
        await w.call(token, "CloseSession", ttypes.TCloseSessionReq(session))
        await w.session(token)


async def test_calls_for_statements_do_not_count_as_calls_of_spark_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement takes several, some of them after its answer: 200 sessions at once would be above the limit of one user."""
    monkeypatch.setattr(connect, "CALLS", connect.CALLS._replace(share=1, admin_share=1))
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        first, second = await w.session(token), await w.session(token)
        await w.begin(token, first, "wait")
        assert (await w.begin(token, second, "another")).status.statusCode == _STATUS.SUCCESS_STATUS
        w.spark.hold.set()


async def test_a_session_whose_client_was_gone_before_it_had_the_handle_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "OPEN", sessions.OPEN._replace(share=1, admin_share=1))
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        request = ttypes.TOpenSessionReq(configuration={})
        await w.call(token, "OpenSession", request, gone=asyncio.Event())  # with the answer
        await until(lambda: not w.spark.incarnations)
        gone = asyncio.Event()
        slow = ttypes.TOpenSessionReq(configuration={}, initialNamespace=ttypes.TNamespace(catalogName="wait"))
        opening = asyncio.create_task(w.call(token, "OpenSession", slow, gone=gone))
        await until(lambda: w.spark.ran)
        gone.set()
        await opening
        await until(lambda: not w.spark.incarnations)
        await w.session(token)


async def test_a_burst_of_sessions_is_refused_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OPEN", sessions.OPEN._replace(share=50, admin_share=50))
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        opened = await asyncio.gather(*(w.session(token) for _ in range(300)), return_exceptions=True)
        refused = [each for each in opened if isinstance(each, Refused)]
        # On a slow machine more are under way at once than the server takes calls.
        assert QuotaExceeded.http_status in {each.status for each in refused} <= {QuotaExceeded.http_status, 429}
        assert len(w.spark.incarnations) == 300 - len(refused) == 50
        handles = [each for each in opened if isinstance(each, ttypes.TSessionHandle)]
        answers = await asyncio.gather(*(w.begin(token, each, "rows 2 2", **DIRECT) for each in handles))
        assert {each.status.statusCode for each in answers} == {_STATUS.SUCCESS_STATUS}
        await asyncio.gather(*(w.call(token, "CloseSession", ttypes.TCloseSessionReq(each)) for each in handles))
        assert not w.spark.incarnations
        assert isinstance(await w.session(token), ttypes.TSessionHandle)


async def test_a_limit_of_rows_is_part_of_the_plan(tmp_path: Path) -> None:
    async with sql_world(tmp_path) as w:
        token = await w.world.token("me@example.com")
        await w.begin(token, await w.session(token), "x", resultRowLimit=7, **DIRECT)
        assert w.spark.plans[-1].limit.limit == 7
