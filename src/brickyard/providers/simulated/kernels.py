"""Execution contexts of simulated drivers: what they are asked to run is answered by a function, and nothing is computed.

Without such a function, which only tests give, they refuse: a simulated workspace never claims to compute. Contexts live as long
as their driver and not with the server, so that a test can kill the server and see that nothing runs twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of a command: `results` as in `runtime/node/contexts/results.py`, `after_s` seconds after it began."""

    results: dict[str, Any]
    after_s: float = 0.0
    status: str = "Finished"


class KernelRefused(Exception):
    """A simulated driver says no; `code` is the agent protocol's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SimulatedKernels:
    """The contexts of every simulated driver."""

    def __init__(self) -> None:
        self.compute: Callable[[str], Answer] | None = None  # what is made of a command's text
        self.begun: list[tuple[str, str]] = []  # (instance, command) of everything that ever began
        self.generations: dict[str, int] = {}  # instance -> generation of its node
        self._contexts: dict[tuple[str, str], dict[str, tuple[float, Answer]]] = {}

    def renew(self, instance_id: str, generation: int) -> None:
        """The instance is a new node."""
        self.forget(instance_id)
        self.generations[instance_id] = generation

    def forget(self, instance_id: str) -> None:
        """The instance's node is gone, with its contexts."""
        self.generations.pop(instance_id, None)
        for key in [each for each in self._contexts if each[0] == instance_id]:
            del self._contexts[key]

    def contexts(self) -> set[str]:
        """Ids of the contexts that exist."""
        return {context for _, context in self._contexts}

    def call(self, instance_id: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request of the server to the agent of a driver (`agent/server.py`). Raises KernelRefused."""
        compute, parts = self.compute, path.strip("/").split("/")
        if compute is None or parts[:2] != ["v1", "contexts"]:
            raise KernelRefused("INVALID", "this workspace runs on the simulated provider: its nodes compute nothing")
        asked = body or {}
        if asked.get("generation", 0) not in (0, self.generations.get(instance_id, 0)):
            raise KernelRefused("INVALID", "the node is of another start of the cluster")
        match (method, *parts[2:]):
            case ("POST",):
                self._contexts.setdefault((instance_id, asked["context_id"]), {})
                return {}
            case ("DELETE", context):
                self._context(instance_id, context)
                del self._contexts[instance_id, context]
                return {}
            case ("POST", context, "commands"):
                commands = self._context(instance_id, context)
                if asked["command_id"] not in commands:
                    self.begun.append((instance_id, asked["command_id"]))
                    commands[asked["command_id"]] = (time.monotonic(), compute(asked["command"]))
                return {}
            case ("POST", context, "commands", command, "cancel"):
                if command not in self._context(instance_id, context):
                    raise KernelRefused("NOT_FOUND", f"command {command} does not exist")
                printed = {"resultType": "error", "summary": "CommandCancelled", "data": "printed before"}
                stopped = Answer(results=printed, status="Cancelled")
                self._context(instance_id, context)[command] = (time.monotonic(), stopped)
                return {}
            case ("GET", context, "commands", command):
                found = self._context(instance_id, context).get(command)
                if found is None:
                    raise KernelRefused("NOT_FOUND", f"command {command} does not exist")
                since, answer = found
                if time.monotonic() < since + answer.after_s:
                    return {"id": command, "status": "Running", "results": None}
                return {"id": command, "status": answer.status, "results": answer.results}
        raise KernelRefused("INVALID", f"simulated drivers do not do {method} {path}")

    def _context(self, instance_id: str, context: str) -> dict[str, tuple[float, Answer]]:
        found = self._contexts.get((instance_id, context))
        if found is None:
            raise KernelRefused("NOT_FOUND", f"context {context} does not exist")
        return found
