"""The Jobs API's runs through the official SDK: its waiter, its mixin's pager and its errors, on the simulated provider."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied, ResourceDoesNotExist
from databricks.sdk.errors.sdk import OperationFailed
from databricks.sdk.service import compute, iam, jobs
from databricks.sdk.service.compute import ClusterSource
from databricks.sdk.service.iam import PermissionLevel
from databricks.sdk.service.jobs import RunLifeCycleState, RunLifecycleStateV2State, RunResultState, TerminationCodeCode

from brickyard.providers.simulated import SimulatedProvider
from tests.reconcile.runworld import answer
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.tokens import create

NEW = compute.ClusterSpec(
    spark_version="17.3.x-scala2.13",
    node_type_id="i3.xlarge",
    num_workers=0,
    spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
)

NO_STATS = compute.InstancePoolStats()


@pytest.fixture(scope="module", autouse=True)
def drivers(machines: SimulatedProvider) -> Iterator[None]:
    """Drivers that answer for the length of this module."""
    machines.kernels.compute = answer
    yield
    machines.kernels.compute = None


def upload(w: WorkspaceClient, path: str, source: str) -> str:
    w.dbfs.put(path, contents=base64.b64encode(source.encode()).decode(), overwrite=True)
    return f"dbfs:{path}"


def python(key: str, file: str, *needs: str, **fields: object) -> jobs.SubmitTask:
    return jobs.SubmitTask(
        task_key=key,
        spark_python_task=jobs.SparkPythonTask(python_file=file, parameters=["1", "zwei"]),
        new_cluster=NEW,
        depends_on=[jobs.TaskDependency(task_key=each) for each in needs],
        **fields,  # type: ignore[arg-type] # keyword arguments of a dataclass
    )


def test_a_task_runs_on_an_instance_of_a_pool(w: WorkspaceClient) -> None:
    pool = w.instance_pools.create(instance_pool_name="jobs", node_type_id="i3.xlarge", max_capacity=1, min_idle_instances=1)
    new = compute.ClusterSpec(
        spark_version=NEW.spark_version, instance_pool_id=pool.instance_pool_id, num_workers=0, spark_conf=NEW.spark_conf
    )
    task = dataclasses.replace(python("a", upload(w, "/jobs/pool.py", "print(1)")), new_cluster=new)
    for _ in range(2):  # an instance that has been another node knows itself by another generation than the cluster's
        until(lambda: (w.instance_pools.get(str(pool.instance_pool_id)).stats or NO_STATS).idle_count == 1, "idle")
        run = w.jobs.submit(tasks=[task]).result(timeout=SOON)
        assert run.state and run.state.result_state is RunResultState.SUCCESS
    w.instance_pools.delete(str(pool.instance_pool_id))


def test_who_may_see_and_cancel_a_run_is_said_when_it_is_submitted(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    file = upload(w, "/jobs/a.py", "print(1)")
    clients = {}
    for name in ("viewer", "manager", "stranger"):
        w.users.create(user_name=f"{name}@example.com")
        clients[name] = server.client(create(w, f"{name}@example.com", comment="", days=None))
    acl = [
        iam.AccessControlRequest(user_name=f"{name}@example.com", permission_level=level).as_dict()
        for name, level in (("viewer", PermissionLevel.CAN_VIEW), ("manager", PermissionLevel.CAN_MANAGE_RUN))
    ]
    request = {"tasks": [python("a", file).as_dict()], "access_control_list": acl}

    def submit(**changed: object) -> int:
        answer = w.api_client.do("POST", "/api/2.2/jobs/runs/submit", body={**request, **changed})
        assert isinstance(answer, dict)
        return int(answer["run_id"])

    for bad in ("CAN_FLY", "IS_OWNER"):
        with golden.refused(InvalidParameterValue):
            submit(access_control_list=[{**acl[0], "permission_level": bad}])
    with golden.refused(NotFound):
        submit(access_control_list=[{**acl[0], "user_name": "nobody@example.com"}])
    run_id = submit(idempotency_token="acl")
    assert submit(idempotency_token="acl") == run_id
    assert clients["viewer"].jobs.get_run(run_id).run_id == run_id
    for name in ("viewer", "stranger"):
        with pytest.raises(PermissionDenied):
            clients[name].jobs.cancel_run(run_id)
    with pytest.raises(PermissionDenied):
        clients["stranger"].jobs.get_run(run_id)
    assert [each.run_id for each in clients["viewer"].jobs.list_runs()] == [run_id]
    assert list(clients["stranger"].jobs.list_runs()) == []
    clients["manager"].jobs.cancel_run(run_id)


def test_submit_and_wait(w: WorkspaceClient) -> None:
    file = upload(w, "/jobs/a.py", "print(1)")
    run = w.jobs.submit(run_name="nightly", tasks=[python("a", file), python("b", file, "a")]).result(timeout=SOON)
    assert run.state and run.status
    assert run.state.life_cycle_state is RunLifeCycleState.TERMINATED
    assert run.state.result_state is RunResultState.SUCCESS
    assert run.status.state is RunLifecycleStateV2State.TERMINATED
    assert run.status.termination_details and run.status.termination_details.code is TerminationCodeCode.SUCCESS
    assert run.run_type is jobs.RunType.SUBMIT_RUN
    assert run.run_page_url == f"{w.config.host}/jobs/{run.job_id}/runs/{run.run_id}"  # Airflow's operators need one
    assert run.tasks and [each.task_key for each in run.tasks] == ["a", "b"]
    for each in run.tasks:
        assert each.run_id and each.cluster_instance and each.cluster_instance.cluster_id
        output = w.jobs.get_run_output(each.run_id)
        assert output.logs == "/jobs/a.py 1 zwei: print(1)"
        assert output.metadata and output.metadata.job_run_id == run.run_id
        cluster = w.clusters.get(each.cluster_instance.cluster_id)
        assert cluster.cluster_source is ClusterSource.JOB
        assert cluster.default_tags and cluster.default_tags["RunName"] == "nightly"
        assert cluster.termination_reason and cluster.termination_reason.code is compute.TerminationReasonCode.JOB_FINISHED


def test_a_failure_raises_from_the_waiter_and_is_in_the_output(w: WorkspaceClient, golden: Golden) -> None:
    file = upload(w, "/jobs/fail.py", "fail")
    waiter = w.jobs.submit(tasks=[python("a", file)])
    with golden.refused(OperationFailed, "INTERNAL_ERROR"):
        waiter.result(timeout=SOON)
    run = w.jobs.get_run(waiter.run_id)
    assert run.state and run.state.result_state is RunResultState.FAILED
    assert run.tasks and run.tasks[0].run_id
    output = w.jobs.get_run_output(run.tasks[0].run_id)
    assert output.error == "ValueError: 1 < 2"
    assert output.error_trace and "Traceback" in output.error_trace


def test_cancel_list_and_delete(w: WorkspaceClient) -> None:
    file = upload(w, "/jobs/slow.py", "slow")
    waiter = w.jobs.submit(tasks=[python("a", file)], idempotency_token="once")
    again = w.jobs.submit(tasks=[python("a", file)], idempotency_token="once")
    assert [again.bind()["run_id"]] == [waiter.run_id]
    assert waiter.run_id in [run.run_id for run in w.jobs.list_runs(active_only=True)]
    cancelled = w.jobs.cancel_run(waiter.run_id).result(timeout=SOON)
    assert cancelled.state and cancelled.state.result_state is RunResultState.CANCELED
    assert cancelled.state.user_cancelled_or_timedout
    made = [w.jobs.submit(tasks=[python("a", upload(w, "/jobs/a.py", "1"))]) for _ in range(3)]
    for each in made:
        each.result(timeout=SOON)
    listed = [run.run_id for run in w.jobs.list_runs(limit=1, expand_tasks=False)]
    ours = [each.run_id for each in made]
    assert [run_id for run_id in listed if run_id in ours] == list(reversed(ours))
    w.jobs.delete_run(waiter.run_id)
    with pytest.raises(ResourceDoesNotExist):
        w.jobs.get_run(waiter.run_id)


def test_bad_requests(w: WorkspaceClient, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, "run_job_task"):
        w.jobs.submit(tasks=[jobs.SubmitTask(task_key="a", run_job_task=jobs.RunJobTask(job_id=1), new_cluster=NEW)])
    with golden.refused(InvalidParameterValue, "serverless"):
        w.jobs.submit(tasks=[jobs.SubmitTask(task_key="a", spark_python_task=jobs.SparkPythonTask(python_file="dbfs:/x.py"))])


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_older_paths_and_the_older_form(w: WorkspaceClient, version: str) -> None:
    file = upload(w, "/jobs/a.py", "old")
    name = f"from_airflow-{version.replace('.', '')}"
    body = {"new_cluster": NEW.as_dict(), "spark_python_task": {"python_file": file}, "run_name": name}
    answered = w.api_client.do("POST", f"/api/{version}/jobs/runs/submit", body=body)
    assert isinstance(answered, dict)
    run_id = answered["run_id"]
    done = w.jobs.wait_get_run_job_terminated_or_skipped(run_id, timeout=SOON)
    # Airflow's DatabricksTaskOperator looks its task up by the name of the run.
    assert [task.task_key for task in done.tasks or []] == [name]
    output = w.api_client.do("GET", f"/api/{version}/jobs/runs/get-output", query={"run_id": run_id})
    assert isinstance(output, dict)
    assert output["logs"] == "/jobs/a.py : old"
