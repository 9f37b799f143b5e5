"""SQL on real Spark while servers are killed, connections break, clients vanish or too many come. No statement runs twice."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psutil
import pytest
import requests
from databricks.sdk.errors import Aborted
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service import sql as api
from databricks.sdk.service.compute import Kind, State
from databricks.sql.exc import Error
from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TTransport import TTransportException

from brickyard.gateway.sql.sessions import OPEN
from tests.spark.live import Live
from tests.spark.test_sql import JOBS, SLOW, connect, rows
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

SECONDS = "SELECT sum(id % 7) FROM range(0, 4000000000, 1, 1)"
LARGE = "SELECT id, sha2(CAST(id AS STRING), 256) AS h FROM range(0, 3000000, 1, 16)"
BURST, CROWD = 2_000, 200
SERVER_MIB = 300.0  # by which the burst may make the server grow
CLIENT = """
import json, sys
from databricks import sql
given = json.loads(sys.argv[1])
sql.connect("127.0.0.1", given["path"], access_token=given["token"], _connection_uri=given["uri"],
            enable_telemetry=False).cursor().execute(given["statement"])
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """It comes back at the same port."""
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, port=free_port())
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(live: Live) -> str:
    made = live.create("faults", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    live.wait(made, State.RUNNING)
    return made


def restart(live: Live) -> None:
    live.kill(live.server())
    live.start()


def run(live: Live, cluster: str, statement: str, **fields: Any) -> api.StatementResponse:
    answer = live.w.statement_execution.execute_statement(statement, cluster, **{"wait_timeout": "50s", **fields})
    return ended(live, str(answer.statement_id))


def ended(live: Live, statement_id: str) -> api.StatementResponse:
    def over() -> api.StatementResponse | None:
        found = live.w.statement_execution.get_statement(statement_id)
        assert found.status is not None
        return None if found.status.state in (api.StatementState.PENDING, api.StatementState.RUNNING) else found

    return until(over, "the statement does not end")


def state(answer: api.StatementResponse) -> api.StatementState | None:
    assert answer.status is not None
    return answer.status.state


def counted(live: Live, cluster: str, table: str) -> int:
    """Rows of a table, one for each execution of its INSERT, once nothing runs any more."""
    until(lambda: int(live.run_kept(cluster, JOBS)) == 0, "a job never ends")
    return int(live.run_kept(cluster, f"print(spark.table('{table}').count())"))


def beside(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException | None]]:
    """Begins it in a thread. What it raises is in the list, or None, once it has ended."""
    outcome: list[BaseException | None] = []

    def both() -> None:
        try:
            work()
            outcome.append(None)
        except (Error, DatabricksError, requests.RequestException) as error:
            outcome.append(error)

    thread = threading.Thread(target=both)
    thread.start()
    return thread, outcome


def test_a_fetch_that_was_cut_off_by_a_kill_gets_an_error_and_no_row_twice(live: Live, cluster: str) -> None:
    with connect(live, cluster) as connection, connection.cursor() as cursor, connection.cursor() as other:
        cursor.execute(LARGE)
        first = [row[0] for row in cursor.fetchmany(1000)]
        restart(live)
        found = list(first)
        with pytest.raises(Error):
            while part := cursor.fetchmany(100_000):
                found += [row[0] for row in part]
        assert found == list(range(len(found))), "neither left out nor repeated"
        assert len(found) < 3_000_000
        assert rows(other, "SELECT count(*) FROM range(7)") == [(7,)], "the session goes on"
        other.execute(LARGE)
        assert sum(len(part) for part in iter(lambda: other.fetchmany(500_000), [])) == 3_000_000


def test_a_result_is_kept_over_a_kill_and_a_statement_that_was_cut_off_fails(live: Live, cluster: str) -> None:
    links: dict[str, Any] = {"disposition": api.Disposition.EXTERNAL_LINKS, "format": api.Format.ARROW_STREAM}
    kept = run(live, cluster, LARGE, **links)
    slow = live.w.statement_execution.execute_statement(f"{LARGE} WHERE ({SECONDS}) > 0", cluster, wait_timeout="0s", **links)
    restart(live)
    again = live.w.statement_execution.get_statement(str(kept.statement_id))
    assert again.manifest is not None and again.manifest.chunks is not None
    assert again.manifest == kept.manifest
    counts = 0
    for each in again.manifest.chunks:
        data = live.w.statement_execution.get_statement_result_chunk_n(str(kept.statement_id), int(each.chunk_index or 0))
        assert data.external_links is not None
        body = requests.get(str(data.external_links[0].external_link), timeout=PATIENCE_S)
        assert body.ok and len(body.content) == each.byte_count
        counts += int(each.row_count or 0)
    assert counts == 3_000_000
    failed = ended(live, str(slow.statement_id))
    assert state(failed) is api.StatementState.FAILED
    assert failed.status is not None and failed.status.error is not None


def test_an_insert_through_the_statements_api_runs_once_over_a_kill(live: Live, cluster: str) -> None:
    assert state(run(live, cluster, "CREATE TABLE once (id DOUBLE)")) is api.StatementState.SUCCEEDED
    ids = len(list(live.w.query_history.list().res or []))
    running, outcome = beside(lambda: run(live, cluster, f"INSERT INTO once {SECONDS}"))
    until(lambda: len(list(live.w.query_history.list().res or [])) > ids, "it never begins")
    until(lambda: int(live.run_kept(cluster, JOBS)) > 0, "it never runs")
    restart(live)
    running.join(PATIENCE_S)
    assert isinstance(outcome[0], Aborted), outcome
    assert counted(live, cluster, "once") <= 1
    assert state(run(live, cluster, "INSERT INTO once VALUES (7)")) is api.StatementState.SUCCEEDED


def test_an_answer_that_was_lost_is_that_of_one_execution(live: Live, cluster: str) -> None:
    """The SDK and the connector send the call again when its connection breaks."""
    assert state(run(live, cluster, "CREATE TABLE lost (id DOUBLE)")) is api.StatementState.SUCCEEDED
    insert = f"INSERT INTO lost {SECONDS}"
    with connect(live, cluster) as connection, connection.cursor() as cursor:
        for executions, work in enumerate((lambda: run(live, cluster, insert), lambda: cursor.execute(insert)), 1):
            running, outcome = beside(work)
            until(lambda: int(live.run_kept(cluster, JOBS)) > 0, "it never runs")
            cut(live)
            running.join(PATIENCE_S)
            assert outcome == [None]
            assert counted(live, cluster, "lost") == executions


def cut(live: Live) -> None:
    """Breaks the connections of this process with the server, which learns of it."""
    import socket  # noqa: PLC0415 - here alone

    port = live.settings.port
    for each in psutil.Process().net_connections("tcp"):
        if each.status == psutil.CONN_ESTABLISHED and each.raddr and each.raddr.port == port and each.fd > 0:
            with socket.socket(fileno=each.fd) as found:
                found.shutdown(socket.SHUT_RDWR)
                found.detach()


def test_the_jobs_of_a_client_that_was_killed_end(live: Live, cluster: str) -> None:
    path = f"/sql/protocolv1/o/0/{cluster}"
    given = {"path": path, "token": live.w.config.token, "uri": f"{live.w.config.host}{path}", "statement": SLOW}
    client = subprocess.Popen([sys.executable, "-c", CLIENT, json.dumps(given)])
    try:
        until(lambda: int(live.run_kept(cluster, JOBS)) == 1, "it never runs")
    finally:
        client.kill()
        client.wait()
    until(lambda: int(live.run_kept(cluster, JOBS)) == 0, "its job never ends")


def test_a_burst_of_sessions_takes_bounded_memory(live: Live, cluster: str) -> None:
    server = live.server()
    before = server.memory_info().rss
    url, bearer = f"{live.w.config.host}/sql/protocolv1/o/0/{cluster}", f"Bearer {live.w.config.token}"

    def client() -> tuple[Any, Any]:
        transport = THttpClient(url)
        transport.setCustomHeaders({"Authorization": bearer})
        return TCLIService.Client(TBinaryProtocol(transport)), transport

    def opened(_number: int) -> Any:
        made, transport = client()
        try:
            return made.OpenSession(ttypes.TOpenSessionReq(configuration={})).sessionHandle
        except TTransportException:
            return transport.code

    def used(handle: Any) -> Any:
        direct = ttypes.TSparkGetDirectResults(maxRows=10, maxBytes=1 << 20)
        made, _ = client()
        answer = made.ExecuteStatement(ttypes.TExecuteStatementReq(handle, "SELECT 1", getDirectResults=direct))
        state = answer.directResults.operationStatus.operationState
        while state == ttypes.TOperationState.RUNNING_STATE:  # each question for it waits for a moment
            state = made.GetOperationStatus(ttypes.TGetOperationStatusReq(answer.operationHandle)).operationState
        return state

    with ThreadPoolExecutor(CROWD) as pool:
        began = time.monotonic()
        answers = list(pool.map(opened, range(BURST)))
        handles = [each for each in answers if not isinstance(each, int)]
        refused = Counter(each for each in answers if isinstance(each, int))
        print(f"{len(handles)} open and {dict(refused)} refused in {time.monotonic() - began:.1f} s")
        assert CROWD <= len(handles) <= OPEN.share
        assert set(refused) <= {400, 429}
        states = list(pool.map(used, handles[:CROWD]))
        assert set(states) == {ttypes.TOperationState.FINISHED_STATE}
        list(pool.map(lambda each: client()[0].CloseSession(ttypes.TCloseSessionReq(each)), handles))
    grown = (server.memory_info().rss - before) / 2**20
    print(f"the server has grown by {grown:.0f} MiB")
    assert grown < SERVER_MIB
    with connect(live, cluster) as connection, connection.cursor() as cursor:
        assert rows(cursor, "SELECT 1") == [(1,)]
