"""The node host: parent of everything that runs on a node (docs/dev/node.md, "Node host protocol")."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..contexts.process import Cells
from ..jvm import launch, layers
from ..processes import Spawner, kill_descendants
from ..protocol import Channel, OpError, hosts
from ..spark.place import Place, tree_dirs
from . import advice, failures, scripts
from .contexts import NodeContexts
from .nodejvm import NodeJvm
from .report import Report

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    from ..documents import AssignmentDocument, Become, Prepare, ProgramRun
    from ..jvm.process import Jvm
    from .driver import DriverRole
    from .worker import WorkerRole

    Result = dict[str, Any]


class NodeHost:
    """One node, from `prepare` or `become` to `stop`. `handle` may be called on several threads."""

    def __init__(self, *, channel: Channel, spawner: Spawner, cells: Cells | None = None) -> None:
        self._channel = channel
        self._spawner = spawner
        self._cells = cells
        self._report = Report(channel)
        self._lock = threading.Lock()  # held by prepare, become or stop
        self._contexts = NodeContexts(channel, cells)
        self._jvm = NodeJvm(channel=channel, spawner=spawner, report=self._report, contexts=self._contexts)
        self._driver: DriverRole | None = None
        self._worker: WorkerRole | None = None
        self._scripted = False  # an init script has run, or does
        self._python_seen: dict[str, tuple[int, int, int]] | None = None  # what waiting kernels have seen, if scripts ran since
        # What each message has is declared in `documents.py`, for both sides.
        self._ops: dict[str, Callable[[Any], Result]] = {
            "prepare": self._prepare, "become": self._become, "master": self._master, "retire": self._retire, "stop": self._stop,
            "fail_executors": self._fail_executors, "killed": self._killed, "script_run": self._script_run,
            "program_run": self._program_run, "jars": self._add_jars, "connect_open": self._connect_open,
            "session_own": self._session_own, "ui_open": self._ui_open, "attached": self._attached, "pulse": self._pulse,
            "metastore": self._metastore_answer,
            **self._contexts.ops,
        }  # fmt: skip

    def handle(self, message: Mapping[str, Any]) -> None:
        """Does one operation and answers it."""
        number = message.get("id")
        try:
            op: Callable[[Any], Result] = self._ops.get(str(message.get("op")), self._unknown)
            answer: dict[str, Any] = {"result": op(message)}
        except KeyError as error:
            answer = {"error": {"code": "INVALID", "message": f"{message.get('op')} needs the field {error}"}}
        except Exception as error:
            code = getattr(error, "code", None)
            text = str(error) if isinstance(code, str) else f"{type(error).__name__}: {error}"
            answer = {"error": {"code": code if isinstance(code, str) else "INTERNAL", "message": text}}
        self._channel.send({"id": number, **answer})
        if message.get("op") == "stop":
            self.end(0)

    def end(self, code: int) -> NoReturn:
        """Ends everything that was started here, then this process."""
        with contextlib.suppress(Exception):
            kill_descendants(os.getpid())
        os._exit(code)

    def _unknown(self, message: Mapping[str, Any]) -> Result:
        raise OpError("INVALID", f"there is no operation {message.get('op')!r}")

    # --- the node ---

    def _prepare(self, message: Prepare) -> Result:
        with self._lock:
            self._jvm.take_settings(message["manifest"], message["node_dir"])
            warm = bool(message.get("warm"))
            options = launch.prepared_options(
                message["heap_mb"],
                list(message.get("java_options") or ()),
                message.get("env") or {},
                message.get("role") or "",
                frugal=warm,
                layers=layers.jars(message["manifest"], {}),
            )
            if warm:
                self._channel.status(message="starting Java")  # not `_report`: the cluster that takes over needs a fresh one
            else:
                self._report.tell(phase="preparing", message="starting Java")
            jvm = self._jvm.start(options, host=hosts(message)[1])
            if warm:
                self._warm_up(message, jvm)
            return {"pid": jvm.pid}

    def _warm_up(self, message: Prepare, jvm: Jvm) -> None:
        """Does what can be done without a cluster, and goes on with it until one comes."""
        from .warming import Warming

        warming = Warming(message, jvm, self._contexts.make(jvm), spawner=self._spawner, channel=self._channel)
        jvm.on_end(lambda code: self._report.fail(failures.jvm_death(code, "", role="driver", ready=True)))
        self._jvm.warmed(warming)
        warming.go_on()

    def _script_run(self, message: ProgramRun) -> Result:
        """Runs an init script, maybe while a JVM starts. `become` gives up the JVM and waiting kernels if scripts have changed
        what these have read."""
        self._scripted = True
        if self._contexts.exist and self._python_seen is None:
            self._python_seen = _python_files(Path(message["node_dir"]))
        return advice.added(self._program_run(message))

    def _program_run(self, message: ProgramRun) -> Result:
        """Runs a program to its end, beside whatever else the node does."""
        own, venv = launch.user_env(message["env"]), Path(message["node_dir"]) / launch.ENVIRONMENT
        env = scripts.environment(os.environ, own, message["manifest"], venv=venv)
        return scripts.run_script(message, popen=self._spawner.popen, environ=env)

    def _become(self, message: Become) -> Result:
        assignment = message["assignment"]
        assignment = {**assignment, "role": message.get("role") or assignment["role"]}
        with self._lock:
            if self._role is not None:
                raise OpError("INVALID", "this node already has a role; another role needs a new node host")
            if "manifest" in message:
                self._jvm.take_settings(message["manifest"], message["node_dir"])
            if self._python_seen is not None and _python_files(self._jvm.node_dir) != self._python_seen:
                self._contexts.drop()
            if self._scripted and assignment["role"] != launch.WORKER:
                assignment = self._jvm.with_script_conf(assignment)
            place = self._place(message)
            jvm = self._jvm.fit(assignment, place, scripted=self._scripted)
            if assignment.get("user_isolation"):
                self._wall_python(jvm)
            if assignment["role"] == launch.WORKER:
                from .worker import WorkerRole

                self._worker = WorkerRole(jvm=jvm, assignment=assignment, place=place, report=self._report)
                self._worker.start()
            else:
                self._driver = driver = self._make_driver(jvm, assignment, place, list(message.get("jars") or ()))
                self._contexts.lead(driver, jvm)
                driver.start()
        return {}

    def _make_driver(self, jvm: Jvm, assignment: AssignmentDocument, place: Place, jars: list[str]) -> DriverRole:
        from .driver import DriverRole

        return DriverRole(jvm=jvm, assignment=assignment, place=place, report=self._report, commands=self._contexts, jars=jars)

    def _wall_python(self, jvm: Jvm) -> None:
        """Lets Spark's Python workers have cells. Without cells, where the agent lets no such cluster start, they get none."""
        from ..pythonworkers.door import Door

        if self._cells is not None:
            Door(self._cells, python=launch.python(jvm.manifest, jvm.node_dir), node_dir=jvm.node_dir, log=self._channel).open()

    def _place(self, message: Become) -> Place:
        host, private_host = hosts(message)
        return Place(
            host=host, private_host=private_host, node_dir=str(self._jvm.node_dir), ui_key="",
            cluster_dir=message.get("cluster_dir") or "", cluster_workspace=message.get("cluster_workspace") or "",
            metastore=bool(message.get("metastore")), node_variables=tuple(message.get("node_variables") or ()),
            **tree_dirs(os.environ),
        )  # fmt: skip

    def _stop(self, message: Mapping[str, Any]) -> Result:
        grace_s = float(message.get("grace_s", 5.0))
        self._contexts.close()
        if self._role is not None:
            self._role.stop(grace_s)
        elif self._jvm.running is not None:
            self._jvm.running.stop(grace_s)
        return {}

    # --- its role ---

    @property
    def _role(self) -> DriverRole | WorkerRole | None:
        return self._driver or self._worker

    def _needs_worker(self, op: str) -> WorkerRole:
        if self._worker is None:
            raise OpError("INVALID", f"{op} is only available on workers")
        return self._worker

    def _needs_driver(self, what: str) -> DriverRole:
        if self._driver is None:
            raise OpError("INVALID", f"{what} is only available on the driver")
        return self._driver

    def _master(self, message: Mapping[str, Any]) -> Result:
        self._needs_worker("master").join(str(message["master_url"]))
        return {}

    def _retire(self, _: object) -> Result:
        self._needs_worker("retire").retire()
        return {}

    def _fail_executors(self, message: Mapping[str, Any]) -> Result:
        self._needs_worker("fail_executors").fail_executors(str(message["why"]))
        return {}

    def _killed(self, message: Mapping[str, Any]) -> Result:
        if self._role is not None:
            self._role.note_killed(str(message["why"]))
        return {}

    def _connect_open(self, _: object) -> Result:
        return {"port": self._needs_driver("Spark Connect").access.open_connect()}

    def _session_own(self, message: Mapping[str, Any]) -> Result:
        access = self._needs_driver("Spark Connect").access
        access.own_clients_session(str(message["session_user"]), str(message["session_id"]), str(message["owner"]))
        return {}

    def _ui_open(self, _: object) -> Result:
        return self._needs_driver("the web UI").access.open_web_ui()

    def _metastore_answer(self, message: Mapping[str, Any]) -> Result:
        self._needs_driver("the metastore").metastore_answer(int(message["ask"]), message["answer"])
        return {}

    def _attached(self, _: object) -> Result:
        sessions = self._needs_driver("who is attached").access.connect_sessions()
        return {"contexts": self._contexts.overview(), "connect_sessions": sessions}

    def _add_jars(self, message: Mapping[str, Any]) -> Result:
        self._needs_driver("a jar").add_jars([str(path) for path in message["paths"]])
        return {}

    def _pulse(self, _: object) -> Result:
        """Never blocks."""
        role = self._role
        return {"silent_s": role.silent_s, "numbers": dict(role.numbers)} if role is not None else {"silent_s": 0.0}


def _python_files(node_dir: Path) -> dict[str, tuple[int, int, int]]:
    return scripts.python_files(node_dir, node_dir / launch.ENVIRONMENT)
