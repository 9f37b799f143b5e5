"""`brickyard quickstart`: from nothing to a checked answer from a real Spark cluster."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from brickyard.cli import CliError, Interrupted, called, flights
from brickyard.cli.client import client, serving
from brickyard.cli.down import stop_server
from brickyard.cli.options import place, serving_too, settings
from brickyard.cli.progress import Say, Shown, working
from brickyard.cli.up import START_LIMIT_S, start_detached
from brickyard.config.load import source
from brickyard.config.providernames import listed
from brickyard.config.settings import Settings
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.server.messages import token_line
from brickyard.server.preflight import ServerError, listen

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

    from brickyard.cli.mainjob import Answer
    from brickyard.cli.warmpool import Starts, WarmPool

_COMPUTES_NOTHING = "has the simulated provider, whose nodes compute nothing."


@click.command("quickstart")
@place
@serving_too
@click.option("--runtime", "runtime_key", default="", help="Runtime key; by default the newest LTS on Spark 4.")
@click.option(
    "--pool/--no-pool",
    default=True,
    show_default=True,
    help="Also start a small cluster twice on an instance pool: cold, then warm.",
)
def command(runtime_key: str, pool: bool, config_file: Path | None, **options: Any) -> None:
    """Start a workspace if none runs, make a real Spark cluster (driver and 2 workers), have it join and count 336,776 flights,
    and check its answer; then show a cold and a warm start on an instance pool. What it made stays: run it again, or go on with
    the cluster. After Ctrl-C nothing of it stays.

    The options of `brickyard up` are for the server that it starts."""
    chosen = settings(config_file, **options)
    port_is_ours = source("port", config_file=config_file, options=options) == "the default"
    quickstart = _Quickstart(chosen, runtime_key or chosen.default_runtime, any_port=port_is_ours, pool=pool)
    try:
        quickstart.run()
    except (CliError, WorkspaceError) as error:
        raise CliError(f"{getattr(error, 'message', error)} {quickstart.what_stays()}".rstrip()) from error
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted. {quickstart.take_back()}") from None
    finally:
        quickstart.end_installing()


class _Quickstart:
    def __init__(self, chosen: Settings, runtime: str, *, any_port: bool, pool: bool) -> None:
        self._settings = chosen
        self._runtime = runtime
        self._any_port = any_port
        self._with_pool = pool
        self._workspace = Workspace(chosen.data_dir, chosen.storage_dir)
        self._times: list[tuple[str, float]] = []
        self._logs = f"the server's log is {self._workspace.log_file}"
        self._new_token = ""
        self._started_server = False
        self._started_cluster = ""  # its id
        self._warmpool: WarmPool | None = None  # while it is running
        self._installing: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Runs all phases. Raises CliError, WorkspaceError."""
        with self._phase("server") as say:
            self._begin_installing()
            self._have_server(say)
            from brickyard.cli import mainjob  # noqa: PLC0415 - takes seconds the first time, so only once there is output

            w = client(self._workspace)
        with self._phase("cluster") as say:
            runtime = self._runtime or _default_runtime()
            cluster = mainjob.have_cluster(
                w, runtime=runtime, any_runtime=not self._runtime, say=say, started=self._note_started_cluster
            )
            cluster_id = str(cluster.cluster_id)
        with self._phase("data") as say:
            data = flights.fetch(self._settings.cache_dir, say)
            mainjob.have_data(w, data, say)
        with self._phase("query") as say:
            answer = mainjob.ask(w, cluster_id, say)
        with self._phase("check"):
            mainjob.check(answer, flights.expected(data), rows=flights.ROWS)
        _show(answer)
        if self._with_pool:
            starts = self._pool(w, runtime=str(cluster.spark_version), node_type=str(cluster.node_type_id))
            if starts is not None:
                _show_starts(starts)
        self._show_times()
        self._how_to_go_on(cluster_id)

    def _pool(self, w: WorkspaceClient, *, runtime: str, node_type: str) -> Starts | None:
        """A cold and a warm start on an instance pool; None if the machine has no room for it."""
        from brickyard.cli import warmpool  # noqa: PLC0415 - slow to import

        with self._phase("pool") as say:
            self._warmpool = warmpool.WarmPool(w, runtime=runtime, node_type=node_type, say=say)
            try:
                starts = self._warmpool.show()
            except warmpool.NotShown as reason:
                self._warmpool.take_back()
                say(f"  a warm start cannot be shown here: {reason}")
                starts = None
        self._warmpool = None
        return starts

    def _begin_installing(self) -> None:
        """Begins to install the runtime, unless it is there or a server is, which may have another cache. The cluster's nodes
        wait for it, show how far it is, and say what is wrong if it fails."""
        if self._workspace.running() or self._settings.providers[0] != "local":
            return
        from brickyard.runtime import catalogue  # noqa: PLC0415 - reads a file
        from brickyard.runtime.installed import installed  # noqa: PLC0415 - only here

        runtime = catalogue.find(self._runtime) if self._runtime else catalogue.default()
        if runtime is None or installed(runtime.environment, self._settings.cache_dir) is not None:
            return
        command = [sys.executable, "-P", "-m", "brickyard.runtime", "install", runtime.key]
        command += ["--cache-dir", str(self._settings.cache_dir.absolute())]
        with contextlib.suppress(OSError):  # then the nodes install it
            self._installing = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def end_installing(self) -> None:
        """Ends the installation that this run has begun, unless it is over. What is not complete does not count."""
        if self._installing is not None:
            self._installing.terminate()
            self._installing.wait()

    def take_back(self) -> str:
        """Stops only what this run started, so that nothing half done remains. Returns a message about what it did."""
        if self._started_server and (running := self._workspace.running()):
            stop_server(self._workspace, running, keep_nodes=False)
            return "The server that quickstart had started is stopped, and its nodes with it. Run it again whenever you like."
        if self._warmpool is not None:
            self._warmpool.take_back()
        if self._started_cluster:
            client(self._workspace).clusters.delete(self._started_cluster)
            return f"Cluster {self._started_cluster}, which quickstart had started, is terminated; the server keeps running."
        return "Nothing that it started is left; what ran before keeps running."

    def what_stays(self) -> str:
        """What a run that has failed leaves behind, for its last line: nobody must find out by chance that a server runs."""
        if not self._started_server or not (running := self._workspace.running()):
            return ""
        return (
            f"The server that it started keeps running at {running.url}: run quickstart again, or stop it with `brickyard down`."
        )

    def _note_started_cluster(self, cluster_id: str) -> None:
        self._started_cluster = cluster_id
        self._logs = f"logs are in {self._workspace.storage.logs.of(cluster_id)}, the server's in {self._workspace.log_file}"

    def _have_server(self, say: Say) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while (found := self._workspace.running()) and not found.url and time.monotonic() < deadline:
            time.sleep(0.1)  # another process has just started it
        if found:
            running = serving(self._workspace)
            say(f"  a server is already running at {running.url}")
            if listed(running.about.get("provider", ""))[:1] == ("simulated",):
                raise CliError(
                    f"the running server {_COMPUTES_NOTHING} Stop it with `brickyard down`, or choose another --data-dir."
                )
            return
        if self._settings.providers[0] == "simulated":
            raise CliError(f"the settings choose a server that {_COMPUTES_NOTHING} Choose --provider local.")
        self._started_server = True
        started = start_detached(self._with_free_port(say), self._workspace)
        self._new_token = started.new_token
        say(f"  serving at {started.url}, data in {self._settings.data_dir}")

    def _with_free_port(self, say: Say) -> Settings:
        """The settings, with a free port if the default port is taken and nobody chose it explicitly."""
        if self._any_port:
            try:
                listen(self._settings.host, self._settings.port).close()
            except ServerError:
                say(f"  port {self._settings.port} is in use: choosing a free one")
                return msgspec.structs.replace(self._settings, port=0)
        return self._settings

    def _how_to_go_on(self, cluster_id: str) -> None:
        running = serving(self._workspace)
        token_file = shlex.quote(str(self._workspace.storage.admin_token_file))
        if self._new_token:
            click.echo("\n" + token_line(self._workspace, self._new_token))
        name = called()
        click.echo(f"""
Next steps:
  {name + " ui":<24}  # the web page, logged in
  {name} cluster exec {cluster_id} 'spark.range(10).count()'
  {name + " configure":<24}  # a profile for the Databricks CLI, SDKs and Terraform; or:
  export DATABRICKS_HOST={running.client_url}
  export DATABRICKS_TOKEN=$(cat {token_file})

  from databricks.sdk import WorkspaceClient  # pip install databricks-sdk
  w = WorkspaceClient()
  print(w.clusters.get("{cluster_id}").state)

  {name + " status":<24}  # what runs
  {name + " down":<24}  # stop it all

{self._left(cluster_id)}""")

    def _left(self, cluster_id: str) -> str:
        """What memory the nodes that stay have, and for how long."""
        from brickyard.cli import mainjob, warmpool  # noqa: PLC0415 - they have been loaded by now, but not at the start

        w = client(self._workspace)
        gib = {str(each.node_type_id): each.memory_mb / 1024 for each in w.clusters.list_node_types().node_types or []}
        cluster = w.clusters.get(cluster_id)
        nodes = 1 + len(cluster.executors or ())
        memory = nodes * gib.get(str(cluster.node_type_id), 0)
        said = f"The cluster's {nodes} nodes have {memory:.1f} GiB and end after {mainjob.IDLE_MINUTES} idle minutes"
        pools = [each for each in w.instance_pools.list() if (each.instance_pool_name or "").startswith(warmpool.NAME)]
        counts = [(str(each.node_type_id), each.stats) for each in pools if each.stats]
        idle = {
            kind: (stats.idle_count or 0) + (stats.pending_idle_count or 0) + (stats.used_count or 0) for kind, stats in counts
        }
        if not any(idle.values()):
            return f"{said}."
        memory = sum(count * gib.get(node_type, 0) for node_type, count in idle.items())
        return f"{said}, the pool's {sum(idle.values())} with {memory:.1f} GiB after {warmpool.IDLE_MINUTES}."

    def _show_times(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where a table is drawn
        from rich.table import Table  # noqa: PLC0415 - likewise

        table = Table("Phase", title="Time")
        table.add_column("Seconds", justify="right")
        for name, seconds in self._times:
            table.add_row(name, f"{seconds:.1f}")
        table.add_section()
        table.add_row("all", f"{sum(seconds for _, seconds in self._times):.1f}")
        Console().print(table)

    @contextmanager
    def _phase(self, name: str) -> Iterator[Shown]:
        """Times the phase and turns any SDK error into one line that names the phase and the location of the logs."""
        started = time.monotonic()
        with working(name) as say:
            say(f"{name} ...")
            try:
                yield say
            except CliError as error:
                raise CliError(f"{error.message.rstrip('.')}. Quickstart ended in phase {name!r}; {self._logs}.") from error
            except (OSError, RuntimeError, TimeoutError) as error:  # what the SDK, requests and files raise
                raise CliError(f"{type(error).__name__}: {error}. Quickstart ended in phase {name!r}; {self._logs}.") from error
        self._times.append((name, time.monotonic() - started))


def _show_starts(starts: Starts) -> None:
    """Prints cold and warm start side by side."""
    from rich.console import Console  # noqa: PLC0415 - only where a table is drawn
    from rich.table import Table  # noqa: PLC0415 - likewise

    table = Table("A driver and a worker, from the request to RUNNING", title="Instance pool")
    table.add_column("Seconds", justify="right")
    if starts.cold_s is not None:
        table.add_row("cold: the pool was empty", f"{starts.cold_s:.1f}")
    table.add_row("warm: the same instances, prepared again", f"{starts.warm_s:.1f}")
    Console().print(table)
    click.echo(f"{starts.remark}.\n" if starts.remark else "")


def _default_runtime() -> str:
    from brickyard.runtime.catalogue import default  # noqa: PLC0415 - reads a file

    return default().key


def _show(answer: Answer) -> None:
    """Print the answer as a table."""
    from rich.console import Console  # noqa: PLC0415 - only where a table is drawn
    from rich.table import Table  # noqa: PLC0415 - likewise

    table = Table("Airline", title="Flights from New York City, 2013")
    table.add_column("Flights", justify="right")
    table.add_column("Mean arrival delay (min)", justify="right")
    for airline in answer.airlines:
        table.add_row(airline.name, f"{airline.flights:,}", f"{airline.mean_delay:.1f}")
    Console().print(table)
    click.echo(
        f"Spark {answer.spark_version} gave the same answer as a plain Python program over the same {answer.rows:,} rows.\n"
    )
