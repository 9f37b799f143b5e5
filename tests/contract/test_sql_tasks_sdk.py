"""SQL tasks and saved queries through the official SDK, on the simulated provider: statements are answered by a stand-in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied
from databricks.sdk.errors.sdk import OperationFailed
from databricks.sdk.service import jobs, sql
from databricks.sdk.service.workspace import ImportFormat, Language

from brickyard.features.statements.model import Query, StatementFailed
from tests.contract.test_warehouses_sdk import warehouse
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.sqlstandin import Result, SqlStandIn
from tests.support.tokens import create

Answer = Callable[[Query], Result | None]
ROWS: Result = ({"city": "STRING", "n": "BIGINT"}, [["Ulm", "1"], ["Bonn", None]])


def answer(query: Query) -> Result | None:
    if "broken" in query.text:
        raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] broken")
    return None if "slow" in query.text else ROWS


@pytest.fixture(scope="module")
def spark(server: Server) -> SqlStandIn:
    return SqlStandIn(server, answer)


@pytest.fixture(scope="module")
def on(w: WorkspaceClient) -> Iterator[str]:
    """A stopped warehouse."""
    with warehouse(w, "for tasks") as made:
        w.warehouses.stop(made)
        until(lambda: w.warehouses.get(made).state is sql.State.STOPPED)
        yield made


def file(w: WorkspaceClient, name: str, text: str) -> str:
    path = f"/Users/{w.current_user.me().user_name}/{name}.sql"
    w.workspace.upload(path, text.encode(), format=ImportFormat.RAW, overwrite=True)
    return path


def task(key: str, *needs: str, on: str, file: str = "", query: str = "", **parameters: str) -> jobs.SubmitTask:
    what = jobs.SqlTask(
        warehouse_id=on,
        file=jobs.SqlTaskFile(path=file, source=jobs.Source.WORKSPACE) if file else None,
        query=jobs.SqlTaskQuery(query_id=query) if query else None,
        parameters=parameters or None,
    )
    depends = [jobs.TaskDependency(task_key=each) for each in needs]
    return jobs.SubmitTask(task_key=key, sql_task=what, depends_on=depends)


def output(w: WorkspaceClient, run: jobs.Run, key: str) -> jobs.RunOutput:
    return w.jobs.get_run_output(next(int(each.run_id or 0) for each in run.tasks or () if each.task_key == key))


def test_files_and_queries_run_in_order_and_hand_on_their_rows(w: WorkspaceClient, on: str, spark: SqlStandIn) -> None:
    text = "CREATE TABLE t (n INT); -- one; two\nINSERT INTO t VALUES (1);\nSELECT ';' FROM t WHERE a = :a AND b = '{{ b }}';"
    saved = w.queries.create(
        query=sql.CreateQueryRequestQuery(
            display_name="cities",
            query_text="SELECT {{ city }}, :limit, '{{city}}'",
            warehouse_id=on,
            catalog="main",
            schema="sales",
            parameters=[
                sql.QueryParameter(name="city", text_value=sql.TextValue(value="?")),
                sql.QueryParameter(name="limit", numeric_value=sql.NumericValue(value=5)),
            ],
        )
    )
    after = len(spark.ran)
    run = w.jobs.submit(
        run_name="sql",
        tasks=[
            task("file", on=on, file=file(w, "file", text), a="{{job.run_id}}", b="it's", unused="1"),
            task(
                "query",
                "file",
                on=on,
                query=str(saved.id),
                city="{{tasks.file.output.first_row.city}} {{tasks.file.output.rows}}",
            ),
        ],
    ).result(timeout=SOON)
    ran = spark.ran[after:]
    assert [each.text for each in ran] == [
        "CREATE TABLE t (n INT)",
        "-- one; two\nINSERT INTO t VALUES (1)",
        "SELECT ';' FROM t WHERE a = :a AND b = 'it\\'s'",
        'SELECT :city, :limit, \'Ulm [{\\"city\\": \\"Ulm\\", \\"n\\": \\"1\\"}, {\\"city\\": \\"Bonn\\", \\"n\\": null}]\'',
    ]
    assert [(each.name, each.value) for each in ran[2].parameters] == [("a", str(run.run_id))]
    assert [(each.name, each.type) for each in ran[3].parameters] == [("city", "STRING"), ("limit", "BIGINT")]
    assert (ran[0].catalog, ran[3].catalog, ran[3].schema) == ("", "main", "sales")
    found = output(w, run, "file")
    shown = found.sql_output.query_output if found.sql_output else None
    assert shown and shown.sql_statements and shown.warehouse_id == on
    assert shown.query_text == ";\n".join(each.text for each in ran[:3])
    assert [each.lookup_key for each in shown.sql_statements] == [each.statement_id for each in ran[:3]]
    assert f"/jobs/{run.job_id}/runs/{run.run_id}" in (shown.output_link or "")
    filter_by = sql.QueryFilter(statement_ids=[each.statement_id for each in ran[:3]])
    until(lambda: len(w.query_history.list(filter_by=filter_by).res or ()) == 3)
    history = w.query_history.list(filter_by=filter_by).res or []
    assert {each.user_name for each in history} == {w.current_user.me().user_name}
    assert w.statement_execution.get_statement(ran[2].statement_id).manifest
    first = next(each for each in run.tasks or () if each.task_key == "file")
    assert first.sql_task and first.sql_task.warehouse_id == on and first.cluster_instance is None
    w.queries.delete(str(saved.id))


NOTEBOOK = """-- Databricks notebook source
SELECT :a

-- COMMAND ----------

-- MAGIC %md
-- MAGIC # A title; with text

-- COMMAND ----------

-- only a comment

-- COMMAND ----------

SELECT 2;
SELECT 3
"""


def test_a_sql_notebook_on_a_warehouse(w: WorkspaceClient, on: str, spark: SqlStandIn) -> None:
    me, after = w.current_user.me().user_name, len(spark.ran)
    for name, language, text in (("sql", Language.SQL, NOTEBOOK), ("python", Language.PYTHON, "# Databricks notebook source\n1")):
        w.workspace.upload(f"/Users/{me}/{name}", text.encode(), format=ImportFormat.SOURCE, language=language, overwrite=True)
    tasks = [
        jobs.SubmitTask(
            task_key=name,
            notebook_task=jobs.NotebookTask(notebook_path=f"/Users/{me}/{name}", base_parameters={"a": "1"}, warehouse_id=on),
        )
        for name in ("sql", "python")
    ]
    w.jobs.submit(tasks=tasks[:1]).result(timeout=SOON)
    assert [each.text for each in spark.ran[after:]] == ["SELECT :a", "SELECT 2", "SELECT 3"]
    waiter = w.jobs.submit(tasks=tasks[1:])
    with pytest.raises(OperationFailed, match="Only SQL notebooks"):
        waiter.result(timeout=SOON)


def test_a_failed_statement_is_the_tasks_error(w: WorkspaceClient, on: str, spark: SqlStandIn) -> None:
    waiter = w.jobs.submit(
        tasks=[
            task("file", on=on, file=file(w, "broken", "SELECT 1; SELECT * FROM broken; SELECT 'never'")),
            task("text", on=on, file=file(w, "empty", "-- nothing")),
            task("value", on=on, file=file(w, "value", "SELECT {{ missing }}")),
            task("lost", on=on, file="/Users/nobody/none.sql"),
        ]
    )
    with pytest.raises(OperationFailed):
        waiter.result(timeout=SOON)
    run = w.jobs.get_run(waiter.run_id)
    assert output(w, run, "file").error == "[TABLE_OR_VIEW_NOT_FOUND] broken"
    assert output(w, run, "text").error == "The text has no SQL statement."
    assert "missing has no value" in (output(w, run, "value").error or "")
    assert "none.sql" in (output(w, run, "lost").error or "")
    assert not [each for each in spark.ran if "never" in each.text]


def test_a_cancelled_run_cancels_its_statement(w: WorkspaceClient, on: str, spark: SqlStandIn) -> None:
    after = len(spark.ran)
    waiter = w.jobs.submit(tasks=[task("file", on=on, file=file(w, "slow", "SELECT slow; SELECT 'never'"))])
    until(lambda: len(spark.ran) > after)
    w.jobs.cancel_run_and_wait(waiter.run_id)
    statement = spark.ran[-1].statement_id
    found = w.statement_execution.get_statement(statement)
    assert found.status and found.status.state is sql.StatementState.CANCELED
    assert spark.ended, "its session is over"
    assert not [each for each in spark.ran if "never" in each.text]


def test_what_cannot_be_honoured_is_refused_by_name(w: WorkspaceClient, on: str) -> None:
    path = file(w, "one", "SELECT 1")
    git = jobs.SqlTask(warehouse_id=on, file=jobs.SqlTaskFile(path="a.sql", source=jobs.Source.GIT))
    both = jobs.SqlTask(warehouse_id=on, file=jobs.SqlTaskFile(path=path), query=jobs.SqlTaskQuery(query_id="x"))
    alert = jobs.SqlTask(warehouse_id=on, alert=jobs.SqlTaskAlert(alert_id="x"))
    dashboard = jobs.SqlTask(warehouse_id=on, dashboard=jobs.SqlTaskDashboard(dashboard_id="x"))
    for what, why in ((git, "GIT"), (both, "one of file"), (alert, "sql_task.alert"), (dashboard, "sql_task.dashboard")):
        with pytest.raises(InvalidParameterValue, match=why):
            w.jobs.submit(tasks=[jobs.SubmitTask(task_key="a", sql_task=what)])
    with pytest.raises(InvalidParameterValue, match="SQL warehouse 0000 does not exist"):
        w.jobs.submit(tasks=[task("a", on="0000", file=path)])
    with pytest.raises(InvalidParameterValue, match=r"output\.rows"):
        w.jobs.submit(tasks=[task("a", on=on, file=path), task("b", "a", on=on, file=path, x="{{tasks.a.output.rows.1}}")])
    with pytest.raises(InvalidParameterValue, match="existing_cluster_id"):
        w.jobs.submit(
            tasks=[jobs.SubmitTask(task_key="a", existing_cluster_id=on, sql_task=jobs.SqlTask(warehouse_id=on, file=both.file))]
        )


def test_sql_params_override_those_of_the_job(w: WorkspaceClient, on: str, spark: SqlStandIn) -> None:
    what = jobs.SqlTask(
        warehouse_id=on, file=jobs.SqlTaskFile(path=file(w, "p", "SELECT :a, :b")), parameters={"a": "1", "b": "2"}
    )
    created = w.jobs.create(name="sql", tasks=[jobs.Task(task_key="a", sql_task=what)])
    w.jobs.run_now(created.job_id or 0, sql_params={"b": "3"}).result(timeout=SOON)
    assert {each.name: each.value for each in spark.ran[-1].parameters} == {"a": "1", "b": "3"}


def test_whose_warehouse_it_is_not(w: WorkspaceClient, on: str, server: Server, spark: SqlStandIn) -> None:
    """CAN_USE is needed when the run begins, and the owner's right to read the text."""
    w.users.create(user_name="sql@example.com")
    other = server.client(create(w, "sql@example.com", comment="", days=None))
    path = file(w, "mine", "SELECT 'mine'")
    with pytest.raises(PermissionDenied):
        other.jobs.submit(tasks=[task("a", on=on, file=path)])
    users = [
        sql.WarehouseAccessControlRequest(user_name="sql@example.com", permission_level=sql.WarehousePermissionLevel.CAN_USE)
    ]
    w.warehouses.set_permissions(on, access_control_list=users)
    saved = w.queries.create(query=sql.CreateQueryRequestQuery(display_name="mine", query_text="SELECT 'mine'"))
    waiter = other.jobs.submit(tasks=[task("a", on=on, file=path), task("b", on=on, query=str(saved.id))])
    with pytest.raises(OperationFailed):
        waiter.result(timeout=SOON)
    run = other.jobs.get_run(waiter.run_id)
    assert all("permission" in (output(other, run, key).error or "").lower() for key in "ab")
    with pytest.raises(PermissionDenied):
        other.queries.get(str(saved.id))
    share(w, str(saved.id), "CAN_VIEW")  # what clients of the earlier SQL permissions API call CAN_READ
    assert [each.id for each in other.queries.list()] == [saved.id]
    with pytest.raises(OperationFailed):
        other.jobs.submit(tasks=[task("b", on=on, query=str(saved.id))]).result(timeout=SOON)
    assert not [each for each in spark.ran if "mine" in each.text]
    share(w, str(saved.id), "CAN_RUN")
    other.jobs.submit(tasks=[task("b", on=on, query=str(saved.id))]).result(timeout=SOON)
    assert [each.text for each in spark.ran if "mine" in each.text] == ["SELECT 'mine'"]
    for call in (
        lambda: other.queries.update(str(saved.id), "tags", query=sql.UpdateQueryRequestQuery(tags=["x"])),
        lambda: other.queries.delete(str(saved.id)),
        lambda: share(other, str(saved.id), "CAN_MANAGE"),
    ):
        with pytest.raises(PermissionDenied):
            call()
    share(w, str(saved.id), "CAN_EDIT")
    assert other.queries.update(str(saved.id), "tags", query=sql.UpdateQueryRequestQuery(tags=["x"])).tags == ["x"]
    with pytest.raises(InvalidParameterValue):
        share(w, str(saved.id), "IS_OWNER")
    w.queries.delete(str(saved.id))
    with pytest.raises(NotFound):
        share(w, str(saved.id), "CAN_RUN")
    assert list(other.queries.list()) == []


def share(w: WorkspaceClient, query_id: str, level: str) -> None:
    for kind in ("queries", "sql/queries"):
        body = {"access_control_list": [{"user_name": "sql@example.com", "permission_level": level}]}
        w.api_client.do("PATCH", f"/api/2.0/permissions/{kind}/{query_id}", body=body)


def test_saved_queries_are_kept_changed_and_deleted(w: WorkspaceClient) -> None:
    made = w.queries.create(
        query=sql.CreateQueryRequestQuery(
            display_name="kept",
            query_text="SELECT {{ day }}",
            description="text",
            tags=["a"],
            run_as_mode=sql.RunAsMode.OWNER,
            apply_auto_limit=True,
            parameters=[sql.QueryParameter(name="day", date_value=sql.DateValue(date_value="2026-01-31"))],
        )
    )
    me = w.current_user.me().user_name
    found = w.queries.get(str(made.id))
    assert found == made
    assert (found.display_name, found.owner_user_name, found.parent_path) == ("kept", me, f"/Users/{me}")
    assert found.lifecycle_state is sql.LifecycleState.ACTIVE
    with pytest.raises(InvalidParameterValue, match="already exists"):
        w.queries.create(query=sql.CreateQueryRequestQuery(display_name="kept"))
    second = w.queries.create(query=sql.CreateQueryRequestQuery(display_name="kept"), auto_resolve_display_name=True)
    assert second.display_name == "kept (1)"
    changed = w.queries.update(
        str(made.id), "display_name,tags", query=sql.UpdateQueryRequestQuery(display_name="new", query_text="ignored", tags=[])
    )
    assert (changed.display_name, changed.query_text, changed.description) == ("new", "SELECT {{ day }}", "text")
    with pytest.raises(InvalidParameterValue, match="update_mask"):
        w.queries.update(str(made.id), "nothing", query=sql.UpdateQueryRequestQuery())
    ranged = sql.QueryParameter(name="x", date_range_value=sql.DateRangeValue())
    with pytest.raises(InvalidParameterValue, match="date_range_value"):
        w.queries.create(query=sql.CreateQueryRequestQuery(display_name="ranged", parameters=[ranged]))
    listed = [each.id for each in w.queries.list(page_size=1)]
    assert [each for each in listed if each in (made.id, second.id)] == [made.id, second.id]
    for each in (made, second):
        w.queries.delete(str(each.id))
    with contextlib.suppress(NotFound):
        w.queries.get(str(made.id))
        raise AssertionError
