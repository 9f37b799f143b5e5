"""One execution context: a kernel, a command queue, and the thread that runs the commands in order."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import OrderedDict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

from ..cells import kernel_code
from ..clock import now_ms
from ..wire import NOTEBOOK_MAGIC
from . import results
from .cancelling import CANCEL_GRACE_S, Cancel, Stubborn
from .client import AccessLost, Kernel, KernelDied, pool_of
from .command import Command
from .contexterror import ContextError
from .fence import Fence
from .process import KernelDirectories
from .widgets import ContextWidgets

if TYPE_CHECKING:
    from .drivernode import ContextOwner

KEEP_COMMANDS = 100  # finished commands whose results can still be read
KEEP_BYTES = 48 * 1024 * 1024  # bytes of their results, as JSON; the newest result is always kept
FENCED = 2_000  # older commands that are remembered by their names only: some 300 KB
MAX_QUEUED = 1000
MAX_QUEUED_CODE = 64 * 1024 * 1024  # characters of the commands that wait: the node host keeps them in its memory
POLL_S = 0.1
UNREAD_S = 15.0  # clients ask for the results of a long command every 10 s or so
QUIET_S = 2.0  # after the answer: how long to wait for output that is still arriving


class _Destroyed(Exception):
    """The context is being destroyed: nobody will ask for results any more."""


class Context:
    """One context. Methods may be called from any thread and return immediately, except `join`."""

    def __init__(
        self,
        *,
        context_id: str,
        language: str,
        user: str,
        kernel: Kernel | None,
        owner: ContextOwner,
        bounds: tuple[int, int] = (0, 0),
        asks_as: str = "",
    ) -> None:
        """`bounds`: `share` and `reserve` of its user, for contexts that this one makes. `asks_as`: the context whose questions
        its own are to the workspace."""
        self.language = language
        self.user = user
        self._created_ms = self._used_ms = now_ms()
        self._id = context_id
        self.bounds = bounds
        self.asks_as = asks_as or context_id
        self._owner = owner
        self._kernel = kernel
        self._kept: KernelDirectories | None = None  # of the process that the next one replaces
        self._state = "Pending" if kernel is None else "Running"
        self._widgets = ContextWidgets()
        self._failure = ""
        self._destroyed = False
        self._lost = ""  # why its user may no longer run code here
        self._queue: deque[Command] = deque()
        self._commands: OrderedDict[str, Command] = OrderedDict()
        self._over = Fence(FENCED)  # those of which nothing else is known any more
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._main, name=f"context-{context_id[:8]}", daemon=True)
        self._thread.start()

    # ── called from other threads ───────────────────────────────────────────────────────────────────────────────────────────

    def status(self) -> dict[str, Any]:
        with self._wake:
            answer: dict[str, Any] = {"id": self._id, "status": self._state}
            if self._failure:
                answer["message"] = results.clean(self._failure)
            return answer

    def about(self) -> dict[str, Any]:
        """Returns the entry for a list of contexts: its user and what it does."""
        with self._wake:
            waiting = [command for command in self._commands.values() if not command.over]
            return {
                "context_id": self._id, "user": self.user, "language": self.language, "status": self._state,
                "created_ms": self._created_ms, "last_used_ms": now_ms() if waiting else self._used_ms, "commands": len(waiting),
            }  # fmt: skip

    def submit(self, command: Command) -> None:
        """Queues a command. Raises ContextError DEAD, LIMIT, INVALID."""
        with self._wake:
            self._used_ms = now_ms()
            if self._knows(command.command_id):
                return
            if self._over.refuses(command.command_id):
                forgotten = f"Command {command.command_id} is older than all that this context remembers; it was not run."
                raise ContextError("INVALID", forgotten)
            if self._state == "Error":
                raise ContextError(
                    "DEAD", f"{self._failure.splitlines()[0]} Destroy this context (contexts/destroy) and create a new one."
                )
            if len(self._queue) >= MAX_QUEUED:
                raise ContextError(
                    "LIMIT", f"{MAX_QUEUED} commands wait in this context already. Wait for some of them, or use more contexts."
                )
            waiting = sum(len(each.code) for each in self._queue)
            if self._queue and waiting + len(command.code) > MAX_QUEUED_CODE:
                raise ContextError(
                    "LIMIT",
                    f"The {len(self._queue)} commands that wait in this context have {waiting} characters, and"
                    f" {MAX_QUEUED_CODE} at most may wait. Wait for some of them, or pass on large values as files.",
                )
            self._commands[command.command_id] = command
            self._queue.append(command)
            self._wake.notify_all()

    def command_status(self, command_id: str) -> dict[str, Any]:
        with self._wake:
            command = self._command(command_id)
            command.read = command.over
            status = "Cancelling" if command.cancelled and not command.over else command.status
            answer: dict[str, Any] = {"id": command_id, "status": status, "results": command.results}
            if command.output is not None:
                answer["progress"] = {"printed": command.output.printed_last(), "jobs": self._owner.jobs.of(command_id)}
            if self._widgets.told is not None:
                answer["widgets"] = self._widgets.told
            return answer

    def command_times(self, command_id: str) -> tuple[int, int]:
        """Returns when a command began and ended, in epoch milliseconds; 0 for what it has not done."""
        with self._wake:
            command = self._command(command_id)
            return command.began_ms or command.ended_ms, command.ended_ms

    def command_cells(self, command_id: str, after: int) -> dict[str, Any]:
        """Returns the cells of a notebook task that have changed after a version (notebookcells.py)."""
        with self._wake:
            cells = self._command(command_id).cells
        return cells.since(after) if cells is not None else {"cells": [], "more": False, "now_ms": now_ms()}

    def exit_value(self, command_id: str) -> str | None:
        """Returns the value with which a command has left its notebook, or None."""
        with self._wake:
            return self._command(command_id).exit_value

    def knows(self, command_id: str) -> bool:
        """Whether the command was submitted before."""
        with self._wake:
            return self._knows(command_id)

    def _knows(self, command_id: str) -> bool:
        return command_id in self._commands or self._over.known(command_id)

    def cancel(self, command_id: str) -> None:
        """Cancels a command. Raises ContextError NOT_FOUND, INVALID."""
        with self._wake:
            command = self._command(command_id)
            if command.status in ("Finished", "Error"):
                ended = f"Command {command_id} has already ended ({command.status}); there is nothing to cancel."
                raise ContextError("INVALID", ended)
            if command.status == "Queued":
                self._queue.remove(command)
                self._finish(command, "Cancelled", results.cancelled("The command was cancelled before it started."))
            command.cancelled = True
            self._wake.notify_all()

    def busy(self) -> bool:
        with self._wake:
            return self._state != "Error" and any(not command.over for command in self._commands.values())

    def finish(self) -> None:
        """The node is to end soon: from now on `held` says whether results are still to be read."""
        with self._wake:
            for command in self._commands.values():
                command.awaited = not command.over

    def held(self) -> bool:
        """Whether somebody will want results that nobody has read: for a moment, of commands that ended after `finish`; and of a
        task, whose context is destroyed once its output is kept."""
        with self._wake:
            late = time.monotonic() - UNREAD_S
            return any(
                each.task or (each.over and each.awaited and not each.read and each.ended_s > late)
                for each in self._commands.values()
            )

    def destroy(self) -> None:
        """Makes the context end soon; `join` waits for that."""
        with self._wake:
            self._destroyed = True
            self._queue.clear()
            self._wake.notify_all()

    def withdraw(self, reason: str) -> None:
        """Ends the process soon, because the context's user may no longer run code here. What it runs fails with the reason."""
        with self._wake:
            self._lost = self._lost or reason
            self._wake.notify_all()

    @property
    def withdrawn(self) -> bool:
        return bool(self._lost)

    def join(self) -> None:
        self._thread.join()

    @property
    def _wanted(self) -> bool:
        return not self._destroyed and not self._lost

    def _check_wanted(self) -> None:
        """Raises _Destroyed, or AccessLost."""
        if self._destroyed:
            raise _Destroyed
        if self._lost:
            raise AccessLost(self._lost)

    def _command(self, command_id: str) -> Command:
        command = self._commands.get(command_id)
        if command is None:
            raise ContextError(
                "NOT_FOUND",
                f"Command {command_id} does not exist in context {self._id}."
                f" Results are kept for the last {KEEP_COMMANDS} commands.",
            )
        return command

    # ── the context's thread ────────────────────────────────────────────────────────────────────────────────────────────────

    def _main(self) -> None:
        try:
            while True:
                kernel = self._kernel or self._obtain()
                kernel.belong(self._id, self.user, partial(self._owner.answerer, self))
                self._run(kernel, self._next(kernel))
        except _Destroyed:
            pass
        except KernelDied as death:
            self._die(str(death), death.error)
        except Exception as error:  # a bug: the context must report it instead of waiting forever
            self._die(f"The context failed unexpectedly ({type(error).__name__}: {error}).")
        finally:
            if self._kernel is not None:
                self._kernel.end()
            if self._kept is not None:
                shutil.rmtree(str(self._kept.root), ignore_errors=True)
            self._cancel_all_jobs()

    def _cancel_all_jobs(self) -> None:
        """The process is gone and nobody can take the results of its jobs, including jobs started by threads of earlier
        commands."""
        with self._wake:
            started = [each.command_id for each in self._commands.values() if each.status != "Queued"]
        for command_id in started:
            self._owner.cancel_jobs(command_id)
        self._owner.stop_streams(pool_of(self._id))

    def _obtain(self) -> Kernel:
        try:
            kernel = self._owner.start_kernel(self._id, lambda: self._wanted, self._kept)
        except KernelDied:
            self._check_wanted()
            raise
        if kernel is None:
            self._check_wanted()
            raise _Destroyed  # the node is stopping
        self._kept = None
        with self._wake:
            self._kernel = kernel
            self._state = "Running"
        return kernel

    def _next(self, kernel: Kernel) -> Command:
        """Returns the next command, now Running. Watches the process while there is none."""
        with self._wake:
            while not self._queue and self._wanted and kernel.poll() is None:
                # A process ends without notice; an idle context that lost its process should show it soon.
                self._wake.wait(1.0)
            self._check_wanted()
            if not self._queue:
                raise KernelDied(kernel.death_notice())
            command = self._queue.popleft()
            command.status, command.began_ms = "Running", now_ms()
            return command

    def _run(self, kernel: Kernel, command: Command) -> None:
        """Runs one command to its end. Raises KernelDied, _Destroyed."""
        collector, began_s = results.Collector(), time.time()
        with self._wake:
            command.output = collector
        try:
            self._follow(kernel, command, collector)
            while collector.restarts:
                self._replace(kernel)
                if not (rest := collector.go_on()):
                    break
                command.code, command.language = f"%%{NOTEBOOK_MAGIC}\n{json.dumps(rest)}", "python"
                kernel = self._obtain()
                kernel.belong(self._id, self.user, partial(self._owner.answerer, self))
                self._follow(kernel, command, collector)
        except KernelDied as death:
            self._conclude(command, "Error", results.error(death.error, str(death), "", collector.printed()))
            raise
        except Stubborn:
            self._replace(kernel)
            note = (
                f"The command was cancelled. It did not react within {CANCEL_GRACE_S:.0f} s, so its Python process was replaced:"
                " the context's variables are gone."
            )
            self._conclude(command, "Cancelled", results.cancelled(note, collector.printed()))
            return
        if collector.names_a_kill:
            collector.explain(self._owner.node.why_killed(began_s))
        command.exit_value = collector.exit_value
        self._conclude(command, "Finished", collector.results(), collector.printed())

    def _follow(self, kernel: Kernel, command: Command, collector: results.Collector) -> None:
        """Executes the command and collects its messages until it is over. Raises KernelDied, _Destroyed, Stubborn."""
        code = kernel_code(results.clean(command.code), command.language)
        request = kernel.execute(code, command.command_id, command.widgets)
        answered = False
        heard = time.monotonic()
        cancel = Cancel(kernel, self._owner, command.command_id)
        while True:
            event = kernel.receive(POLL_S)
            now = time.monotonic()
            if event is None and kernel.poll() is not None:
                raise KernelDied(kernel.death_notice())
            self._check_wanted()
            if event is not None and event.kind == "oversized":
                command.drop()
                if event.channel == "shell":  # no answer is that large, except one with an error
                    answered = True
                    collector.answer({"status": "error", "ename": "Error", "evalue": "The error is too large to be shown."})
            if event is not None and self._widgets.take(event.kind, event.content):
                heard = now
            elif event is not None and event.parent == request:
                heard = now
                if event.channel == "shell":
                    answered = True
                    collector.answer(event.content)
                elif event.kind == "status" and event.content.get("execution_state") == "idle":
                    # The answer comes just before or after the last output: the next command must not find it.
                    if not answered and (last := kernel.await_answer(request, QUIET_S)) is not None:
                        collector.answer(last.content)
                    return
                else:
                    command.take(event.kind, event.content)
            if answered and now - heard > QUIET_S:
                return  # the last message was lost, but the command is over
            if command.cancelled and not answered:
                cancel.press(now)

    def _replace(self, kernel: Kernel) -> None:
        """Has a new process start for the context, with the packages that were installed for it."""
        self._kept = kernel.end(keep=True)
        with self._wake:
            self._kernel = None
            self._state = "Pending"
            self._widgets.clear()
        self._cancel_all_jobs()

    def _conclude(self, command: Command, status: str, outcome: dict[str, Any], printed: str = "") -> None:
        with self._wake:
            if command.cancelled and status == "Finished":
                # Even if it ended by itself at that moment: whoever cancels waits for Cancelled only.
                status, outcome = "Cancelled", results.cancelled("The command was cancelled.", printed)
            self._finish(command, status, outcome)

    def _finish(self, command: Command, status: str, outcome: dict[str, Any]) -> None:
        """Sets the result and forgets old ones. The lock is held."""
        command.status = status
        command.results = outcome
        command.output = None
        command.ended_s, command.ended_ms = time.monotonic(), now_ms()
        command.size = len(json.dumps(outcome))
        if command.cells is not None:
            command.cells.close(status, outcome)
            command.size += command.cells.size
        command.code = ""
        self._owner.touch()
        self._commands.move_to_end(command.command_id)
        over = [each for each in self._commands.values() if each.over]
        size = sum(each.size for each in over)
        for old in over[:-1]:
            if len(over) <= KEEP_COMMANDS and size <= KEEP_BYTES:
                break
            del self._commands[old.command_id]
            self._over.close(old.command_id)
            over = over[1:]
            size -= old.size

    def _die(self, reason: str, error: str = KernelDied.error) -> None:
        with self._wake:
            if self._destroyed:
                return
            self._failure = reason
            self._state = "Error"
            self._widgets.clear()
            self._queue.clear()
            for command in list(self._commands.values()):
                if not command.over:
                    self._finish(command, "Error", results.error(error, reason))
        if self._kernel is not None:
            self._kernel.end()
            self._kernel = None
