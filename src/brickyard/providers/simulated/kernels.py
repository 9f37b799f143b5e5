"""Execution contexts of simulated drivers, which compute nothing.

By default they refuse contexts: a simulated workspace never claims to compute. Tests can let them accept commands and answer with
a function (`compute`), or have each command recorded in a file (the knob `commands_file`). Contexts live as long as their driver,
not the server, so that a test can kill servers and check that nothing runs twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from brickyard.domain import nodeops
from brickyard.domain.nodeops import CellsOfCommand, NewCommand, NewContext, NodeOp, OfCommand, OfContext, WithdrawContexts
from brickyard.providers.simulated.knobsfile import HasKnobs

TASKS = ("%%brickyard_task", "%%brickyard_notebook task ")  # how the command of a task begins
NOTHING = "this workspace runs on the simulated provider: its nodes compute nothing"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a command: `results` as in `runtime/node/contexts/results.py`, `after_s` seconds after it began."""

    results: dict[str, Any]
    after_s: float = 0.0
    status: str = "Finished"
    progress: dict[str, Any] | None = None  # what is told until then (`nodeops.CommandProgress`)
    widgets: list[dict[str, Any]] | None = None  # of its context from now on (`nodeops.Widget`)
    cells: list[dict[str, Any]] = []  # of a notebook (`domain.notebookcells`), told from the beginning on


_Commands = dict[str, tuple[float, Answer]]  # of a context, by id: when it began, and its outcome


class KernelRefused(Exception):
    """A simulated driver refuses; `code` is from the agent protocol."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SimulatedKernels:
    """The contexts of every simulated driver."""

    def __init__(self, world: HasKnobs) -> None:
        self._world = world
        self.compute: Callable[[str], Answer] | None = None  # from a command's text to its outcome
        self.begun: list[tuple[str, str]] = []  # (instance, command) of every command that ever began
        self.chosen: list[dict[str, str]] = []  # the values of widgets that were sent with each of them
        self.generations: dict[str, int] = {}  # instance -> generation of its node
        self._contexts: dict[tuple[str, str], _Commands] = {}
        self._users: dict[tuple[str, str], str] = {}
        self._withdrawn: set[tuple[str, str]] = set()
        self._over: set[tuple[str, str]] = set()  # contexts that were destroyed: they do not begin again
        self._tasks: set[tuple[str, str]] = set()  # contexts of tasks, which are destroyed once the output is kept

    def renew(self, instance_id: str, generation: int) -> None:
        """The instance has become a new node."""
        self.forget(instance_id)
        self.generations[instance_id] = generation

    def forget(self, instance_id: str) -> None:
        """Removes the instance's node and its contexts."""
        self.generations.pop(instance_id, None)
        for key in [each for each in self._contexts if each[0] == instance_id]:
            self._drop(key)
        self._over = {each for each in self._over if each[0] != instance_id}

    def _drop(self, key: tuple[str, str]) -> None:
        del self._contexts[key], self._users[key]
        self._withdrawn.discard(key)
        self._tasks.discard(key)

    def users(self, instance_id: str) -> tuple[str, ...]:
        """Who has contexts there."""
        mine = [key for key in self._users if key[0] == instance_id and key not in self._withdrawn]
        return tuple(sorted({self._users[key] for key in mine} - {""}))

    def busy(self, instance_id: str) -> bool:
        """Whether a command runs there, or the output of a task is to be collected."""
        mine = [key for key in self._contexts if key[0] == instance_id]
        running = (_state(self._contexts[key], each)["status"] == "Running" for key in mine for each in self._contexts[key])
        return any(key in self._tasks for key in mine) or any(running)

    def contexts(self) -> set[str]:
        """Ids of the existing contexts."""
        return {context for _, context in self._contexts}

    def call(self, instance_id: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request from the server to a driver's agent (`domain/nodeops.py`). Raises KernelRefused."""
        served = path.startswith(("/v1/contexts", nodeops.CONTEXTS_WITHDRAW.path, nodeops.ATTACHED.path))
        if not served:
            raise KernelRefused("INVALID", NOTHING)
        try:
            path, _, query = path.partition("?")
            found = nodeops.asked(method, path, dict(parse_qsl(query)) if body is None else body)
        except msgspec.ValidationError as error:
            raise KernelRefused("INVALID", str(error)) from error
        op, asked = found or (None, None)
        if isinstance(asked, NewContext) and not (self.compute or self._world.knobs.commands_file):
            raise KernelRefused("INVALID", NOTHING)
        if isinstance(asked, OfContext | OfCommand | NewCommand):
            self._check_user(instance_id, asked)
        if op is nodeops.ATTACHED:
            return {"contexts": self._attached(instance_id)}
        if isinstance(asked, CellsOfCommand):
            _, answer = self._context(instance_id, asked.context_id)[asked.command_id]
            return {"cells": [cell for cell in answer.cells if cell["version"] > asked.after]}
        return self._serve(instance_id, op, asked, f"{method} {path}")

    def _serve(self, instance_id: str, op: NodeOp[Any, Any] | None, asked: object, what: str) -> dict[str, Any]:
        match asked:
            case NewContext(context_id=context):
                if asked.generation not in (0, self.generations.get(instance_id, 0)):
                    raise KernelRefused("INVALID", "the node is of another start of the cluster")
                if (instance_id, context) in self._over:
                    raise KernelRefused("INVALID", f"context {context} is over")
                if (instance_id, context) not in self._contexts:
                    self._contexts[instance_id, context] = {}
                    self._users[instance_id, context] = asked.user
                return {}
            case WithdrawContexts(user=user, reason=reason):
                return {"context_ids": self._withdraw(instance_id, user, reason)}
            case NewCommand(context_id=context, command_id=command):
                commands = self._context(instance_id, context)
                if asked.command.startswith(TASKS):
                    self._tasks.add((instance_id, context))
                if command not in commands:
                    self.chosen.append(asked.widgets)
                    commands[command] = (time.monotonic(), self._begin(instance_id, command, asked.command))
                return {}
            case OfCommand(context_id=context, command_id=command):
                commands = self._context(instance_id, context)
                return self._cancel(commands, command) if op is nodeops.COMMAND_CANCEL else _state(commands, command)
            case OfContext(context_id=context):
                if op is nodeops.CONTEXT_DESTROY:
                    self._over.add((instance_id, context))
                self._context(instance_id, context)
                if op is nodeops.CONTEXT_DESTROY:
                    self._drop((instance_id, context))
                    return {}
                return {"id": context, "status": "Error" if (instance_id, context) in self._withdrawn else "Running"}
        raise KernelRefused("INVALID", f"simulated drivers do not do {what}")

    def open_port(self, instance_id: str, asked: nodeops.OpenPortOf) -> dict[str, Any]:
        """The port of this machine that stands for the node's. Raises KernelRefused."""
        if asked.generation not in (0, self.generations.get(instance_id, 0)):
            raise KernelRefused("NOT_FOUND", "the node is of another start of the cluster")
        return {"port": asked.port}

    def _attached(self, instance_id: str) -> list[dict[str, Any]]:
        """The instance's contexts, as a node lists them."""
        mine = [(context, user) for (instance, context), user in self._users.items() if instance == instance_id]
        return [{"context_id": context, "user": user, "status": "Running"} for context, user in mine]

    def _check_user(self, instance_id: str, asked: OfContext | OfCommand | NewCommand) -> None:
        if asked.user and self._users.get((instance_id, asked.context_id)) != asked.user:
            raise KernelRefused("NOT_FOUND", nodeops.no_context(asked.context_id))

    def _withdraw(self, instance_id: str, user: str, reason: str) -> list[str]:
        """Ends what runs in the user's contexts."""
        mine = [key for key, name in self._users.items() if key[0] == instance_id and name == user]
        ended = {"resultType": "error", "summary": f"PermissionDenied: {reason}"}
        for key in mine:
            self._withdrawn.add(key)
            for command_id in self._contexts[key]:
                if _state(self._contexts[key], command_id)["status"] == "Running":
                    self._contexts[key][command_id] = (time.monotonic(), Answer(results=ended, status="Error"))
        return [context for _, context in mine]

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
        file = self._world.knobs.commands_file
        try:
            with Path(file).open("a") as notes:
                notes.write(f"{command_id}\n")
        except OSError as error:
            raise KernelRefused("INVALID", f"commands_file: cannot write {file}: {error.strerror}") from error
        knobs = self._world.knobs
        if random.Random(f"{knobs.seed} {command_id}").random() < knobs.command_failure:  # noqa: S311 - a failure, not a secret
            failure = {"resultType": "error", "summary": "SimulatedFailure: command_failure", "cause": ""}
            return Answer(results=failure, after_s=knobs.command_s)
        noted = {"resultType": "text", "data": f"simulated: {command_id} was noted and not run"}
        return Answer(results=noted, after_s=knobs.command_s)

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
        progress = {} if answer.progress is None else {"progress": answer.progress}
        return {"id": command_id, "status": "Running", "results": None, **progress}
    return {"id": command_id, "status": answer.status, "results": answer.results, "widgets": answer.widgets}
