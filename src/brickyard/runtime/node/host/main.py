"""The node host: parent of everything that runs on a node (docs/architecture.md, "Node host protocol")."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..contexts.process import Cells
from ..jvm import launch
from ..jvm.launch import JvmOptions, LaunchError
from ..jvm.process import Jvm, JvmError
from ..processes import Spawner, kill_descendants
from ..protocol import Channel, OpError, hosts
from ..spark import conf as sparkconf
from . import closing, failures, scripts
from .questions import Questions
from .report import Report

_AUTHENTICATION = ("spark.authenticate", "spark.connect.authenticate")

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    from .warming import Warming

    Message = Mapping[str, Any]
    Result = dict[str, Any]


class NodeHost:
    """One node, from `prepare` or `become` to `stop`. `handle` may be called on several threads."""

    def __init__(self, *, channel: Channel, spawner: Spawner, cells: Cells | None = None) -> None:
        self._channel = channel
        self._spawner = spawner
        self._cells = cells
        self._report = Report(channel)
        self._questions = Questions(channel)
        self._lock = threading.Lock()  # held by prepare, become or stop
        self._jvm: Jvm | None = None
        self._role: Any = None
        self._contexts: Any = None
        self._contexts_lock = threading.Lock()
        self._manifest: dict[str, Any] = {}
        self._node_dir = Path()
        self._cluster_dir = self._cluster_workspace = ""
        self._metastore = False  # whether the agent answers for the workspace's metastore
        self._user_env: dict[str, str] = {}
        self._warming: Warming | None = None  # what a warm node does meanwhile
        self._warm = False  # the JVM has already run Spark once, without a cluster
        self._scripted = False  # an init script has run, or does
        self._python_seen: dict[str, Any] | None = None  # what kernels that wait have seen, if scripts ran since
        self._ops: dict[str, Callable[[Message], Result]] = {
            "prepare": self._prepare, "become": self._become, "master": self._master, "retire": self._retire, "stop": self._stop,
            "fail_executors": self._fail_executors, "killed": self._killed,
            "context_create": self._context_create, "context_status": self._context_status,
            "context_destroy": self._context_destroy, "contexts_withdraw": self._contexts_withdraw,
            "command_execute": self._command_execute, "command_status": self._command_status,
            "command_cancel": self._command_cancel,
            "script_run": self._script_run, "program_run": self._program_run, "answer": self._answer, "jars": self._add_jars,
            "connect_open": self._connect_open, "ui_open": self._ui_open, "attached": self._attached, "pulse": self._pulse,
            "metastore": self._metastore_answer, "closing": lambda _: closing.closing(self._need_contexts(), self._role),
        }  # fmt: skip

    def handle(self, message: Message) -> None:
        """Does one operation and answers it."""
        number = message.get("id")
        try:
            op = self._ops.get(str(message.get("op")), self._unknown)
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

    def _unknown(self, message: Message) -> Result:
        raise OpError("INVALID", f"there is no operation {message.get('op')!r}")

    # ── the node ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self, message: Message) -> Result:
        with self._lock:
            self._take_settings(message["manifest"], Path(message["node_dir"]))
            warm = bool(message.get("warm"))
            options = launch.prepared_options(
                int(message["heap_mb"]),
                list(message.get("java_options") or ()),
                message.get("env") or {},
                str(message.get("role") or ""),
                frugal=warm,
            )
            if warm:
                self._channel.status(message="starting Java")  # not `_report`: the cluster that takes over needs a fresh one
            else:
                self._report.tell(phase="preparing", message="starting Java")
            self._start_jvm(options, host=hosts(message)[1])
            if warm:
                self._warm_up(message)
            return {"pid": self._jvm.pid if self._jvm else 0}

    def _warm_up(self, message: Message) -> None:
        """Does what can be done without a cluster, and goes on with it until one comes."""
        from .warming import Warming

        jvm = self._jvm
        assert jvm is not None  # noqa: S101 - `_prepare` has started it
        self._warming = Warming(message, jvm, self._make_contexts(), spawner=self._spawner, channel=self._channel)
        jvm.on_end(lambda code: self._report.fail(failures.jvm_death(code, "", role="driver", ready=True)))
        self._warm = True
        self._warming.go_on()

    def _script_run(self, message: Message) -> Result:
        """Runs an init script, maybe while a JVM starts. `become` gives up the JVM and waiting kernels if scripts have changed
        what these have read."""
        self._scripted = True
        if self._contexts is not None and self._python_seen is None:
            self._python_seen = self._python_files(Path(message["node_dir"]))
        return self._program_run(message)

    def _python_files(self, node_dir: Path) -> dict[str, Any]:
        return scripts.python_files(node_dir, node_dir / launch.ENVIRONMENT)

    def _program_run(self, message: Message) -> Result:
        """Runs a program to its end, beside whatever else the node does."""
        own, venv = launch.user_env(message["env"]), Path(message["node_dir"]) / launch.ENVIRONMENT
        env = scripts.environment(os.environ, own, message["manifest"], venv=venv)
        return scripts.run_script(message, popen=self._spawner.popen, environ=env)

    def _become(self, message: Message) -> Result:
        assignment = message["assignment"]
        assignment = {**assignment, "role": message.get("role") or assignment["role"]}
        with self._lock:
            if self._role is not None:
                raise OpError("INVALID", "this node already has a role; another role needs a new node host")
            if "manifest" in message:
                self._take_settings(message["manifest"], Path(message["node_dir"]))
            self._cluster_dir = str(message.get("cluster_dir") or "")
            self._cluster_workspace = str(message.get("cluster_workspace") or "")
            self._metastore = bool(message.get("metastore"))
            if self._python_seen is not None and self._python_files(self._node_dir) != self._python_seen:
                self._drop_contexts()
            place = self._place(message)
            if self._warming is not None:
                self._warming.cut(assignment)
            self._fit_jvm(assignment, place)
            self._user_env = dict(launch.user_env(assignment.get("spark_env_vars") or {}))
            if assignment.get("user_isolation"):
                self._wall_python()
            self._role = self._make_role(assignment, place, list(message.get("jars") or ()))
            self._role.start()
        return {}

    def _wall_python(self) -> None:
        """Lets Spark's Python workers have cells. Without cells, where the agent lets no such cluster start, they get none."""
        from ..pythonworkers.door import Door

        if self._cells is not None:
            python = launch.python(self._manifest, self._node_dir)
            Door(self._cells, python=python, node_dir=self._node_dir, log=self._channel.log).open()

    def _take_settings(self, manifest: Message, node_dir: Path) -> None:
        absent = dict.fromkeys(
            ("node_archive", "worker_archive", "executor_archive", "rewritten", "connect_missing", "classes"), ""
        )
        self._manifest = {**absent, "has_connect": False, "java_version": "17", **manifest}
        self._node_dir = node_dir

    def _fit_jvm(self, assignment: Message, place: sparkconf.Place) -> None:
        """Keeps the prepared JVM if the assignment can use it; otherwise starts the right one."""
        if not self._manifest:
            raise OpError("INVALID", "the node was not prepared: call `prepare` first, or pass manifest and node_dir to `become`")
        prepared = self._jvm
        try:
            wanted = launch.wanted_options(assignment, prepared.options if prepared else None)
            if prepared is not None:
                reason = "init scripts changed files that a running JVM has read" if self._scripted and prepared.outdated else ""
                if not reason and prepared.alive and prepared.options == wanted and prepared.host == place.ports_host:
                    self._take_over(prepared, assignment)
                    return
                wanted = self._reject(prepared, wanted, assignment, reason)
            submit_conf = self._submit_conf(assignment, place) if wanted.submit_conf else None
        except LaunchError as error:
            raise self._startup_failure(assignment, str(error)) from error
        self._start_jvm(wanted, host=place.ports_host, submit_conf=submit_conf, role=str(assignment["role"]))

    def _take_over(self, prepared: Jvm, assignment: Message) -> None:
        """Turns the warm node into this cluster's node."""
        if not self._warm:
            return
        worker = assignment["role"] == launch.WORKER
        if worker or assignment.get("user_isolation"):  # a waiting kernel would give its user access to the JVM
            self._drop_contexts()
        try:
            prepared.forget_log()
        except OSError as error:
            raise OpError("INTERNAL_ERROR", f"the log of the warm JVM cannot be emptied: {error}") from error

    def _reject(self, prepared: Jvm, wanted: JvmOptions, assignment: Message, reason: str) -> JvmOptions:
        """Ends an unsuitable JVM; returns the options for a suitable one. `reason`: why it is unsuitable whatever its options."""
        reason = reason or launch.difference(prepared.options, wanted) or "the JVM has ended"
        if self._warm:
            self._warm = False
            self._channel.status(cold_reason=reason, message="starting Java")
            self._drop_contexts()
        if self._warming is not None:
            self._warming.drop_executor()
        self._channel.log(f"the prepared JVM does not suit this cluster: {reason}; starting another")
        prepared.stop(0)
        if prepared.options.frugal and assignment["role"] == launch.WORKER:
            return launch.wanted_options(assignment, None)  # options made for any role are too large for a worker
        return wanted._replace(frugal=False)

    def _drop_contexts(self) -> None:
        """Ends kernels that wait for a driver."""
        contexts, self._contexts = self._contexts, None
        if contexts is not None:
            threading.Thread(target=contexts.close, name="drop-contexts", daemon=True).start()

    def _submit_conf(self, assignment: Message, place: sparkconf.Place) -> dict[str, str]:
        """Returns settings for SparkSubmit: the user's, from which it resolves jars. It does not need the cluster's location."""
        conf = sparkconf.driver_conf(assignment, self._manifest, place, master_url="local[1]", executor_archive="")
        return {key: value for key, value in conf.values.items() if not key.startswith(_AUTHENTICATION)}

    def _start_jvm(self, options: JvmOptions, *, host: str, submit_conf: Mapping[str, str] | None = None, role: str = "") -> None:
        self._jvm = jvm = Jvm(spawner=self._spawner, manifest=self._manifest, options=options, node_dir=self._node_dir, host=host)
        try:
            jvm.spawn(submit_conf=submit_conf)
            jvm.connect()
            if why := jvm.refused_archive:
                self._channel.log(f"Java does not use what was prepared for a fast start: {why}")
        except JvmError as error:
            log = failures.tail([jvm.stderr_file, jvm.stdout_file, jvm.log_file])
            jvm.stop(0)
            role = role or (launch.WORKER if options.worker else "driver")
            failure = failures.jvm_death(jvm.exit_code or 0, log, role=role, ready=False)
            if jvm.exit_code is None:
                failure["message"] = str(error)
            self._report.fail(failure)
            raise OpError(str(failure["code"]), str(failure["message"])) from error

    def _startup_failure(self, assignment: Message, text: str) -> OpError:
        code = "WORKER_SETUP_FAILURE" if assignment["role"] == launch.WORKER else "SPARK_STARTUP_FAILURE"
        self._report.fail(failures.failure(code, text))
        return OpError(code, text)

    def _place(self, message: Message) -> sparkconf.Place:
        host, private_host = hosts(message)
        return sparkconf.Place(
            host=host, private_host=private_host, node_dir=str(self._node_dir), ui_key="", cluster_dir=self._cluster_dir,
            cluster_workspace=self._cluster_workspace, metastore=self._metastore, **sparkconf.tree_dirs(os.environ),
        )  # fmt: skip

    def _make_role(self, assignment: Message, place: sparkconf.Place, jars: list[str]) -> Any:
        common: dict[str, Any] = {"jvm": self._jvm, "assignment": assignment, "place": place, "report": self._report}
        if assignment["role"] == launch.WORKER:
            from .worker import WorkerRole

            return WorkerRole(**common)
        from .driver import DriverRole

        return DriverRole(on_ready=self._warm_contexts, commands=self._command_activity, jars=jars, **common)

    def _master(self, message: Message) -> Result:
        self._needs_worker("master").join(str(message["master_url"]))
        return {}

    def _retire(self, _: Message) -> Result:
        self._needs_worker("retire").retire()
        return {}

    def _fail_executors(self, message: Message) -> Result:
        self._needs_worker("fail_executors").fail_executors(str(message["why"]))
        return {}

    def _killed(self, message: Message) -> Result:
        if self._role is not None:
            self._role.note_killed(str(message["why"]))
        return {}

    def _why_killed(self, began_s: float) -> str:
        return str(self._role.killed.since(began_s)) if self._role is not None else ""

    def _needs_worker(self, op: str) -> Any:
        if self._role is None or not hasattr(self._role, "retire"):
            raise OpError("INVALID", f"{op} is only available on workers")
        return self._role

    def _stop(self, message: Message) -> Result:
        grace_s = float(message.get("grace_s", 5.0))
        if self._contexts is not None:
            threading.Thread(target=self._contexts.close, daemon=True).start()
        if self._role is not None:
            self._role.stop(grace_s)
        elif self._jvm is not None:
            self._jvm.stop(grace_s)
        return {}

    def _connect_open(self, _: Message) -> Result:
        return {"port": self._needs_driver("Spark Connect").open_connect()}

    def _ui_open(self, _: Message) -> Result:
        return dict(self._needs_driver("the web UI").open_web_ui())

    def _answer(self, message: Message) -> Result:
        self._questions.answered(dict(message))
        return {}

    def _metastore_answer(self, message: Message) -> Result:
        self._needs_driver("the metastore").metastore_answer(int(message["ask"]), message["answer"])
        return {}

    def _attached(self, _: Message) -> Result:
        contexts = self._contexts.overview() if self._contexts is not None else []
        return {"contexts": contexts, "connect_sessions": self._needs_driver("who is attached").connect_sessions()}

    def _add_jars(self, message: Message) -> Result:
        self._needs_driver("a jar").add_jars([str(path) for path in message["paths"]])
        return {}

    def _pulse(self, _: Message) -> Result:
        """Never blocks."""
        role = self._role
        return {"silent_s": role.silent_s, "numbers": dict(role.numbers)} if role is not None else {"silent_s": 0.0}

    def _needs_driver(self, what: str) -> Any:
        if self._role is None or not hasattr(self._role, "open_connect"):
            raise OpError("INVALID", f"{what} is only available on the driver")
        return self._role

    # ── contexts and commands ───────────────────────────────────────────────────────────────────────────────────────────────

    def _make_contexts(self) -> Any:
        """Returns this driver's execution contexts, made when it is ready or when the first one is requested."""
        from ..contexts.contexts import Contexts

        with self._contexts_lock:
            jvm = self._jvm
            if self._contexts is None and jvm is not None:
                env = launch.environment(self._manifest, jvm.options, os.environ, host=jvm.host, node_dir=self._node_dir)
                python = launch.python(self._manifest, self._node_dir)
                self._contexts = Contexts(
                    python=python, node_dir=str(self._node_dir), access=self._access(jvm), env=env,
                    cancel_group=self._cancel_group, spark_open=self._spark_open, starter=self._starter(),
                    ask=self._questions.ask, why_killed=self._why_killed, log=self._channel.log,
                )  # fmt: skip
            return self._contexts

    def _starter(self) -> Any:
        from ..contexts.process import Beside

        apart = self._role is not None and self._role.isolates_users
        return self._cells if apart and self._cells is not None else Beside(self._cells)

    def _access(self, jvm: Jvm) -> Any:
        if self._role is not None and self._role.isolates_users:
            from ..contexts.sessions import Sessions

            return Sessions(self._role)
        from ..contexts.gateways import Gateways

        return Gateways(port=jvm.port, secret=jvm.secret)

    def _cancel_group(self, group: str) -> None:
        self._role.cancel_group(group)

    def _spark_open(self, patience_s: float) -> bool:
        return bool(self._role.open_within(patience_s))

    def _warm_contexts(self) -> None:
        self._make_contexts().warm()

    def _need_contexts(self) -> Any:
        if self._role is None or not hasattr(self._role, "cancel_group"):
            raise OpError("INVALID", "commands are only available on the driver")
        return self._contexts or self._make_contexts()

    def _command_activity(self) -> tuple[bool, int]:
        contexts = self._contexts
        return (contexts.busy(), contexts.last_activity_ms()) if contexts is not None else (False, 0)

    def _context_create(self, message: Message) -> Result:
        given = (message["context_id"], message["language"], str(message.get("user") or ""))
        bounds = {name: int(message.get(name) or 0) for name in ("share", "reserve")}
        return self._need_contexts().create(*given, **bounds) or {}

    def _context_status(self, message: Message) -> Result:
        return self._need_contexts().status(message["context_id"]) or {}

    def _context_destroy(self, message: Message) -> Result:
        return self._need_contexts().destroy(message["context_id"]) or {}

    def _contexts_withdraw(self, message: Message) -> Result:
        contexts = self._contexts
        ended = contexts.withdraw(str(message["user"]), str(message["reason"])) if contexts is not None else []
        if message["sessions"]:
            self._needs_driver("Spark Connect").end_sessions(message["sessions"])
        return {"context_ids": ended}

    def _command_execute(self, message: Message) -> Result:
        given = (message["context_id"], message["command_id"], message["language"], message["command"])
        return self._need_contexts().execute(*given) or {}

    def _command_status(self, message: Message) -> Result:
        return self._need_contexts().command_status(message["context_id"], message["command_id"]) or {}

    def _command_cancel(self, message: Message) -> Result:
        return self._need_contexts().cancel(message["context_id"], message["command_id"]) or {}
