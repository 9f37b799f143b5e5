"""The output of SQL tasks as clients see it. Pure."""

from __future__ import annotations

from brickyard.domain.run import Output, Run, Task
from brickyard.domain.sqltasks import statement_id
from brickyard.features.runs.model import SqlColumn, SqlOutput, SqlQueryOutput, SqlResult, SqlStatementOutput


def sql_output(run: Run, task: Task, task_run_id: int, found: Output, base_url: str) -> SqlOutput | None:
    """The output of an attempt; None if it has run no SQL."""
    attempt = next((each for each in task.attempts if each.task_run_id == task_run_id), None)
    if found.sql is None or attempt is None:
        return None
    ids = (statement_id(task_run_id, attempt.starting_ms, number) for number in range(found.sql.begun))
    table = found.table
    result = (
        SqlResult(
            columns=[SqlColumn(name=name, type_text=kind) for name, kind in table.columns],
            data_array=table.rows,
            truncated=table.truncated,
        )
        if table is not None
        else None
    )
    return SqlOutput(
        query_output=SqlQueryOutput(
            warehouse_id=attempt.cluster_id,
            endpoint_id=attempt.cluster_id,
            query_text=";\n".join(each.text for each in found.sql.statements),
            sql_statements=[SqlStatementOutput(lookup_key=each) for each in ids],
            output_link=f"{base_url}/jobs/{run.job_id}/runs/{run.run_id}",
            result=result,
        )
    )
