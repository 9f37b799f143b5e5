"""A notebook's context on a cluster: created when the first cell runs, and again if it was lost."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import CommandStatus, Language, State

POLL_S = (0.02, 0.5)  # first and longest pause between two polls of a command
START_TIMEOUT_S = 1_800.0
ASK_TIMEOUT_S = 10.0  # a later completion is useless
_LANGUAGES = {"%sql": "sql", "%python": "python"}


class NotebookError(Exception):
    """The cell could not run; the message says why and what to do."""


class Notebook:
    """One notebook. Call `run`, `ask` and `close` from one thread at a time; `cancel` from any."""

    def __init__(self, *, client: WorkspaceClient, cluster_id: str, say: Callable[[str], None]) -> None:
        """`say` gets messages about what the user has to wait for."""
        self._client = client
        self._cluster_id = cluster_id
        self._say = say
        self._context = ""
        self._lock = threading.Lock()
        self._command = ""
        self._cancelled = False

    def run(self, cell: str) -> dict[str, Any]:
        """A cell's results in the command API's format. For a cancelled cell they are an error of that name, with its output so
        far. Raises NotebookError."""
        language, code = split(cell)
        self._cancelled = False
        try:
            self._attach()
            return self._execute(language, code)
        except (DatabricksError, TimeoutError) as error:
            self._context = ""
            raise NotebookError(
                f"{error} If the notebook's context has ended, its variables are lost; run the cell again for a new context."
            ) from error

    def ask(self, expression: str) -> Any:
        """The JSON value of a Python expression in the notebook's context. None if there is no context yet, no answer in time, or
        an error: an editor asks for this, not a user who runs a cell."""
        if not self._context:
            return None
        self._cancelled = False
        with contextlib.suppress(DatabricksError, TimeoutError, ValueError):
            results = self._execute("python", f"print(__import__('json').dumps({expression}))", limit_s=ASK_TIMEOUT_S)
            if results.get("resultType") == "text":
                return json.loads(str(results.get("data")))
        return None

    def cancel(self) -> None:
        """Stops the running cell and its Spark jobs. Does nothing if none runs."""
        with self._lock:
            self._cancelled = True
            command = self._command
        if command:
            with contextlib.suppress(DatabricksError):  # it has just ended, which is fine
                self._api("POST", "commands/cancel", body=self._ids(commandId=command))

    def close(self) -> None:
        """Ends the context; a restarted kernel gets a new one."""
        context, self._context = self._context, ""
        if context:
            with contextlib.suppress(DatabricksError, TimeoutError):
                self._api("POST", "contexts/destroy", body={"clusterId": self._cluster_id, "contextId": context})

    def _execute(self, language: str, code: str, *, limit_s: float = float("inf")) -> dict[str, Any]:
        """Runs code in the context and cancels it after `limit_s`. Raises DatabricksError."""
        deadline = time.monotonic() + limit_s
        command = str(self._api("POST", "commands/execute", body=self._ids(language=language, command=code))["id"])
        with self._lock:
            self._command = command
            cancelled = self._cancelled
        if cancelled:  # between the start of the cell and of its command
            self.cancel()
        try:
            return self._await(command, deadline)
        finally:
            with self._lock:
                self._command = ""

    def _await(self, command: str, deadline: float) -> dict[str, Any]:
        pause = POLL_S[0]
        while True:
            answer = self._api("GET", "commands/status", query=self._ids(commandId=command))
            status = CommandStatus(answer["status"])
            if status in (CommandStatus.FINISHED, CommandStatus.ERROR, CommandStatus.CANCELLED):
                found: dict[str, Any] = answer.get("results") or {}
                if status is CommandStatus.ERROR:
                    self.close()  # its process is gone
                return found
            if time.monotonic() > deadline:
                self.cancel()
            time.sleep(pause)
            pause = min(pause * 1.5, POLL_S[1])

    def _attach(self) -> None:
        """Ensures a live context on a running cluster."""
        if self._context:
            with contextlib.suppress(DatabricksError):
                query = {"clusterId": self._cluster_id, "contextId": self._context}
                if self._api("GET", "contexts/status", query=query)["status"] != "Error":
                    return
            self._say("The notebook's context has ended and its variables are lost; creating a new one ...\n")
            self._context = ""
        self._start()
        context = self._client.command_execution.create(cluster_id=self._cluster_id, language=Language.PYTHON).result()
        self._context = str(context.id)

    def _start(self) -> None:
        """Ensures that the cluster runs, starting it if it is terminated."""
        cluster = self._client.clusters.get(self._cluster_id)
        if cluster.state in (State.RUNNING, State.RESIZING):
            return
        self._say(
            f"Cluster {cluster.cluster_name or self._cluster_id} is {cluster.state and cluster.state.value}; waiting for it ...\n"
        )
        self._client.clusters.ensure_cluster_is_running(self._cluster_id)

    def _ids(self, **more: str) -> dict[str, str]:
        return {"clusterId": self._cluster_id, "contextId": self._context, **more}

    def _api(
        self, method: str, path: str, *, body: dict[str, str] | None = None, query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Calls the API directly: the SDK's own waiters poll too rarely for a cell."""
        answer = self._client.api_client.do(method, f"/api/1.2/{path}", body=body, query=query)
        return answer if isinstance(answer, dict) else {}


def split(cell: str) -> tuple[str, str]:
    """A cell's language and code: Python unless its first line is %sql or %python."""
    stripped = cell.lstrip()
    first, _, rest = stripped.partition("\n")
    word, _, same_line = first.partition(" ")
    if word in _LANGUAGES:
        return _LANGUAGES[word], "\n".join(part for part in (same_line, rest) if part)
    return "python", cell
