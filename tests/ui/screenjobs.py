"""The jobs of the pictures of the web page."""

from __future__ import annotations

import base64
from datetime import timedelta

from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterSpec
from databricks.sdk.service.jobs import (
    ConditionTask,
    ConditionTaskOp,
    CronSchedule,
    JobCluster,
    JobParameterDefinition,
    PauseStatus,
    QueueSettings,
    SparkPythonTask,
    Task,
    TaskDependency,
)

RUNTIME = "17.3.x-scala2.13"


def jobs_of(w: WorkspaceClient) -> tuple[str, str]:
    """Two jobs: one with a branch, whose first run is over. Returns its id and the run's."""
    w.dbfs.put("/load.py", contents=base64.b64encode(b"print(1)\n").decode(), overwrite=True)
    file = SparkPythonTask(python_file="dbfs:/load.py", parameters=["--day", "{{job.parameters.day}}"])
    shared = ClusterSpec(num_workers=2, spark_version=RUNTIME, node_type_id="i3.2xlarge")
    big = ConditionTask(op=ConditionTaskOp.EQUAL_TO, left="{{job.parameters.day}}", right="monday")
    loaded, checked = TaskDependency(task_key="load"), TaskDependency(task_key="monday", outcome="true")
    tasks = [
        Task(task_key="load", spark_python_task=file, job_cluster_key="main", max_retries=2),
        Task(task_key="clean", spark_python_task=file, job_cluster_key="main", depends_on=[loaded]),
        Task(task_key="monday", condition_task=big, depends_on=[loaded]),
        Task(task_key="weekly-report", spark_python_task=file, job_cluster_key="main", depends_on=[checked]),
    ]
    made = w.jobs.create(
        name="flights-daily",
        description="Loads yesterday's flights.",
        tags={"team": "data"},
        tasks=tasks,
        job_clusters=[JobCluster(job_cluster_key="main", new_cluster=shared)],
        parameters=[JobParameterDefinition(name="day", default="tuesday")],
        schedule=CronSchedule(
            quartz_cron_expression="0 30 6 ? * MON-FRI", timezone_id="Europe/Berlin", pause_status=PauseStatus.UNPAUSED
        ),
        queue=QueueSettings(enabled=True),
        max_concurrent_runs=2,
    )
    bare = SparkPythonTask(python_file="dbfs:/load.py")
    w.jobs.create(name="vacuum", tasks=[Task(task_key="vacuum", spark_python_task=bare, new_cluster=shared)])
    job_id = int(made.job_id or 0)
    run = w.jobs.run_now(job_id).result(timeout=timedelta(minutes=2))
    w.jobs.run_now(job_id, job_parameters={"day": "monday"}).result(timeout=timedelta(minutes=2))
    return str(job_id), str(run.run_id)
