"""A workspace as users have it: a server process with real nodes, the official SDK; and the means to kill any part of it."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service._internal import Wait
from databricks.sdk.service.compute import (
    ClusterDetails,
    CommandStatus,
    CommandStatusResponse,
    ContextStatus,
    Language,
    ResultType,
    State,
)

from brickyard.cli.up import start_detached
from brickyard.config.settings import Settings
from brickyard.server.datadir import Workspace
from tests.support.databases import empty_sqlite
from tests.support.depth import ALL
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import cache_dir

NODE = "brickyard.small"
ENDED = (CommandStatus.FINISHED, CommandStatus.ERROR, CommandStatus.CANCELLED)
# The second compiler pays after more calls than most tests make, and takes a third of the processor time of their clusters. Those
# that are made otherwise have it, and with --all these, too.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
QUICK_CONF = {} if ALL else dict.fromkeys(("spark.driver.defaultJavaOptions", "spark.executor.extraJavaOptions"), FIRST_COMPILER)
LOOK_S = 0.1  # between two calls that ask for a state that lasts: each costs client and server some milliseconds
JVM, EXECUTOR, KERNEL = "PythonGatewayServer", "CoarseGrainedExecutorBackend", "start.py kernel"


def _id(wait: Wait[Any]) -> str:
    """Of what a call has begun, without waiting for it as the SDK does, which is patient."""
    response: Any = wait.response
    return str(response.id)


class User:
    """A workspace through the official SDK."""

    patience_s = PATIENCE_S

    def __init__(self, w: WorkspaceClient) -> None:
        self.w = w
        self._kept: dict[str, str] = {}  # contexts, by their clusters

    def create(self, name: str, runtime: str, *, node_type: str = NODE, quick: bool = True, **fields: Any) -> str:
        """A cluster of the smallest nodes, which may still be starting. `quick`: with the first compiler alone. Only without such
        settings, Java starts beside the init scripts."""
        if quick:
            fields["spark_conf"] = QUICK_CONF | fields.get("spark_conf", {})
        made = self.w.clusters.create(cluster_name=name, spark_version=runtime, node_type_id=node_type, **fields)
        return str(made.cluster_id)

    def get(self, cluster_id: str) -> ClusterDetails:
        return self.w.clusters.get(cluster_id)

    def wait(self, cluster_id: str, *states: State, workers: int | None = None) -> ClusterDetails:
        """Until it is in one of these states, with so many workers."""

        def there() -> ClusterDetails | None:
            now = self.get(cluster_id)
            reached = now.state in states and (workers is None or len(now.executors or []) == workers)
            assert reached or State.RUNNING not in states or now.state is not State.TERMINATED, now.state_message
            return now if reached else None

        return until(there, lambda: f"never {states}: {self.get(cluster_id)}", patience_s=self.patience_s, pause_s=LOOK_S)

    def ended(self, cluster_id: str) -> tuple[str, dict[str, str], str]:
        """Wait until it has ended; the reason's code and parameters, and the message."""
        cluster = self.wait(cluster_id, State.TERMINATED)
        reason = cluster.termination_reason
        assert reason is not None and reason.code is not None
        return reason.code.value, reason.parameters or {}, str(cluster.state_message)

    def touch(self, path: str) -> None:
        """Make an empty file in the workspace: /dbfs on its clusters."""
        self.w.dbfs.upload(path, io.BytesIO(b""))

    def events(self, cluster_id: str) -> list[str]:
        """Types of its events, oldest first."""
        found = [event.type.value for event in self.w.clusters.events(cluster_id) if event.type]
        return found[::-1]

    def spark_ui(self, cluster_id: str, page: str) -> str:
        """A page of the cluster's Spark UI, as a browser gets it."""
        link = self.w.api_client.do("GET", "/api/2.1/clusters/spark-ui-link", query={"cluster_id": cluster_id})
        assert isinstance(link, dict)
        answer = requests.get(str(link["url"]).rstrip("/") + f"/{page}", timeout=PATIENCE_S)
        assert answer.ok, answer.text
        return answer.text

    def context(self, cluster_id: str) -> str:
        made = self.w.command_execution.create(cluster_id=cluster_id, language=Language.PYTHON)
        return _id(made)

    def begin(self, cluster_id: str, context_id: str, code: str) -> str:
        made = self.w.command_execution.execute(
            cluster_id=cluster_id, context_id=context_id, language=Language.PYTHON, command=code
        )
        return _id(made)

    def finish(self, cluster_id: str, context_id: str, command_id: str) -> CommandStatusResponse:
        def over() -> CommandStatusResponse | None:
            now = self.w.command_execution.command_status(cluster_id, context_id, command_id)
            return now if now.status in ENDED else None

        return until(over, "the command does not end", pause_s=LOOK_S)

    def run(self, cluster_id: str, code: str) -> str:
        """The text that code answers with, in a context of its own."""
        context_id = self.context(cluster_id)
        answer = self.finish(cluster_id, context_id, self.begin(cluster_id, context_id, code))
        assert answer.results is not None and answer.results.result_type is ResultType.TEXT, answer
        self.w.command_execution.destroy(cluster_id, context_id)
        return str(answer.results.data)

    def run_kept(self, cluster_id: str, code: str) -> str:
        """As `run`, in a context that all calls share: a Python and a session less. What code leaves there, the next one sees."""
        if (context_id := self._kept.get(cluster_id, "")) and not self._lives(cluster_id, context_id):
            context_id = ""
        context_id = self._kept[cluster_id] = context_id or self.context(cluster_id)
        answer = self.finish(cluster_id, context_id, self.begin(cluster_id, context_id, code))
        assert answer.results is not None and answer.results.result_type is ResultType.TEXT, answer
        return str(answer.results.data)

    def _lives(self, cluster_id: str, context_id: str) -> bool:
        with contextlib.suppress(DatabricksError):  # of an earlier start of the cluster
            return self.w.command_execution.context_status(cluster_id, context_id).status is ContextStatus.RUNNING
        return False


class Live(User):
    """One workspace. `start` and `kill` as often as you like; `close` in the end."""

    def __init__(
        self, data: Path, *, patience_s: float = PATIENCE_S
    ) -> None:  # `start` makes the client: its URL is another each time
        self.patience_s = patience_s
        self._kept = {}
        self.data = data
        # Training would count among the workspace's processes whenever a runtime lacks its archives.
        self.settings = Settings(data_dir=data, cache_dir=cache_dir(), port=0, background_training=False)
        self.workspace = Workspace(data)

    def start(self) -> None:
        """Start the server; returns when it serves."""
        if not (file := self.data / "brickyard.db").exists():
            self.workspace.prepare()
            empty_sqlite(file)  # the migrations would take longer than the rest of a start
        started = start_detached(self.settings, self.workspace)
        self.w = WorkspaceClient(host=started.url, token=self.workspace.stored_token())

    def server(self) -> psutil.Process:
        running = self.workspace.running()
        assert running is not None
        return psutil.Process(running.pid)

    def kill(self, *processes: psutil.Process) -> None:
        """SIGKILL them all at once, and wait until they are dead."""
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):  # one dies with another
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=PATIENCE_S)

    def close(self) -> None:
        """`brickyard down`, and nothing may be left."""
        command = [sys.executable, "-c", "from brickyard.cli import main; main()", "down", "--data-dir", str(self.data)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        until(lambda: not self.processes(), lambda: f"processes are left: {self.processes()}")

    def driver_agent(self, cluster_id: str) -> psutil.Process:
        driver = self.get(cluster_id).driver
        assert driver is not None
        return self._agent(str(driver.instance_id))

    def worker_agents(self, cluster_id: str) -> list[psutil.Process]:
        return [self._agent(str(each.instance_id)) for each in self.get(cluster_id).executors or []]

    def below(self, agent: psutil.Process, what: str) -> psutil.Process:
        """A process of the node, by a word of its command line."""
        found = self.all_below(agent, what)
        assert found, f"no {what} among {agent.children(recursive=True)}"
        return found[0]

    def all_below(self, agent: psutil.Process, what: str) -> list[psutil.Process]:
        return [process for process in agent.children(recursive=True) if what in command_line(process)]

    def processes(self) -> list[psutil.Process]:
        """Every living process of this workspace: its directory is in their environment or on their command line."""
        needle = str(self.data).encode()
        return [each for each in psutil.process_iter() if needle in _given(each.pid, "cmdline") + _given(each.pid, "environ")]

    def nodes(self) -> list[psutil.Process]:
        """All of them but the server."""
        running = self.workspace.running()
        return [process for process in self.processes() if running is None or process.pid != running.pid]

    def _agent(self, instance_id: str) -> psutil.Process:
        return psutil.Process(json.loads((self.data / "instances" / instance_id / "agent.pid").read_bytes())["pid"])


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; one that its parent has yet to wait for has."""
    return [process for process in processes if process.is_running() and _given(process.pid, "cmdline")]


def command_line(process: psutil.Process) -> str:
    """Empty for one that has ended."""
    return _given(process.pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def _given(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()  # nothing in it for a zombie
    except OSError:
        return b""
