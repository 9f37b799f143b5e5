"""The main job, using only the official SDK: a cluster, the data, a join, a check of the answer. Slow to import."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import (
    ClusterDetails,
    CommandStatus,
    CommandStatusResponse,
    ContextStatus,
    ContextStatusResponse,
    Language,
    ResultType,
    State,
)

from brickyard.cli import CliError, printable
from brickyard.cli.flights import Airline, Data
from brickyard.cli.interrupts import held_back
from brickyard.cli.nodetypes import smallest_node_type
from brickyard.cli.progress import Say, Shown

NAME = "quickstart"
WORKERS = 2
FOLDER = "/quickstart"
IDLE_MINUTES = 60
START_LIMIT_S = 1_800.0  # the first start installs Spark
ANSWER_LIMIT_S = 1_200.0
LOOK_S = 0.2
Status = TypeVar("Status", ContextStatusResponse, CommandStatusResponse)
GOING_ON = (ContextStatus.PENDING, CommandStatus.QUEUED, CommandStatus.RUNNING, CommandStatus.CANCELLING)
COMING = (State.PENDING, State.RESTARTING, State.RESIZING)
QUERY = """\
SELECT name, count(*) AS flights, avg(CAST(arr_delay AS DOUBLE)) AS mean_delay
FROM flights JOIN airlines USING (carrier)
GROUP BY name ORDER BY flights DESC, name
"""
_INSTALLING = re.compile(r"(Installing Spark [^(]*?) \(.*")  # without the parts that keep changing: bytes, time left
_PROGRAM = """
import csv, json, os
for name in ("flights", "airlines"):
    path = os.environ["DBFS_ROOT"] + "{folder}/" + name + ".csv"
    with open(path, newline="") as file:  # without a schema, Spark runs a job only to read the first line
        schema = ", ".join("`" + column + "` STRING" for column in next(csv.reader(file)))
    spark.read.csv("file:" + path, schema=schema, header=True, nullValue="NA").createOrReplaceTempView(name)
answer = [list(row) for row in sql('''{query}''').collect()]
print(json.dumps({{"rows": sum(row[1] for row in answer), "answer": answer, "spark": spark.version}}))
"""


class Answer(NamedTuple):
    """The cluster's answer."""

    rows: int
    airlines: list[Airline]
    spark_version: str


def have_cluster(
    w: WorkspaceClient, *, runtime: str, any_runtime: bool, say: Shown, started: Callable[[str], None]
) -> ClusterDetails:
    """A running cluster: from an earlier quickstart, or a new one. `any_runtime`: an earlier one may have another runtime.

    Calls `started` with the cluster's id unless the cluster was already running or starting. Raises CliError, with the
    workspace's reason, if it fails to start.
    """
    mine = [each for each in w.clusters.list() if each.cluster_name == NAME and (any_runtime or each.spark_version == runtime)]
    for states in ((State.RUNNING,), COMING, (State.TERMINATED,)):
        for each in mine:
            if each.state in states:
                say(f"  cluster {each.cluster_id} is there" + (", starting it again" if State.TERMINATED in states else ""))
                if State.TERMINATED in states:
                    with held_back():
                        w.clusters.start(str(each.cluster_id))
                        started(str(each.cluster_id))
                return _running(w, str(each.cluster_id), say)
    node_type = smallest_node_type(each.as_dict() for each in w.clusters.list_node_types().node_types or [])
    say(f"  creating cluster {NAME!r}: driver and {WORKERS} workers of type {node_type}, runtime {runtime}")
    with held_back():
        made = w.clusters.create(
            cluster_name=NAME,
            spark_version=runtime,
            node_type_id=node_type,
            num_workers=WORKERS,
            autotermination_minutes=IDLE_MINUTES,
        )
        started(str(made.cluster_id))
    return _running(w, str(made.cluster_id), say)


def have_data(w: WorkspaceClient, data: Data, say: Say) -> None:
    """Uploads both files to the workspace unless they are there."""
    w.dbfs.mkdirs(FOLDER)
    for path in (data.flights, data.airlines):
        target, size = f"{FOLDER}/{path.name}", path.stat().st_size
        if w.dbfs.exists(target) and w.dbfs.get_status(target).file_size == size:
            say(f"  dbfs:{target} is there")
            continue
        with path.open("rb") as file:
            w.dbfs.upload(target, file, overwrite=True)
        say(f"  uploaded dbfs:{target} ({f'{size / 2**20:.1f} MiB' if size >= 2**20 else f'{size:,} bytes'})")


def ask(w: WorkspaceClient, cluster_id: str, say: Say) -> Answer:
    """Runs the query on the cluster. Raises CliError with Python's message if it fails."""
    say(textwrap.indent(QUERY.rstrip(), "  "))
    commands, program = w.command_execution, _PROGRAM.format(folder=FOLDER, query=QUERY)
    context_id = str(commands.create(cluster_id=cluster_id, language=Language.PYTHON).bind()["context_id"])
    try:
        context = _settled(lambda: commands.context_status(cluster_id, context_id))
        if context.status is not ContextStatus.RUNNING:
            raise CliError("the query's execution context did not start")
        ran = commands.execute(cluster_id=cluster_id, context_id=context_id, language=Language.PYTHON, command=program)
        command_id = str(ran.bind()["command_id"])
        results = _settled(lambda: commands.command_status(cluster_id, context_id, command_id)).results
    finally:
        with contextlib.suppress(DatabricksError, OSError):  # a lost cluster has no contexts left
            commands.destroy(cluster_id, context_id)
    if results is None or results.result_type is ResultType.ERROR:
        raise CliError(f"the query failed: {results.summary if results else 'no result'}\n{results.cause if results else ''}")
    try:
        said: dict[str, Any] = json.loads(str(results.data).strip().splitlines()[-1])
        return Answer(int(said["rows"]), [Airline(*line) for line in said["answer"]], str(said["spark"]))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise CliError(f"the query answered something else than expected: {str(results.data)[:500]}") from error


def _settled(look: Callable[[], Status]) -> Status:
    """Looks until something has come of it. The SDK's own waiting pauses longer each time: after seven seconds for five more.
    Raises CliError if that takes too long."""
    deadline = time.monotonic() + ANSWER_LIMIT_S
    while (found := look()).status in GOING_ON:
        if time.monotonic() > deadline:
            raise CliError(f"the query was not answered within {ANSWER_LIMIT_S:.0f} s")
        time.sleep(LOOK_S)
    return found


def check(answer: Answer, right: list[Airline], *, rows: int) -> None:
    """Raises CliError unless the answer equals `right`, to a millionth of a minute."""
    if answer.rows != rows:
        raise CliError(f"the answer is wrong: Spark counted {answer.rows} flights, and there are {rows}.")
    got, want = (
        [each._replace(mean_delay=round(each.mean_delay, 6)) for each in airlines] for airlines in (answer.airlines, right)
    )
    if got != want:
        wrong = next((pair for pair in zip(got, want, strict=False) if pair[0] != pair[1]), (len(got), len(want)))
        raise CliError(f"the answer is wrong: Spark says {wrong[0]}, and {wrong[1]} is right.")


def _running(w: WorkspaceClient, cluster_id: str, say: Shown) -> ClusterDetails:
    """Waits until the cluster runs, showing its state and message whenever they change, and each step of an installation."""
    started, last = time.monotonic(), ""
    while time.monotonic() - started < START_LIMIT_S:
        cluster = w.clusters.get(cluster_id)
        state = cluster.state.value if cluster.state else "UNKNOWN"
        line = printable(f"{state}: {cluster.state_message}".splitlines()[0]) if cluster.state_message else state
        say.now(line.removeprefix("PENDING: "))
        line = _INSTALLING.sub(r"\1", line)
        if line != last:
            last = line
            say(f"  {time.monotonic() - started:6.1f} s  {line}")
        if cluster.state is State.RUNNING:
            return cluster
        if cluster.state in (State.TERMINATED, State.TERMINATING, State.ERROR):
            raise CliError(f"cluster {cluster_id} did not start: {_reason(cluster)}")
        time.sleep(LOOK_S)
    raise CliError(f"cluster {cluster_id} did not start within {START_LIMIT_S:.0f} s: {last}")


def _reason(cluster: ClusterDetails) -> str:
    reason = cluster.termination_reason
    if reason is None or reason.code is None:
        return cluster.state_message or "no reason is known"
    details = "".join(f"\n  {name}: {value}" for name, value in (reason.parameters or {}).items())
    return f"{cluster.state_message} ({reason.code.value}){details}"
