"""The execution contexts of this node: made for its JVM, and led by its driver."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..contexts.process import Beside, Cells
from ..jvm import launch
from ..protocol import Channel, OpError
from .questions import Questions

if TYPE_CHECKING:
    from ..contexts.contexts import Contexts
    from ..contexts.process import Starter
    from ..contexts.sparkaccess import SparkAccessProvider
    from ..documents import NewCommand, NewContext, OfCells, OfCommand, OfContext, WithdrawContexts
    from ..jvm.process import Jvm
    from .driver import DriverRole

    Result = dict[str, Any]


class NodeContexts:
    """The contexts' operations; the node for contexts (`drivernode.DriverNode`), and contexts for the driver's role
    (`driver.Commands`). Methods may be called from any thread."""

    def __init__(self, channel: Channel, cells: Cells | None) -> None:
        self._channel, self._cells = channel, cells
        self._questions = Questions(channel)
        self._lock = threading.Lock()
        self._made: Contexts | None = None
        self._driver: DriverRole | None = None
        self._jvm: Jvm | None = None
        self.ops: dict[str, Callable[[Any], Result]] = {
            "context_create": self._create, "context_status": self._status, "context_destroy": self._destroy,
            "contexts_withdraw": self._withdraw, "command_execute": self._execute, "command_status": self._command_status,
            "command_cells": self._command_cells, "command_trace": self._command_trace,
            "command_cancel": self._cancel, "answer": self._answer, "closing": self._closing,
        }  # fmt: skip

    # --- for the node ---

    def lead(self, driver: DriverRole, jvm: Jvm) -> None:
        """From now on there is a driver, and contexts work with its JVM."""
        self._driver, self._jvm = driver, jvm

    def make(self, jvm: Jvm) -> Contexts:
        """Returns the contexts, made when the driver is ready or when the first one is requested."""
        from ..contexts.contexts import Contexts

        with self._lock:
            if self._made is None:
                self._made = Contexts(
                    python=launch.python(jvm.manifest, jvm.node_dir), node_dir=str(jvm.node_dir), access=self._access(jvm),
                    env=launch.environment(jvm.manifest, jvm.options, os.environ, host=jvm.host, node_dir=jvm.node_dir),
                    starter=self._starter(), node=self,
                )  # fmt: skip
            return self._made

    @property
    def exist(self) -> bool:
        return self._made is not None

    def close(self) -> None:
        """Begins to end the contexts; there are no new ones."""
        if self._made is not None:
            threading.Thread(target=self._made.close, name="close-contexts", daemon=True).start()

    def drop(self) -> None:
        """Ends kernels that wait for a driver; the next context gets a new one."""
        self.close()
        self._made = None

    def overview(self) -> list[dict[str, Any]]:
        return self._made.overview() if self._made is not None else []

    @property
    def _isolates_users(self) -> bool:
        return self._driver is not None and self._driver.isolates_users

    def _starter(self) -> Starter:
        return self._cells if self._isolates_users and self._cells is not None else Beside(self._cells)

    def _access(self, jvm: Jvm) -> SparkAccessProvider:
        if self._driver is not None and self._isolates_users:
            from ..contexts.sessions import Sessions

            return Sessions(self._driver.access)
        from ..contexts.gateways import Gateways

        return Gateways(port=jvm.port, secret=jvm.secret)

    # --- for the driver's role ---

    def warm(self) -> None:
        self._needed().warm()

    def activity(self) -> tuple[bool, int]:
        contexts = self._made
        return (contexts.busy(), contexts.last_activity_ms()) if contexts is not None else (False, 0)

    # --- for contexts ---

    def cancel_group(self, group: str) -> None:
        self._leader().cancel_group(group)

    def jobs_of_group(self, group: str) -> list[dict[str, Any]]:
        from ..contexts.progress import jobs_of

        return jobs_of(self._leader().access.jobs(running=True), group)

    def stop_streams(self, pool: str) -> None:
        self._leader().access.stop_streams(pool)

    def spark_open(self, patience_s: float) -> bool:
        return self._leader().access.open_within(patience_s)

    def ask(self, context_id: str, *, scope: str = "", key: str = "", notebook: str = "") -> dict[str, Any]:
        if notebook:
            return self._questions.ask(context_id, notebook=notebook)
        return self._questions.ask(context_id, scope=scope, key=key)

    def why_killed(self, began_s: float) -> str:
        return self._driver.killed.since(began_s) if self._driver is not None else ""

    def log(self, line: str) -> None:
        self._channel.log(line)

    # --- operations ---

    def _leader(self) -> DriverRole:
        if self._driver is None:
            raise OpError("INVALID", "commands are only available on the driver")
        return self._driver

    def _needed(self) -> Contexts:
        self._leader()
        assert self._jvm is not None  # noqa: S101 - a driver has one
        return self._made or self.make(self._jvm)

    def _create(self, message: NewContext) -> Result:
        self._needed().create(
            message["context_id"], message["language"], message.get("user") or "",
            share=message.get("share") or 0, reserve=message.get("reserve") or 0,
        )  # fmt: skip
        return {}

    def _status(self, message: OfContext) -> Result:
        return self._needed().status(message["context_id"])

    def _destroy(self, message: OfContext) -> Result:
        self._needed().destroy(message["context_id"])
        return {}

    def _withdraw(self, message: WithdrawContexts) -> Result:
        ended = self._made.withdraw(message["user"], message["reason"]) if self._made is not None else []
        if message["sessions"]:
            self._leader().access.end_sessions(message["sessions"])
        return {"context_ids": ended}

    def _execute(self, message: NewCommand) -> Result:
        where, what = (message["context_id"], message["command_id"]), (message["language"], message["command"])
        self._needed().execute(*where, *what, message.get("widgets") or {})
        return {}

    def _command_status(self, message: OfCommand) -> Result:
        return self._needed().command_status(message["context_id"], message["command_id"])

    def _command_cells(self, message: OfCells) -> Result:
        return self._needed().command_cells(message["context_id"], message["command_id"], message["after"])

    def _command_trace(self, message: OfCommand) -> Result:
        from ..contexts.progress import ended_jobs

        began_ms, ended_ms = self._needed().command_times(message["context_id"], message["command_id"])
        jobs = ended_jobs(self._leader().access.jobs(running=False), message["command_id"])
        return {"began_ms": began_ms, "ended_ms": ended_ms, "jobs": jobs}

    def _cancel(self, message: OfCommand) -> Result:
        self._needed().cancel(message["context_id"], message["command_id"])
        return {}

    def _answer(self, message: dict[str, Any]) -> Result:
        self._questions.answered(message)
        return {}

    def _closing(self, _: object) -> Result:
        """The cluster is about to stop: nothing new begins. Returns whether commands run, wait for their turn or have results to
        be read, whether something runs in Spark, and how often Spark has been asked that. Returns at once, even if Spark
        hangs; may be repeated."""
        contexts = self._needed()
        contexts.take_no_more()
        looks, spark = self._leader().seen
        return {"commands": contexts.unfinished(), "spark": spark, "looks": looks}
