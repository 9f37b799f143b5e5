"""A SQL warehouse and the Statement Execution API on real Spark, through the official SDK."""

from __future__ import annotations

import time

import pytest
import requests
from databricks import sql as connector
from databricks.sdk.service import sql

from brickyard.sandbox import launcher
from tests.spark.live import NODE, Live
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900),
    pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="users are kept apart in cells, which take namespaces"),
]  # fmt: skip
VALUES = """
SELECT 1 AS i, CAST(2.50 AS DECIMAL(5,2)) AS d, DATE'2024-01-02' AS day, TIMESTAMP'2024-01-02 03:04:05Z' AS t, true AS b,
       X'616263' AS x, array(1, 2) AS a, map('k', 1) AS m, named_struct('f', 'v') AS s, CAST(NULL AS STRING) AS n, :p + 1 AS p
"""


def test_statements_start_a_stopped_warehouse_and_bring_their_results(live: Live) -> None:
    w = live.w
    made = w.api_client.do(
        "POST", "/api/2.0/sql/warehouses", body={"name": "real", "cluster_size": "2X-Small", "node_type_id": NODE}
    )
    warehouse_id = str(made["id"])
    w.warehouses.stop(warehouse_id)
    w.warehouses.wait_get_warehouse_stopped(warehouse_id)

    def run(statement: str, **fields: object) -> sql.StatementResponse:
        answer = w.statement_execution.execute_statement(
            statement,
            warehouse_id,
            wait_timeout="50s",
            **fields,  # type: ignore[arg-type] # the SDK's own
        )
        deadline = time.monotonic() + 600
        while answer.status and answer.status.state in (sql.StatementState.PENDING, sql.StatementState.RUNNING):
            assert time.monotonic() < deadline
            time.sleep(1)
            answer = w.statement_execution.get_statement(str(answer.statement_id))
        return answer

    p = sql.StatementParameterListItem(name="p", type="INT", value="41")
    answer = run(VALUES, parameters=[p])
    assert answer.status is not None
    assert answer.status.state is sql.StatementState.SUCCEEDED, answer.status.error
    assert answer.result is not None
    assert answer.result.data_array == [
        ["1", "2.50", "2024-01-02", "2024-01-02T03:04:05.000Z", "true", "YWJj", "[1,2]", '{"k":1}', '{"f":"v"}', None, "42"]
    ]
    assert answer.manifest is not None
    assert answer.manifest.schema is not None
    types = [each.type_text for each in answer.manifest.schema.columns or []]
    assert types[:4] == ["INT", "DECIMAL(5,2)", "DATE", "TIMESTAMP"]
    assert types[6:9] == ["ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<f: STRING>"]
    failed = run("SELECT * FROM nothing_there")
    assert failed.status is not None
    assert (failed.status.state, failed.status.sql_state) == (sql.StatementState.FAILED, "42P01")
    links = run("SELECT id FROM range(100000)", disposition=sql.Disposition.EXTERNAL_LINKS, format=sql.Format.CSV, row_limit=1000)
    assert links.manifest is not None
    assert (links.manifest.total_row_count, links.manifest.truncated) == (1000, True)
    assert links.result is not None
    assert links.result.external_links is not None
    body = requests.get(str(links.result.external_links[0].external_link), timeout=PATIENCE_S)  # without a token
    assert body.text.splitlines()[0] == "id"
    assert sum(each.row_count or 0 for each in links.manifest.chunks or []) == 1000
    assert run("CREATE TABLE made (a INT)").status.state is sql.StatementState.SUCCEEDED  # type: ignore[union-attr] # it has one
    assert run("SELECT * FROM made", schema="default").manifest.total_row_count == 0  # type: ignore[union-attr] # likewise
    slow = w.statement_execution.execute_statement(
        "SELECT count(*) FROM range(100000000000) WHERE rand() < 2", warehouse_id, wait_timeout="0s"
    )
    w.statement_execution.cancel_execution(str(slow.statement_id))
    ended = w.statement_execution.get_statement(str(slow.statement_id))
    assert ended.status is not None
    assert ended.status.state is sql.StatementState.CANCELED
    history = {each.query_id: each for each in w.query_history.list(include_metrics=True).res or []}
    assert history[answer.statement_id].status is sql.QueryStatus.FINISHED
    assert history[failed.statement_id].status is sql.QueryStatus.FAILED
    w.warehouses.delete(warehouse_id)


def test_a_sql_client_starts_a_stopped_warehouse(live: Live) -> None:
    w = live.w
    made = w.api_client.do(
        "POST", "/api/2.0/sql/warehouses", body={"name": "thrift", "cluster_size": "2X-Small", "node_type_id": NODE}
    )
    warehouse_id = str(made["id"])
    w.warehouses.stop(warehouse_id)
    w.warehouses.wait_get_warehouse_stopped(warehouse_id)
    odbc = w.warehouses.get(warehouse_id).odbc_params
    assert odbc is not None
    uri = f"{w.config.host}{odbc.path}"
    with (
        connector.connect("127.0.0.1", str(odbc.path), w.config.token, _connection_uri=uri, enable_telemetry=False) as connection,
        connection.cursor() as cursor,
    ):
        assert w.warehouses.get(warehouse_id).state is sql.State.RUNNING
        found = cursor.execute("SELECT :n + 1, current_user()", {"n": 41}).fetchall()
        assert [tuple(row) for row in found] == [(42, w.current_user.me().user_name)]
    ran = [each for each in w.query_history.list().res or [] if each.warehouse_id == warehouse_id]
    assert [each.status for each in ran] == [sql.QueryStatus.FINISHED]
    w.warehouses.delete(warehouse_id)
