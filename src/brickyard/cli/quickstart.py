"""`brickyard quickstart`: from nothing to a checked answer of a real Spark cluster, through the official SDK alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard.cli import CliError, flights
from brickyard.cli.client import client
from brickyard.cli.options import place, serving, settings
from brickyard.cli.up import start_detached
from brickyard.config import Settings
from brickyard.lifecycle.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.compute import ClusterDetails

NAME = "quickstart"
WORKERS = 2
FOLDER = "/quickstart"
START_LIMIT_S = 1_800.0  # a first start installs Spark
_QUERY = """
import json, os
folder = "file:" + os.environ["DBFS_ROOT"] + "{folder}"
flights = spark.read.csv(folder + "/flights.csv", header=True, inferSchema=True, nullValue="NA")
airlines = spark.read.csv(folder + "/airlines.csv", header=True)
flights.createOrReplaceTempView("flights")
airlines.createOrReplaceTempView("airlines")
answer = sql('''
    SELECT name, count(*) AS flights, avg(CAST(arr_delay AS DOUBLE)) AS mean_delay
    FROM flights JOIN airlines USING (carrier) GROUP BY name ORDER BY flights DESC, name
''')
print(json.dumps({{"rows": flights.count(), "answer": [list(row) for row in answer.collect()], "spark": spark.version}}))
"""


@click.command("quickstart")
@place
@serving
@click.option("--runtime", "runtime_key", default="", help="Runtime key; by default the newest LTS on Spark 4.")
def command(runtime_key: str, config_file: Path | None, **options: Any) -> None:
    """Start a workspace if none runs, make a real Spark cluster (driver and 2 workers), have it join and count 336,776 flights,
    and check its answer."""
    chosen = settings(config_file, **options)
    try:
        _Quickstart(chosen, runtime_key).run()
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    except KeyboardInterrupt:
        raise CliError("interrupted. What runs goes on: see `brickyard status`, stop it with `brickyard down`.") from None


class _Quickstart:
    def __init__(self, chosen: Settings, runtime_key: str) -> None:
        self._settings = chosen
        self._runtime = runtime_key or chosen.default_runtime
        self._workspace = Workspace(chosen.data_dir)
        self._times: list[tuple[str, float]] = []

    def run(self) -> None:
        with self._phase("workspace"):
            self._have_server()
        w = client(self._workspace)
        with self._phase("cluster"):
            cluster = self._have_cluster(w)
        with self._phase("data"):
            data = self._have_data(w)
        with self._phase("query"):
            answer = self._ask(w, cluster)
        with self._phase("check"):
            right = flights.expected(data)
            _check(answer, right)
        _table(answer)
        click.echo(
            f"\nSpark {answer['spark']} gave the same answer as a plain Python program over the same {flights.ROWS:,} rows."
        )
        self._how_to_go_on(cluster)

    def _have_server(self) -> None:
        running = self._workspace.running()
        if running and running.url:
            click.echo(f"  a server runs already at {running.url}")
        else:
            click.echo(f"  serving at {start_detached(self._settings, self._workspace)}")

    def _have_cluster(self, w: WorkspaceClient) -> ClusterDetails:
        from databricks.sdk.service.compute import State  # noqa: PLC0415 - half a second of imports

        mine = [each for each in w.clusters.list() if each.cluster_name == NAME]
        found = next(
            (each for each in mine if each.state in (State.RUNNING, State.PENDING, State.RESTARTING, State.RESIZING)), None
        )
        if found is None:
            runtime = self._runtime or _default_runtime()
            click.echo(f"  creating cluster {NAME!r}: driver and {WORKERS} workers, runtime {runtime}")
            created = w.clusters.create(
                cluster_name=NAME,
                spark_version=runtime,
                node_type_id="brickyard.small",
                num_workers=WORKERS,
                autotermination_minutes=60,
            )
            cluster_id = str(created.cluster_id)
        else:
            cluster_id = str(found.cluster_id)
            click.echo(f"  cluster {cluster_id} is there")
        return _wait(w, cluster_id)

    def _have_data(self, w: WorkspaceClient) -> flights.Data:
        data = flights.fetch(self._settings.cache_dir)
        w.dbfs.mkdirs(FOLDER)
        for path in (data.flights, data.airlines):
            target = f"{FOLDER}/{path.name}"
            if w.dbfs.exists(target) and w.dbfs.get_status(target).file_size == path.stat().st_size:
                click.echo(f"  dbfs:{target} is there")
                continue
            with path.open("rb") as file:
                w.dbfs.upload(target, file, overwrite=True)
            click.echo(f"  uploaded dbfs:{target} ({path.stat().st_size / 2**20:.1f} MiB)")
        return data

    def _ask(self, w: WorkspaceClient, cluster: ClusterDetails) -> dict[str, Any]:
        from databricks.sdk.service.compute import Language, ResultType  # noqa: PLC0415 - half a second of imports

        click.echo(f"  {flights.QUESTION}")
        context = w.command_execution.create(cluster_id=cluster.cluster_id, language=Language.PYTHON).result()
        try:
            done = w.command_execution.execute(
                cluster_id=cluster.cluster_id,
                context_id=context.id,
                language=Language.PYTHON,
                command=_QUERY.format(folder=FOLDER),
            ).result()
        finally:
            w.command_execution.destroy(str(cluster.cluster_id), str(context.id))
        results = done.results
        if results is None or results.result_type is ResultType.ERROR:
            raise CliError(f"the query failed: {results.summary if results else 'no result'}\n{results.cause if results else ''}")
        try:
            answer: dict[str, Any] = json.loads(str(results.data).strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            raise CliError(f"the query answered something else than expected: {str(results.data)[:500]}") from error
        return answer

    def _how_to_go_on(self, cluster: ClusterDetails) -> None:
        running = self._workspace.running()
        url = running.url if running else ""
        click.echo("\nTime: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._times))
        click.echo(f"""
Go on:
  brickyard configure          # a profile for the Databricks CLI, SDKs and Terraform; or:
  export DATABRICKS_HOST={url}
  export DATABRICKS_TOKEN=$(cat {self._workspace.data_dir / "admin-token"})

  from databricks.sdk import WorkspaceClient
  w = WorkspaceClient()
  print(w.clusters.get("{cluster.cluster_id}").state)

  brickyard status             # what runs
  brickyard down               # stop it all""")

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        click.echo(f"{name} ...")
        started = time.monotonic()
        yield
        self._times.append((name, time.monotonic() - started))


def _wait(w: WorkspaceClient, cluster_id: str, say: Callable[[str], None] = click.echo) -> ClusterDetails:
    """Until the cluster runs, repeating its state and message whenever they change. Raises CliError."""
    from databricks.sdk.service.compute import State  # noqa: PLC0415 - half a second of imports

    started, last = time.monotonic(), ""
    while time.monotonic() - started < START_LIMIT_S:
        cluster = w.clusters.get(cluster_id)
        state = cluster.state.value if cluster.state else "UNKNOWN"
        line = f"{state}: {cluster.state_message}" if cluster.state_message else state
        if line != last:
            last = line
            say(f"  {time.monotonic() - started:6.1f} s  {line.splitlines()[0]}")
        if cluster.state is State.RUNNING:
            return cluster
        if cluster.state in (State.TERMINATED, State.TERMINATING, State.ERROR):
            raise CliError(f"the cluster did not start: {cluster.state_message}")
        time.sleep(0.2)
    raise CliError(f"the cluster did not start within {START_LIMIT_S:.0f} s: {last}")


def _default_runtime() -> str:
    from brickyard.runtime.catalogue import default  # noqa: PLC0415 - reads a file

    return default().key


def _check(answer: dict[str, Any], right: list[flights.Airline]) -> None:
    """Raise CliError unless Spark's answer is the right one."""
    if answer["rows"] != flights.ROWS:
        raise CliError(f"the answer is wrong: Spark counted {answer['rows']} flights, and there are {flights.ROWS}.")
    got = [(name, count, round(mean, 6)) for name, count, mean in answer["answer"]]
    want = [(airline.name, airline.flights, round(airline.mean_delay, 6)) for airline in right]
    if got != want:
        wrong = next((pair for pair in zip(got, want, strict=False) if pair[0] != pair[1]), (len(got), len(want)))
        raise CliError(f"the answer is wrong: Spark says {wrong[0]}, and {wrong[1]} is right.")


def _table(answer: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where a table is drawn
    from rich.table import Table  # noqa: PLC0415 - likewise

    table = Table("Airline", title="Flights from New York City, 2013")
    table.add_column("Flights", justify="right")
    table.add_column("Mean arrival delay (min)", justify="right")
    for name, count, mean in answer["answer"]:
        table.add_row(name, f"{count:,}", f"{mean:.1f}")
    Console().print(table)
