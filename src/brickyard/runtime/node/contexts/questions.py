"""The questions of one context's kernel, among them notebooks that it runs (`dbutils.notebook.run`).

Each of those runs in a context of its own, as its user's other contexts do: with a process, a session and variables of its own,
and counted as one of the user's. It asks the workspace in the name of the context that runs it, and ends with that context's
process.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
import secrets
import threading
from typing import TYPE_CHECKING, Any, Protocol

from ..clock import now_ms
from ..wire import NOTEBOOK_MAGIC
from .asking import Asking
from .contexterror import ContextError

if TYPE_CHECKING:
    from .drivernode import DriverNode

MAX_RUNS = 100  # of one context at once
_TAG = re.compile(r"<[^>]*>")


class Children(Protocol):
    """All contexts of the node, as far as one of them makes others."""

    node: DriverNode

    def create(
        self, context_id: str, language: str, user: str = "", *, share: int = 0, reserve: int = 0, asks_as: str = ""
    ) -> None: ...

    def execute(self, context_id: str, command_id: str, language: str, command: str) -> None: ...

    def command_status(self, context_id: str, command_id: str) -> dict[str, Any]: ...

    def exit_value(self, context_id: str, command_id: str) -> str | None: ...

    def destroy(self, context_id: str) -> None: ...


class Questions:
    """Implements `asking.Answerer`, for one process of a context."""

    def __init__(self, context: Asking, contexts: Children) -> None:
        self._context = context
        self._contexts = contexts
        self._lock = threading.Lock()
        self._runs: dict[str, str] = {}  # the kernel's name for it -> its context
        self._closed = False

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(question)
        except ContextError as error:
            return {"error_code": error.code, "message": error.message}

    def close(self) -> None:
        with self._lock:
            self._closed = True
            runs, self._runs = self._runs, {}
        for run in runs.values():
            self._destroy(run)

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if "about" in question:
            return {"user": self._context.user}
        if "run" in question:
            wanted = question["run"]
            self._begin(str(wanted["name"]), str(wanted["path"]), dict(wanted["arguments"]))
            return {}
        if "look" in question:
            return self._look(str(question["look"]))
        if "end" in question:
            self._end(str(question["end"]))
            return {}
        node, name = self._contexts.node, self._context.asks_as
        if "notebook" in question:
            return node.ask(name, notebook=str(question["notebook"]))
        return node.ask(name, scope=str(question["scope"]), key=str(question["key"]))

    def _begin(self, name: str, path: str, arguments: dict[str, Any]) -> None:
        run = f"{now_ms():012x}{secrets.token_hex(10)}"
        with self._lock:
            if self._closed or len(self._runs) >= MAX_RUNS:
                raise ContextError("LIMIT", f"{MAX_RUNS} notebooks that this one runs have not ended yet.")
            self._runs[name] = run
        share, reserve = self._context.bounds
        try:
            self._contexts.create(run, "python", self._context.user, share=share, reserve=reserve, asks_as=self._context.asks_as)
            code = f"%%{NOTEBOOK_MAGIC}\n{json.dumps({'path': path, 'arguments': arguments})}"
            self._contexts.execute(run, run, "python", code)
        except ContextError:
            self._end(name)
            raise
        with self._lock:
            late = self._closed  # its kernel has ended meanwhile
        if late:
            self._destroy(run)

    def _look(self, name: str) -> dict[str, Any]:
        with self._lock:
            run = self._runs.get(name)
        if run is None:
            raise ContextError("NOT_FOUND", "This notebook does not run (any more).")
        try:
            found = self._contexts.command_status(run, run)
            if found["results"] is None:
                return {"over": False}
            value = self._contexts.exit_value(run, run)
        except ContextError as error:
            self._end(name)
            return {"over": True, "error": error.message, "cause": ""}
        self._end(name)
        results = found["results"]
        if results["resultType"] == "error":
            text = html.unescape(_TAG.sub("", str(results.get("summary") or "")))
            return {"over": True, "error": text or "Error", "cause": str(results.get("cause") or "")}
        return {"over": True, "exit": value}

    def _end(self, name: str) -> None:
        with self._lock:
            run = self._runs.pop(name, None)
        if run is not None:
            self._destroy(run)

    def _destroy(self, run: str) -> None:
        with contextlib.suppress(ContextError):  # it is gone
            self._contexts.destroy(run)
