"""Execution contexts of simulated drivers, which compute nothing.

They refuse: a simulated workspace never claims to compute. Tests let them accept commands, and answer by a function of their own
(`compute`), or have each command noted in a file (the knob `commands_file`). Contexts live as long as their driver and not with
the server, so that a test can kill servers and see that nothing runs twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from brickyard.providers.simulated.knobsfile import Knobs


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

    def __init__(self, knobs: Callable[[], Knobs]) -> None:
        self._knobs = knobs
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
        parts = path.strip("/").split("/")
        if not (self.compute or self._knobs().commands_file) or parts[:2] != ["v1", "contexts"]:
            raise KernelRefused("INVALID", "this workspace runs on the simulated provider: its nodes compute nothing")
        asked = body or {}
        if asked.get("generation", 0) not in (0, self.generations.get(instance_id, 0)):
            raise KernelRefused("INVALID", "the node is of another start of the cluster")
        match (method, *parts[2:]):
            case ("POST",):
                self._contexts.setdefault((instance_id, asked["context_id"]), {})
                return {}
            case ("GET", context):
                self._context(instance_id, context)
                return {"id": context, "status": "Running"}
            case ("DELETE", context):
                self._context(instance_id, context)
                del self._contexts[instance_id, context]
                return {}
            case (_, context, "commands", *rest):
                return self._command(instance_id, context, asked, method, rest)
        raise KernelRefused("INVALID", f"simulated drivers do not do {method} {path}")

    def _command(self, instance_id: str, context: str, asked: dict[str, Any], method: str, rest: list[str]) -> dict[str, Any]:
        commands = self._context(instance_id, context)
        name = rest[0] if rest else asked["command_id"]
        if (method, *rest) == ("POST",):
            if name not in commands:
                commands[name] = (time.monotonic(), self._begin(instance_id, name, asked["command"]))
            return {}
        if name not in commands:
            raise KernelRefused("NOT_FOUND", f"command {name} does not exist")
        if rest[1:] == ["cancel"]:
            printed = {"resultType": "error", "summary": "CommandCancelled", "data": "printed before"}
            commands[name] = (time.monotonic(), Answer(results=printed, status="Cancelled"))
            return {}
        since, answer = commands[name]
        if time.monotonic() < since + answer.after_s:
            return {"id": name, "status": "Running", "results": None}
        return {"id": name, "status": answer.status, "results": answer.results}

    def _begin(self, instance_id: str, command_id: str, command: str) -> Answer:
        """A command begins, for the first and only time."""
        self.begun.append((instance_id, command_id))
        if self.compute is not None:
            return self.compute(command)
        file = self._knobs().commands_file
        try:
            with Path(file).open("a") as notes:
                notes.write(f"{command_id}\n")
        except OSError as error:
            raise KernelRefused("INVALID", f"commands_file: cannot write {file}: {error.strerror}") from error
        noted = {"resultType": "text", "data": f"simulated: {command_id} was noted and not run"}
        return Answer(results=noted, after_s=self._knobs().command_s)

    def _context(self, instance_id: str, context: str) -> dict[str, tuple[float, Answer]]:
        found = self._contexts.get((instance_id, context))
        if found is None:
            raise KernelRefused("NOT_FOUND", f"context {context} does not exist")
        return found
