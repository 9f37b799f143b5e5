"""SQL clients, unmodified, on real Spark: Databricks' connector, and PyHive where it is installed."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from databricks import sql
from databricks.sdk.service.compute import Kind, State
from databricks.sql.client import Connection
from databricks.sql.exc import DatabaseError, ServerOperationError
from databricks.sql.utils import ArrowQueue, ThriftCloudFetchQueue
from thrift.transport.THttpClient import THttpClient

from tests.spark.live import Live, User
from tests.spark.shared import Lent
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SLOW = "SELECT sum(id % 7) FROM range(0, 1000000000000, 1, 2)"
WITHOUT_ZONE = datetime.datetime(2024, 2, 3, 4, 5, 6, 500000)  # noqa: DTZ001 - TIMESTAMP_NTZ
JOBS = "print(len(sc.statusTracker().getActiveJobsIds()))"


def connect(user: User, cluster_id: str, **fields: Any) -> Connection:
    path = f"/sql/protocolv1/o/0/{cluster_id}"
    config = user.w.config
    return sql.connect(
        "127.0.0.1", path, access_token=config.token, _connection_uri=f"{config.host}{path}", enable_telemetry=False, **fields
    )


@pytest.fixture
def cursor(lent_single: Lent) -> Iterator[Any]:
    with connect(lent_single.user, lent_single.cluster_id) as connection, connection.cursor() as made:
        yield made


def rows(cursor: Any, statement: str, *given: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in cursor.execute(statement, *given).fetchall()]


def test_types_parameters_state_and_errors(lent_single: Lent, cursor: Any) -> None:
    schema = lent_single.schema()
    kinds = "1.50 d, timestamp_ntz'2024-02-03 04:05:06.5' n, map('k', 1) m, named_struct('p', array(1)) s, date'2024-02-03' t"
    (row,) = cursor.execute(f"SELECT {kinds}").fetchall()
    assert (row.d, row.n) == (decimal.Decimal("1.50"), WITHOUT_ZONE)
    assert (row.m, list(row.s["p"]), row.t) == ([("k", 1)], [1], datetime.date(2024, 2, 3))
    assert rows(cursor, "SELECT interval '-13' month a, interval '1 02:03:04.5' day to second b, map(1, 'x') m") == [
        ("-1-1", "1 02:03:04.500000000", '{"1":"x"}')
    ]
    cursor.execute(f"USE {schema}")
    cursor.execute("SET spark.sql.session.timeZone = Asia/Tokyo")
    cursor.execute("CREATE TABLE t (id BIGINT, name STRING)")
    cursor.execute("INSERT INTO t VALUES (:id, :name), (2, 'b')", {"id": 1, "name": "a'; DROP TABLE t"})
    assert rows(cursor, "SELECT * FROM t WHERE name = ? OR id = ? ORDER BY id", ["a'; DROP TABLE t", 2]) == [
        (1, "a'; DROP TABLE t"), (2, "b"),
    ]  # fmt: skip
    assert rows(cursor, "SELECT current_schema(), current_timezone(), current_user()") == [
        (schema, "Asia/Tokyo", lent_single.user.w.current_user.me().user_name)
    ]
    cursor.execute("BEGIN INSERT INTO t VALUES (3, 'c'); INSERT INTO t VALUES (4, 'd'); END")
    assert rows(cursor, "SELECT count(*) FROM t") == [(4,)]
    assert [row[0] for row in rows(cursor, "SELECT id FROM range(250000)")] == list(range(250000))
    for statement, named in (("SELEC 1", "PARSE_SYNTAX_ERROR"), ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND")):
        with pytest.raises(ServerOperationError) as caught:
            cursor.execute(statement)
        assert f"[{named}]" in str(caught.value)
        assert "\tat " not in str(caught.value)
        assert "UnresolvedRelation" not in str(caught.value)
    with connect(
        lent_single.user, lent_single.cluster_id, schema=schema, session_configuration={"ansi_mode": "false"}
    ) as other, other.cursor() as second:  # fmt: skip
        assert rows(second, "SELECT count(*), max(1 / 0) FROM t") == [(4, None)]
    cursor.execute("USE default")


def test_a_large_result_comes_by_links(cursor: Any) -> None:
    cursor.execute("SELECT id, xxhash64(id) AS h FROM range(0, 2000000, 1, 4)")
    assert isinstance(cursor.active_result_set.results, ThriftCloudFetchQueue)
    table = cursor.fetchall_arrow()
    assert table["id"].to_pylist() == list(range(2_000_000))
    cursor.execute("SELECT id FROM range(0, 1000, 1, 8)")
    assert isinstance(cursor.active_result_set.results, ArrowQueue), "small, in many parts"
    assert len(cursor.fetchall()) == 1000


def test_what_nobody_waits_for_ends_in_spark(lent_single: Lent) -> None:
    user, cluster_id, context = lent_single.user, lent_single.cluster_id, lent_single.context()
    ends: list[Callable[[Any, Any], None]] = [
        lambda _connection, cursor: cursor.cancel(),
        lambda connection, _cursor: connection.close(),
    ]
    for end in ends:
        connection = connect(user, cluster_id)
        cursor = connection.cursor()
        cursor.execute_async(SLOW)
        jobs(lent_single, context, 1)
        end(connection, cursor)
        jobs(lent_single, context, 0)


def jobs(lent: Lent, context: str, number: int) -> None:
    """Wait until so many Spark jobs run."""

    def found() -> int:
        results = lent.finish(context, lent.begin(context, JOBS)).results
        assert results is not None
        return int(str(results.data))

    until(lambda: found() == number, f"never {number} jobs")


@pytest.mark.skipif(importlib.util.find_spec("pyhive") is None, reason="PyHive is not installed")
def test_pyhive(lent_single: Lent) -> None:
    from pyhive import hive  # type: ignore[import-not-found]  # noqa: PLC0415 - where it is installed

    config = lent_single.user.w.config
    transport = THttpClient(f"{config.host}/sql/protocolv1/o/0/{lent_single.cluster_id}")
    transport.setCustomHeaders({"Authorization": f"Bearer {config.token}"})
    with hive.connect(thrift_transport=transport) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, map('k', id) m, 1.5 d, array(1) a, true b FROM range(3000) ORDER BY id")
        found = cursor.fetchall()
        assert found[7] == (7, '{"k":7}', decimal.Decimal("1.5"), "[1]", True)
        assert len(found) == 3000
        assert cursor.fetch_logs() == []
        with pytest.raises(hive.OperationalError):
            cursor.execute("SELEC 1")


@pytest.mark.extended
class TestKilledServer:
    """A server of one's own, which is killed and comes back at the same port."""

    @pytest.fixture(scope="class")
    def cluster(self, live: Live) -> str:
        made = live.create("sql", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
        live.wait(made, State.RUNNING)
        return made

    @pytest.fixture(scope="class")
    def live(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
        made = Live(tmp_path_factory.mktemp("live") / "workspace")
        made.settings = msgspec.structs.replace(made.settings, port=free_port())
        made.start()
        try:
            yield made
        finally:
            made.close()

    def test_an_insert_runs_once_and_a_query_goes_on(self, live: Live, cluster: str) -> None:
        with connect(live, cluster) as connection, connection.cursor() as cursor, connection.cursor() as reader:
            cursor.execute("CREATE TABLE t (id DOUBLE)")
            cursor.execute("CREATE TABLE f (id DOUBLE)")
            slow = "SELECT sum(id % 7) FROM range(0, 10000000000, 1, 1)"
            outcome: list[BaseException | None] = []

            def insert() -> None:
                try:
                    cursor.execute(f"INSERT INTO t {slow}")
                    outcome.append(None)
                except DatabaseError as error:
                    outcome.append(error)

            reader.execute_async("SELECT 42 FROM (SELECT max(id % 7) m FROM range(0, 5000000000, 1, 1)) WHERE m >= 0")
            running = threading.Thread(target=insert)
            running.start()
            time.sleep(3)
            live.kill(live.server())
            live.start()
            running.join(PATIENCE_S)
            assert outcome, "the client still waits"
            reader.get_async_execution_result()
            assert [row[0] for row in reader.fetchall()] == [42]
            until(lambda: int(live.run(cluster, JOBS)) == 0, "the insert never ends")
            assert rows(cursor, "SELECT count(*) FROM t") in ([(1,)], [(0,)]), "never twice"
