"""What clients of the Databricks API do, each a call or a few through the official SDK, with the answer that it must have."""

from __future__ import annotations

import base64
import contextlib
import io
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, TypeVar, cast

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service import catalog, compute, iam, jobs, sql, workspace

from bench._servers import TOKEN

SUM_CODE = 'print(spark.sql("SELECT sum(id) AS s FROM range(1000000)").collect()[0][0])'
SUM_SQL = "SELECT sum(id) AS s FROM range(1000000)"
SUM = "499999500000"
PATIENCE = timedelta(minutes=2)
POLL_S = 0.05

T = TypeVar("T")


class WrongError(Exception):
    """An answer came, and it is not what was asked for."""


class Bench:
    """One server in use, and what its probes share: a cluster, and names that nobody else has."""

    def __init__(self, client: WorkspaceClient, node_type: str, runtime: str) -> None:
        self.client, self.node_type, self.runtime = client, node_type, runtime
        self.cluster_id = ""
        self._context = ""

    def name(self) -> str:
        return f"rivals-{uuid.uuid4().hex[:8]}"

    def create(self) -> str:
        """A cluster of a driver and a worker; its id."""
        made = self.client.clusters.create(
            self.runtime, cluster_name=self.name(), node_type_id=self.node_type, num_workers=1, autotermination_minutes=30
        ).response
        return must(cast(compute.CreateClusterResponse, made).cluster_id, "cluster_id")

    def run(self, code: str) -> str:
        """What a command in Python prints on the shared cluster."""
        execution = self.client.command_execution
        if not self._context:
            made = execution.create(cluster_id=self.cluster_id, language=compute.Language.PYTHON).result(PATIENCE)
            self._context = must(made.id, "the id of a context")
        command = execution.execute(
            cluster_id=self.cluster_id, context_id=self._context, language=compute.Language.PYTHON, command=code
        ).result(PATIENCE)
        results = must(command.results, "results")
        if results.result_type == compute.ResultType.ERROR:
            raise WrongError(str(results.cause or results.summary))
        return str(results.data).strip()


class Probe(NamedTuple):
    """`about`: what a user does. `work` raises if it does not come out right; what it returns is not looked at."""

    about: str
    work: Callable[[Bench], object]


def must(value: T | None, what: str) -> T:
    """The value. Raises WrongError if there is none."""
    if value is None:
        raise WrongError(f"{what} is missing")
    return value


def same(found: object, wanted: object) -> None:
    """Raises WrongError unless both are equal."""
    if found != wanted:
        raise WrongError(f"{found!r:.60}, not {wanted!r}")


def running(bench: Bench) -> None:
    """Waits until the shared cluster, which was created, is RUNNING."""
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while (state := bench.client.clusters.get(bench.cluster_id).state) != compute.State.RUNNING:
        if state in (compute.State.TERMINATED, compute.State.ERROR) or time.monotonic() > deadline:
            raise WrongError(f"the cluster is {state}")
        time.sleep(POLL_S)


def computes(bench: Bench) -> None:
    same(bench.run(SUM_CODE), SUM)


def _executors(bench: Bench) -> None:
    # Threads of the driver's own JVM are no cluster: a worker has a JVM of its own.
    code = "print(sum(1 for _ in spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1)"
    same(bench.run(code), "1")


def _resize(bench: Bench) -> None:
    bench.client.clusters.resize(bench.cluster_id, num_workers=2).result(PATIENCE)
    same(len(bench.client.clusters.get(bench.cluster_id).executors or ()), 2)


def _events(bench: Bench) -> None:
    kinds = {event.type for event in bench.client.clusters.events(bench.cluster_id)}
    if compute.EventType.CREATING not in kinds:
        raise WrongError(f"no CREATING among {len(kinds)} kinds of events")


def _refusal(bench: Bench) -> None:
    _refused(
        lambda: bench.client.clusters.create("no-such-runtime", cluster_name="x", node_type_id=bench.node_type, num_workers=1)
    )


def _refused(call: Callable[[], object]) -> None:
    with contextlib.suppress(DatabricksError):
        call()
        raise WrongError("it was accepted")


def _policy(bench: Bench) -> None:
    policies = bench.client.cluster_policies
    made = policies.create(name=bench.name(), definition='{"num_workers": {"type": "range", "maxValue": 1}}')
    policy_id = must(made.policy_id, "policy_id")
    try:
        _refused(
            lambda: bench.client.clusters.create(
                bench.runtime, cluster_name=bench.name(), node_type_id=bench.node_type, num_workers=5, policy_id=policy_id
            )
        )
    finally:
        policies.delete(policy_id)


def _pool(bench: Bench) -> None:
    pools = bench.client.instance_pools
    pool_id = must(pools.create(bench.name(), bench.node_type, min_idle_instances=1).instance_pool_id, "instance_pool_id")
    deadline = time.monotonic() + PATIENCE.total_seconds()
    try:
        while (must(pools.get(pool_id).stats, "stats").idle_count or 0) < 1:
            if time.monotonic() > deadline:
                raise WrongError("no idle instance came")
            time.sleep(POLL_S)
    finally:
        pools.delete(pool_id)


def _library(bench: Bench) -> None:
    libraries = bench.client.libraries
    libraries.install(bench.cluster_id, [compute.Library(pypi=compute.PythonPyPiLibrary(package="humanize==4.9.0"))])
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while (status := next(iter(libraries.cluster_status(bench.cluster_id))).status) != compute.LibraryInstallStatus.INSTALLED:
        if status == compute.LibraryInstallStatus.FAILED or time.monotonic() > deadline:
            raise WrongError(f"the library is {status}")
        time.sleep(POLL_S)
    same(bench.run("import humanize; print(humanize.intcomma(1234))"), "1,234")


def _file(bench: Bench) -> None:
    path = f"/tmp/{bench.name()}.csv"  # noqa: S108 - a path in dbfs:/
    bench.client.dbfs.put(path, contents=base64.b64encode(b"a\n1\n2\n").decode())
    same(bench.run(f'print(spark.read.csv("dbfs:{path}", header=True).count())'), "2")


def _volume(bench: Bench) -> None:
    volume = bench.name().replace("-", "_")
    catalogs = bench.client.catalogs.list()
    named = next((each.name for each in catalogs if each.name not in ("system", "hive_metastore", "samples")), "main") or "main"
    schema = bench.client.schemas.create(f"of_{volume}", named).name
    bench.client.volumes.create(named, must(schema, "the schema's name"), volume, catalog.VolumeType.MANAGED)
    path = f"/Volumes/{named}/{schema}/{volume}/x.txt"
    bench.client.files.upload(path, io.BytesIO(b"brick"))
    same(bench.run(f"print(open({path!r}).read())"), "brick")


def _secret(bench: Bench) -> None:
    scope = bench.name()
    bench.client.secrets.create_scope(scope)
    bench.client.secrets.put_secret(scope, "key", string_value="quiet-words")
    code = f'found = dbutils.secrets.get("{scope}", "key"); print(len(found), found)'
    same(bench.run(code), "11 [REDACTED]")


def _job(bench: Bench) -> None:
    path = f"/Shared/{bench.name()}"
    bench.client.workspace.mkdirs("/Shared")
    bench.client.workspace.import_(
        path,
        content=base64.b64encode(f"dbutils.notebook.exit(str({1 + 1}))".encode()).decode(),
        format=workspace.ImportFormat.SOURCE,
        language=workspace.Language.PYTHON,
    )
    task = jobs.Task(task_key="one", existing_cluster_id=bench.cluster_id, notebook_task=jobs.NotebookTask(notebook_path=path))
    made = bench.client.jobs.create(name=bench.name(), tasks=[task])
    run = bench.client.jobs.run_now(must(made.job_id, "job_id")).result(PATIENCE)
    run_id = must(must(run.tasks, "tasks")[0].run_id, "run_id")
    same(must(bench.client.jobs.get_run_output(run_id).notebook_output, "notebook_output").result, "2")


def _statement(bench: Bench, text: str, wanted: str) -> None:
    made = bench.client.warehouses.create(
        name=bench.name(), cluster_size="2X-Small", auto_stop_mins=10, max_num_clusters=1
    ).response
    warehouse_id = must(cast(sql.CreateWarehouseResponse, made).id, "the warehouse's id")
    statements = bench.client.statement_execution
    try:
        answer = statements.execute_statement(text, warehouse_id, wait_timeout="50s")
        deadline = time.monotonic() + PATIENCE.total_seconds()
        while must(answer.status, "status").state in (sql.StatementState.PENDING, sql.StatementState.RUNNING):
            if time.monotonic() > deadline:
                raise WrongError("the statement did not end")
            time.sleep(POLL_S)
            answer = statements.get_statement(must(answer.statement_id, "statement_id"))
        if failure := must(answer.status, "status").error:
            raise WrongError(str(failure.message))
        same(must(must(answer.result, "result").data_array, "data_array"), [[wanted]])
    finally:
        bench.client.warehouses.delete(warehouse_id)


def _permission(bench: Bench) -> None:
    name = f"{bench.name()}@example.com"
    bench.client.users.create(user_name=name)
    entry = iam.AccessControlRequest(user_name=name, permission_level=iam.PermissionLevel.CAN_RESTART)
    bench.client.permissions.update("clusters", bench.cluster_id, access_control_list=[entry])
    after = bench.client.permissions.get("clusters", bench.cluster_id).access_control_list or ()
    if name not in {each.user_name for each in after}:
        raise WrongError("the permission is not in the list")


def _nobody(bench: Bench) -> None:
    host = bench.client.config.host
    _refused(lambda: WorkspaceClient(host=host, token=TOKEN[::-1] + "0", auth_type="pat").clusters.get(bench.cluster_id))


def _ends(bench: Bench) -> None:
    bench.client.clusters.delete(bench.cluster_id).result(PATIENCE)
    same(bench.client.clusters.get(bench.cluster_id).state, compute.State.TERMINATED)


PROBES = (
    Probe("a query over a million rows has the right answer", computes),
    Probe("the worker is a process of its own", _executors),
    Probe("the events of the cluster", _events),
    Probe("another worker while it runs", _resize),
    Probe("a runtime that does not exist is refused", _refusal),
    Probe("a cluster that its policy forbids is refused", _policy),
    Probe("an idle instance in a pool", _pool),
    Probe("a PyPI library, installed and imported", _library),
    Probe("a file in dbfs:/, read by Spark", _file),
    Probe("a file in a volume, read in Python", _volume),
    Probe("a secret, read on the cluster and redacted", _secret),
    Probe("a job with a notebook, and its result", _job),
    Probe("a SQL statement on a warehouse", lambda bench: _statement(bench, "SELECT 6 * 7 AS n", "42")),
    Probe("the same in Databricks' dialect", lambda bench: _statement(bench, SUM_SQL, SUM)),
    Probe("a permission, given and read", _permission),
    Probe("a token that does not exist is refused", _nobody),
    Probe("the cluster ends", _ends),
)
