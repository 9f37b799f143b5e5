"""Execution contexts: Python processes attached to the cluster's driver, each with a command queue.

    context status    Pending (its process starts) -> Running -> Error (the process died; destroy it, create another)
    command status    Queued -> Running -> Finished | Error | Cancelled; Cancelling while a running one is interrupted

An exception in the user's code gives a Finished command with results of type error; Error means that the process died.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..clock import now_ms
from .asking import Asking
from .client import Kernel, KernelDied, KernelFactory
from .command import Command
from .context import Context
from .contexterror import ContextError, no_context
from .fence import Fence
from .process import Beside, KernelDirectories, Starter
from .progress import RunningJobs
from .questions import Questions
from .sparkaccess import SparkAccessError, SparkAccessProvider

if TYPE_CHECKING:
    from .drivernode import DriverNode

__all__ = ["ContextError", "Contexts"]

START_TIMEOUT_S = 180.0
STARTS_AT_ONCE = 2  # a kernel uses a whole core for a second or two while it starts
# The next spare starts after the first command of the context that took the last one: SPARE_DELAY_S later at the earliest, then
# as soon as nothing runs, and after SPARE_PATIENCE_S in any case.
SPARE_DELAY_S, SPARE_PATIENCE_S, SPARE_LOOK_S = 3.0, 20.0, 0.5
FENCED = 20_000  # contexts that are over and remembered one by one: some 3 MB
OPEN_LOOK_S = 0.1  # how often to check whether a kernel is still wanted while Spark makes its first session
LANGUAGES = ("python", "sql")


class Contexts:
    """All contexts of a node. Every method may be called from any thread and returns immediately.

    `access` gives kernels access to the driver's JVM; `env` is the complete environment for user code.
    """

    def __init__(
        self,
        *,
        python: str,
        node_dir: str,
        access: SparkAccessProvider,
        env: dict[str, str],
        node: DriverNode,
        starter: Starter | None = None,
        limit: int = 145,
    ) -> None:
        own = {
            "HOME": str(Path(node_dir) / "home"),
            "PYSPARK_PIN_THREAD": "true",
            "PYSPARK_PYTHON": env.get("PYSPARK_PYTHON", python),
            "PYSPARK_DRIVER_PYTHON": python,
        }
        # gRPC's handlers at a fork race with its own thread and may abort the child, such as `%pip` or `!ls`, before it runs its
        # program. A child that goes on in Python must open a connection of its own either way.
        forks = {"GRPC_ENABLE_FORK_SUPPORT": "false"}
        # One thread starts all kernels, and lives as long as they do: see KernelFactory.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="kernel-start")
        self._factory = KernelFactory(
            python=python,
            node_dir=Path(node_dir),
            env={**forks, **env, **own},
            access=access,
            thread=self._starter,
            starter=starter or Beside(),
        )
        self._cancellers = ThreadPoolExecutor(4, thread_name_prefix="kernel-cancel")
        self.node = node
        self.jobs = RunningJobs(node.jobs_of_group)
        self._limit = limit
        self._lock = threading.Lock()
        self._starting = threading.BoundedSemaphore(STARTS_AT_ONCE)
        self._contexts: dict[str, Context] = {}
        self._over = Fence(FENCED)
        self._held: Kernel | None = None  # waits for the driver
        self._spare: Future[Kernel | None] | None = None
        self._claimed: dict[str, Future[Kernel | None]] = {}  # context id -> the spare in preparation that it waits for
        self._warmers: list[threading.Thread] = []
        self._closed = False
        self._closing = False  # what runs may finish, and nothing new begins
        self._activity_ms = 0

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self, context_id: str, language: str, user: str = "", *, share: int = 0, reserve: int = 0, asks_as: str = ""
    ) -> None:
        """Starts a context; `user` is its owner. Such a user may have `share` contexts (0: any number), and none of the last
        `reserve` ones. `asks_as`: the context in whose name it asks the workspace. Repeating the call changes nothing; one that
        arrives after the context was destroyed is refused. Raises ContextError LIMIT, INVALID."""
        _check_language(language)
        with self._lock:
            if context_id in self._contexts:
                return
            if self._over.refuses(context_id):
                raise ContextError("INVALID", f"Execution context {context_id} is over. Create a new one.")
            self._drop_withdrawn()
            if self._closed or self._closing:
                raise ContextError("INVALID", "This node is stopping; no new execution context can start on it.")
            if why := self._refusal(user, share=share, reserve=reserve):
                raise ContextError("LIMIT", f"{why} Destroy contexts that are no longer used (contexts/destroy).")
            spare, self._spare = self._spare, None
            kernel = spare.result() if spare is not None and spare.done() else None
            if kernel is not None and kernel.poll() is not None:
                self._starter.submit(kernel.end)
                kernel = None
            if spare is not None and not spare.done():
                self._claimed[context_id] = spare
            self._contexts[context_id] = Context(
                context_id=context_id, language=language, user=user, kernel=kernel, owner=self,
                bounds=(share, reserve), asks_as=asks_as,
            )  # fmt: skip
            taken = spare is not None
        self.touch()
        if taken:
            threading.Thread(target=self._warm_later, name="kernel-spare-later", daemon=True).start()

    def _refusal(self, user: str, *, share: int, reserve: int) -> str:
        """Why the user cannot have another context; "" if they can. With the lock held."""
        total = len(self._contexts)
        own = sum(context.user == user for context in self._contexts.values())
        if total >= self._limit:
            return f"This cluster has {total} execution contexts, which is the most it can have."
        if share and own >= share:
            return f"{user} has {own} execution contexts on this cluster; at most {share} are allowed for each user."
        if total >= self._limit - reserve:
            return f"This cluster has {total} execution contexts; the last {reserve} are for those who may manage it."
        return ""

    def overview(self) -> list[dict[str, Any]]:
        """Returns every context with its user and what it does."""
        with self._lock:
            contexts = list(self._contexts.values())
        return [context.about() for context in contexts]

    def status(self, context_id: str) -> dict[str, Any]:
        """Returns `{"id", "status"}` with Pending, Running or Error; with Error also `message`. Raises ContextError NOT_FOUND."""
        return self._context(context_id).status()

    def destroy(self, context_id: str) -> None:
        """Ends a context, whatever it runs, and forgets its results: its name is over, even if the request to create it is still
        on its way. Raises ContextError NOT_FOUND."""
        with self._lock:
            self._over.close(context_id)
            context = self._contexts.pop(context_id, None)
            spare = self._claimed.pop(context_id, None)
            if self._spare is None and not self._closed:  # the next context may take the spare
                self._spare, spare = spare, None
        if spare is not None:
            spare.add_done_callback(_end_kernel)
        if context is None:
            raise no_context(context_id)
        context.destroy()
        self.touch()

    def withdraw(self, user: str, reason: str) -> list[str]:
        """Ends what runs in the user's contexts, with the reason. They stay, so that their results tell it. Returns their ids."""
        with self._lock:
            found = {context_id: context for context_id, context in self._contexts.items() if context.user == user}
        for context in found.values():
            context.withdraw(reason)
        return list(found)

    def execute(
        self, context_id: str, command_id: str, language: str, command: str, widgets: Mapping[str, str] | None = None
    ) -> None:
        """Queues a command. A repeated call changes nothing. Raises ContextError NOT_FOUND, DEAD, LIMIT, INVALID."""
        context = self._context(context_id)
        if self._closing and not context.knows(command_id):
            raise ContextError("INVALID", "This node is stopping; it takes no new commands.")
        language = language or context.language
        _check_language(language)
        if context.language not in ("python", language):
            raise ContextError(
                "INVALID",
                f"This is a {context.language} context; it cannot run {language}. Create one of language {language}.",
            )
        context.submit(Command(command_id=command_id, language=language, code=command, widgets=widgets))
        self.touch()

    def command_status(self, context_id: str, command_id: str) -> dict[str, Any]:
        """Returns `{"id", "status", "results"}`, while it runs `progress` (progress.py), and `widgets` if the context has any
        (widgets.py). Raises ContextError NOT_FOUND."""
        return self._context(context_id).command_status(command_id)

    def command_times(self, context_id: str, command_id: str) -> tuple[int, int]:
        """Returns when a command began and ended, in epoch milliseconds. Raises ContextError NOT_FOUND."""
        return self._context(context_id).command_times(command_id)

    def command_cells(self, context_id: str, command_id: str, after: int) -> dict[str, Any]:
        """Returns the changed cells of a notebook task (notebookcells.py). Raises ContextError NOT_FOUND."""
        return self._context(context_id).command_cells(command_id, after)

    def exit_value(self, context_id: str, command_id: str) -> str | None:
        """Returns the value with which a command has left its notebook, or None. Raises ContextError NOT_FOUND."""
        return self._context(context_id).exit_value(command_id)

    def cancel(self, context_id: str, command_id: str) -> None:
        """Cancels a queued or running command with its Spark jobs. Raises ContextError NOT_FOUND; INVALID if it is over."""
        self._context(context_id).cancel(command_id)

    # ── for the node ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def busy(self) -> bool:
        """Whether any command is queued or running."""
        with self._lock:
            contexts = list(self._contexts.values())
        return any(context.busy() for context in contexts)

    def last_activity_ms(self) -> int:
        """Returns the epoch millisecond of the last command or change of contexts; 0 if there was none."""
        if self.busy():
            self.touch()
        return self._activity_ms

    def take_no_more(self) -> None:
        """Lets finish what runs or waits for its turn, and refuses everything new from now on. May be repeated."""
        with self._lock:
            first, self._closing = not self._closing, True
            contexts = list(self._contexts.values())
        for context in contexts if first else ():
            context.finish()

    def unfinished(self) -> bool:
        """Whether a command is queued or running, or results are still to be read."""
        with self._lock:
            contexts = list(self._contexts.values())
        return any(context.busy() or context.held() for context in contexts)

    def preload(self) -> None:
        """Starts a process that waits for the driver, so that the first kernel is ready sooner. Never raises: without it kernels
        start later, one by one, and report what is wrong."""
        try:
            kernel: Kernel = self._starter.submit(self._factory.start, hold=True).result()
        except (OSError, RuntimeError, SparkAccessError) as error:
            self.node.log(f"no Python process could be made ready: {error}")
            return
        with self._lock:
            if self._closed:
                left: Kernel | None = kernel
            else:
                left, self._held = self._held, kernel
        if left is not None:  # the one of an earlier call that no context has taken, or this one if the node is stopping
            left.end()

    def warm(self) -> None:
        """Prepares a spare kernel, so that the next context is ready immediately. Call this once the driver answers.

        A context created while the spare starts waits for it instead of starting another kernel.
        """
        with self._lock:
            if self._closed or self._spare is not None:
                return
            spare: Future[Kernel | None] = Future()
            self._spare = spare
            thread = threading.Thread(target=self._make_spare, args=(spare,), name="kernel-spare", daemon=True)
            self._warmers = [each for each in self._warmers if each.is_alive()] + [thread]
            thread.start()

    def close(self) -> None:
        """Ends all contexts and processes. Returns when they are gone."""
        with self._lock:
            self._closed = True
            contexts, self._contexts = list(self._contexts.values()), {}
            spares = [each for each in (self._spare, *self._claimed.values()) if each is not None]
            self._spare, self._claimed = None, {}
            held, self._held = self._held, None
            warmers = self._warmers
        if held is not None:
            held.end()
        for spare in spares:
            spare.add_done_callback(_end_kernel)
        for context in contexts:
            context.destroy()
        for warmer in warmers:
            warmer.join()
        for context in contexts:
            context.join()
        self._cancellers.shutdown(wait=False)
        self.jobs.close()
        self._starter.shutdown(wait=True)  # last: the system kills a thread's kernels when the thread ends
        self._factory.close()

    # ── internals ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _context(self, context_id: str) -> Context:
        with self._lock:
            context = self._contexts.get(context_id)
        if context is None:
            raise no_context(context_id)
        return context

    def _drop_withdrawn(self) -> None:
        """Forgets contexts that nobody may use any more, where they would keep others from having one. The lock is held."""
        if len(self._contexts) >= self._limit:
            for context_id in [each for each, context in self._contexts.items() if context.withdrawn]:
                self._over.close(context_id)
                self._contexts.pop(context_id).destroy()

    def touch(self) -> None:
        self._activity_ms = now_ms()

    def answerer(self, context: Asking) -> Questions:
        return Questions(context, self)

    def cancel_jobs(self, group: str) -> None:
        if not self._closed:
            self._cancellers.submit(self.node.cancel_group, group)

    def stop_streams(self, pool: str) -> None:
        if not self._closed:
            self._cancellers.submit(self.node.stop_streams, pool)

    def _start_kernel(self, wanted: Callable[[], bool], after: KernelDirectories | None = None) -> Kernel | None:
        """Returns a connected kernel, or None if it is no longer `wanted`. `after`: the directories of the process that it
        replaces. Raises KernelDied."""
        with self._starting:
            if self._closed or not wanted():
                return None
            held = None
            if after is None:
                with self._lock:
                    held, self._held = self._held, None
            try:
                kernel: Kernel = held or self._starter.submit(self._factory.start, hold=True, after=after).result()
            except (OSError, RuntimeError, SparkAccessError) as error:
                raise KernelDied(f"The Python process could not start: {error}") from error
            while not self.node.spark_open(OPEN_LOOK_S) and wanted() and not self._closed:
                pass
            kernel.proceed()
            try:
                kernel.connect(timeout_s=START_TIMEOUT_S, wanted=lambda: wanted() and not self._closed)
            except BaseException:
                kernel.end()
                raise
            return kernel

    def _warm_later(self) -> None:
        """Calls `warm` once that takes no time from what users wait for."""
        latest = time.monotonic() + SPARE_PATIENCE_S
        time.sleep(SPARE_DELAY_S)
        while self.busy() and not self._closed and time.monotonic() < latest:
            time.sleep(SPARE_LOOK_S)
        self.warm()

    def _make_spare(self, spare: Future[Kernel | None]) -> None:
        try:
            kernel = self._start_kernel(lambda: not self._closed)
            self.node.log("a Python process is ready for the next context")
        except Exception as error:  # after any error: a waiting context starts its own kernel and reports what is wrong then
            self.node.log(f"no Python process is ready for the next context: {error}")
            kernel = None
        spare.set_result(kernel)

    def start_kernel(self, context_id: str, wanted: Callable[[], bool], after: KernelDirectories | None = None) -> Kernel | None:
        """Returns the spare kernel that the context waits for, or another one if that failed or there is none. Otherwise as
        `_start_kernel`."""
        with self._lock:
            spare = self._claimed.get(context_id)
        if spare is None or after is not None:
            return self._start_kernel(wanted, after)
        while wanted() and not spare.done():
            with contextlib.suppress(NotYet):
                spare.result(timeout=0.1)
        with self._lock:
            # A destroyed context has returned the spare, for which another may wait by now.
            mine = wanted() and self._claimed.get(context_id) is spare
            if mine:
                del self._claimed[context_id]
        kernel = spare.result() if mine else None
        if kernel is None or kernel.poll() is None:
            return kernel or self._start_kernel(wanted)
        kernel.end()
        return self._start_kernel(wanted)


def _end_kernel(spare: Future[Kernel | None]) -> None:
    """Ends a spare kernel that no context has taken."""
    kernel = spare.result()
    if kernel is not None:
        kernel.end()


def _check_language(language: str) -> None:
    if language not in LANGUAGES:
        raise ContextError(
            "INVALID", f"Language {language or '(none)'!s} is not offered on this cluster. Use one of: {', '.join(LANGUAGES)}."
        )
