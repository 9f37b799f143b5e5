"""Execution contexts of simulated drivers, which compute nothing.

By default they refuse commands: a simulated workspace never claims to compute. Tests can let them accept commands and answer with
a function (`compute`), or have each command recorded in a file (the knob `commands_file`). Contexts live as long as their driver,
not the server, so that a test can kill servers and check that nothing runs twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from brickyard.domain import nodeops
from brickyard.domain.nodeops import NewCommand, NewContext, OfCommand, OfContext
from brickyard.providers.simulated.knobsfile import Knobs


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a command: `results` as in `runtime/node/contexts/results.py`, `after_s` seconds after it began."""

    results: dict[str, Any]
    after_s: float = 0.0
    status: str = "Finished"


_Commands = dict[str, tuple[float, Answer]]  # of a context, by id: when it began, and its outcome


class KernelRefused(Exception):
    """A simulated driver refuses; `code` is from the agent protocol."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SimulatedKernels:
    """The contexts of every simulated driver."""

    def __init__(self, knobs: Callable[[], Knobs]) -> None:
        self._knobs = knobs
        self.compute: Callable[[str], Answer] | None = None  # from a command's text to its outcome
        self.begun: list[tuple[str, str]] = []  # (instance, command) of every command that ever began
        self.generations: dict[str, int] = {}  # instance -> generation of its node
        self._contexts: dict[tuple[str, str], _Commands] = {}

    def renew(self, instance_id: str, generation: int) -> None:
        """The instance has become a new node."""
        self.forget(instance_id)
        self.generations[instance_id] = generation

    def forget(self, instance_id: str) -> None:
        """Removes the instance's node and its contexts."""
        self.generations.pop(instance_id, None)
        for key in [each for each in self._contexts if each[0] == instance_id]:
            del self._contexts[key]

    def contexts(self) -> set[str]:
        """Ids of the existing contexts."""
        return {context for _, context in self._contexts}

    def call(self, instance_id: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request from the server to a driver's agent (`domain/nodeops.py`). Raises KernelRefused."""
        if not (self.compute or self._knobs().commands_file) or not path.startswith("/v1/contexts"):
            raise KernelRefused("INVALID", "this workspace runs on the simulated provider: its nodes compute nothing")
        try:
            found = nodeops.asked(method, path, body or {})
        except msgspec.ValidationError as error:
            raise KernelRefused("INVALID", str(error)) from error
        op, asked = found or (None, None)
        match asked:
            case NewContext(context_id=context):
                if asked.generation not in (0, self.generations.get(instance_id, 0)):
                    raise KernelRefused("INVALID", "the node is of another start of the cluster")
                self._contexts.setdefault((instance_id, context), {})
                return {}
            case NewCommand(context_id=context, command_id=command):
                commands = self._context(instance_id, context)
                if command not in commands:
                    commands[command] = (time.monotonic(), self._begin(instance_id, command, asked.command))
                return {}
            case OfCommand(context_id=context, command_id=command):
                commands = self._context(instance_id, context)
                return self._cancel(commands, command) if op is nodeops.COMMAND_CANCEL else _state(commands, command)
            case OfContext(context_id=context):
                self._context(instance_id, context)
                if op is nodeops.CONTEXT_DESTROY:
                    del self._contexts[instance_id, context]
                    return {}
                return {"id": context, "status": "Running"}
        raise KernelRefused("INVALID", f"simulated drivers do not do {method} {path}")

    def _cancel(self, commands: _Commands, command_id: str) -> dict[str, Any]:
        _state(commands, command_id)
        printed = {"resultType": "error", "summary": "CommandCancelled", "data": "printed before"}
        commands[command_id] = (time.monotonic(), Answer(results=printed, status="Cancelled"))
        return {}

    def _begin(self, instance_id: str, command_id: str, command: str) -> Answer:
        """Begins a command, for the first and only time."""
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

    def _context(self, instance_id: str, context: str) -> _Commands:
        found = self._contexts.get((instance_id, context))
        if found is None:
            raise KernelRefused("NOT_FOUND", f"context {context} does not exist")
        return found


def _state(commands: _Commands, command_id: str) -> dict[str, Any]:
    if command_id not in commands:
        raise KernelRefused("NOT_FOUND", f"command {command_id} does not exist")
    since, answer = commands[command_id]
    if time.monotonic() < since + answer.after_s:
        return {"id": command_id, "status": "Running", "results": None}
    return {"id": command_id, "status": answer.status, "results": answer.results}
