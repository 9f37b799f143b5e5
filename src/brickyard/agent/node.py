"""Brings the node to the state that its assignment asks for: does the steps of `converge.decide`, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from brickyard.agent import silence
from brickyard.agent.config import AgentConfig
from brickyard.agent.contexts import Contexts, Question
from brickyard.agent.converge import Current, Stage, Step, continued, decide
from brickyard.agent.delivering import deliver_regularly
from brickyard.agent.host import HostError, HostGone, HostListener, NodeHost, cut_failure
from brickyard.agent.networks import Networks
from brickyard.agent.owner import NodeOwner
from brickyard.agent.shortages import explained, on_full_disk
from brickyard.agent.state import NodeState
from brickyard.agent.steps import LADDER
from brickyard.agent.steps.release import give_room_back
from brickyard.agent.steps.work import Work
from brickyard.agent.watching.meter import Watched
from brickyard.agent.watching.sampling import Sampled
from brickyard.domain.background import BackgroundTasks
from brickyard.domain.node import Assignment, Failure, NodeStatus, Phase, Role
from brickyard.domain.redaction import Redactor
from brickyard.logs.bounded import LogFile
from brickyard.machine import measure
from brickyard.machine.addresses import master_host
from brickyard.machine.disk import Lack

ANSWER_S = 10.0  # for the node host to take the answer to a kernel's question
BLAME_S = 2.0  # for a worker to report that its executors have failed, before it ends
WARM_RETRY_S = (5.0, 300.0)  # between two attempts to make a warm node: first, maximum
_PROTOCOL_CODES = frozenset(
    {"NOT_FOUND", "LIMIT", "DEAD", "INVALID", "TIMEOUT", "INTERNAL", ""}
)  # these say nothing about why a cluster ended
_FROM_HOST = frozenset({Phase.PREPARING, Phase.STARTING, Phase.READY, Phase.RETIRING, Phase.RETIRED, Phase.FAILED})


class Node(HostListener):
    """The node of one instance. Everything runs on the event loop."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        owner: NodeOwner,
        networks: Networks,
        log: LogFile,
        ladder: Mapping[Step, Work] = LADDER,
    ) -> None:
        self._config = config
        self._ladder = ladder
        self._state = NodeState(config=config, owner=owner, listener=self, networks=networks, log=log)
        self._owner = owner
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()  # set while nothing is wanted and nothing exists
        self._running: tuple[Step, asyncio.Task[None]] | None = None
        self._calls = BackgroundTasks()  # to the node host
        self._condemned = 0  # the generation that ends for what its own programs took
        self._warm_failures = 0  # in a row
        self._warm_after = 0.0  # time.monotonic() of the next attempt

    @property
    def status(self) -> NodeStatus:
        return self._state.status

    @property
    def host(self) -> NodeHost | None:
        """The node host, if it is alive and has its role."""
        return self._state.joined_host

    def give_notice(self) -> bool:
        """Reports that the machine is about to be taken away, if this is a worker that can hand over what it has and was
        not told before."""
        state = self._state
        if state.role is not Role.WORKER or state.joined_host is None or state.status.leaving:
            return False
        state.update(leaving=True)
        return True

    @property
    def redactor(self) -> Redactor:
        """Hides the secrets that the node was given."""
        return self._state.redactor

    @property
    def contexts(self) -> Contexts:
        return self._state.contexts

    def contexts_changed(self) -> None:
        """Reports who has contexts now."""
        self._state.update(users=self._state.contexts.users)

    # ── for the watch over memory and disk ──────────────────────────────────────────────────────────────────────────────────

    @property
    def watched(self) -> Watched | None:
        return self._state.watched

    @property
    def sampled(self) -> Sampled | None:
        return self._state.sampled

    def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
        """Ends the running node as failed. `code` is the failure's code if the node is a driver. `own_fault`: for what its own
        programs took, so a worker's executors have failed before it ends."""
        generation = self._state.current.generation
        if self.watched is None or generation == self._condemned > 0:
            return
        if generation == 0:
            self._warm_lost(message)
            return
        # Without the tail of its log, which knows nothing of the reason.
        failure = cut_failure(code if self._state.is_driver else "INSTANCE_UNREACHABLE", message, "")
        host = self._state.joined_host if own_fault and self._state.role is Role.WORKER else None
        if host is None:
            self._end_now(failure)
            return
        self._condemned = generation
        self._calls.start(self._end_blamed(host, failure))

    async def _end_blamed(self, host: NodeHost, failure: Failure) -> None:
        """Ends a worker whose executors are to blame. Spark runs tasks of a lost worker again without end, and ones of executors
        that have failed only `spark.task.maxFailures` times."""
        try:
            await host.call("fail_executors", timeout_s=BLAME_S, why=self._state.redactor.text(failure.message))
        except HostError as error:
            self._state.say(f"Spark does not know that the executors have failed, and counts them as lost: {error}")
        if self._state.host is host and self.watched is not None:
            self._end_now(failure)

    def _end_now(self, failure: Failure) -> None:
        self._end_generation(failure)
        self._give_up()

    def starved(self, code: str, message: str) -> None:
        """Records that a process is ended for lack of memory. If the node then fails, this is the reason."""
        self._state.shortages.starved(message, code)
        self._note_killed(message)

    def killed_by_kernel(self) -> None:
        """Records that the kernel has killed a process for lack of memory."""
        self._note_killed(self._state.want_of_memory)

    def _note_killed(self, why: str) -> None:
        """Lets commands that fail because of it name the reason."""
        self._state.say(why)
        if (host := self._state.joined_host) is not None:
            self._calls.start(_note_killed(host, self._state.redactor.text(why)))

    def crowded(self) -> None:
        """Records that the node has all the processes and threads that it may have. An executor that cannot make one ends."""
        if self._state.shortages.crowded():
            self._note_killed(self._state.want_of_processes)

    def disk_is_low(self, used: int, limit: int, of: Lack = Lack.SIZE) -> None:
        """Tells the cluster once, with the numbers of the first time."""
        if bool(limit) == bool(self._state.status.disk_limit or self._state.status.files_limit):
            return
        if of is Lack.SIZE:
            self._state.update(disk_used=used, disk_limit=limit, files_used=0, files_limit=0)
        else:
            self._state.update(disk_used=0, disk_limit=0, files_used=used, files_limit=limit)

    # ── the wanted state ────────────────────────────────────────────────────────────────────────────────────────────────────

    def want(self, wanted: Assignment | None) -> None:
        """Takes a new assignment, which replaces the last one whether that was acted upon or not."""
        wanted = continued(wanted, self._state.wanted)
        if wanted == self._state.wanted:
            return
        self._state.wanted = wanted
        self._warm_after = 0.0  # the last assignment's obstacle may not affect this one
        self._idle.clear()
        self._wake.set()
        if self._running is not None and decide(self._state.current, wanted)[:1] != (self._running[0],):
            self._give_up()  # a stop must not wait for an installation

    async def run(self) -> None:
        """Converges forever."""
        while True:
            self._wake.clear()
            await self._settle()
            if self._state.wanted is None and self._state.current == Current():
                self._idle.set()
            await self._wake.wait()

    async def watch(self) -> None:
        """Watches forever whether Spark on the node answers, and reports since when it does not."""
        await silence.watch(self._state)

    async def deliver_logs(self) -> None:
        """Delivers the node's logs from time to time, forever."""
        await deliver_regularly(self._state)

    async def close(self) -> None:
        """Ends the node and cleans up, while `run` goes on. Returns when nothing is left."""
        self.want(None)
        await self._idle.wait()

    async def _settle(self) -> None:
        """Does steps until none is left."""
        while True:
            if self._state.current.stage is Stage.ENDED and self._state.host is not None:
                await self._state.end_host(grace_s=0)
                await asyncio.to_thread(give_room_back, self._state)
            steps = decide(self._state.current, self._state.wanted)
            if not steps or (steps[0] is Step.WARM and time.monotonic() < self._warm_after):
                self._acknowledge()
                return
            await self._do(steps[0])

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _do(self, step: Step) -> None:
        self._acknowledge()
        task = asyncio.create_task(self._work(step), name=step)
        self._running = (step, task)
        self._state.working = True
        self._state.show_starting()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self._running = None
            self._state.working = False
            self._state.show_starting()
        if task.cancelled():
            self._state.say(f"gave up: {step.value}")
        elif (error := task.exception()) is not None:
            if not isinstance(error, HostError):
                text = f"the agent could not {step.value} the node: {type(error).__name__}: {error}"
                error = HostError("INTERNAL_ERROR", text)
            if step is Step.WARM:
                self._warm_failed(error)
            else:
                self._fail(error, self._ladder[step].failure)
        elif step is Step.WARM:
            self._warm_failures = 0

    async def _work(self, step: Step) -> None:
        """Does a step within its time limit. Raises HostError, and anything else that the step raises."""
        work = self._ladder[step]
        if work.progress:
            self._state.progress(work.progress)
        try:
            async with asyncio.timeout(work.limit_s) as limit:
                await work.do(self._state)
        except TimeoutError as error:
            if not limit.expired():
                raise
            text = f"{work.progress or step.value} took longer than {work.limit_s:g} s"
            raise HostError("TIMEOUT", text) from error

    def _give_up(self) -> None:
        """Cancels the running step; the next step ends what it has begun. Steps that the next one relies on always run to
        completion."""
        if self._running is not None and not self._ladder[self._running[0]].whole:
            self._running[1].cancel()

    def _acknowledge(self) -> None:
        wanted = self._state.wanted
        if wanted is None:
            return
        if wanted.role is not Role.WARM:
            self._state.update(assignment_version=wanted.version)
        elif not self._state.current.generation:  # nothing is left of the last cluster
            self._state.update(assignment_version=wanted.version, generation=wanted.generation)

    # ── warm nodes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _warm_failed(self, error: HostError) -> None:
        """The warm node is useless or could not be made. Tries again, less and less often."""
        first, last = WARM_RETRY_S
        delay_s = min(last, first * 2.0 ** min(self._warm_failures, 10))
        self._warm_failures += 1
        self._warm_after = time.monotonic() + delay_s
        asyncio.get_running_loop().call_later(delay_s, self._wake.set)
        why = self._state.death().message if isinstance(error, HostGone) else str(error)
        self._state.say(f"the node could not be prepared: {why}")
        self._state.update(warm="", warm_error=why, message="")

    def _warm_lost(self, why: str) -> None:
        """A warm node failed before a cluster took it. While it is still being made, its step fails by itself."""
        if self._state.current.warm:
            self._state.current = msgspec.structs.replace(self._state.current, warm=False)
            self._warm_failed(HostError("", why))
            self._wake.set()

    # ── what the node host says ─────────────────────────────────────────────────────────────────────────────────────────────

    def redact(self, text: str) -> str:
        return self._state.redactor.text(text)

    def host_logs(self, line: str) -> None:
        self._state.node_log.write(line)

    def host_asks(self, host: NodeHost, question: Question) -> None:
        self._calls.start(self._answer(host, question))

    async def _answer(self, host: NodeHost, question: Question) -> None:
        if question.notebook:
            read = await self._state.contexts.notebook(question, self._owner.read_notebook)
            fields: dict[str, Any] = {
                "value": read.content, "language": read.language, "error_code": read.error_code, "message": read.message
            }  # fmt: skip
        else:
            reply = await self._state.contexts.answer(question, self._owner.ask)
            fields = {"names": reply.names, "value": reply.value, "error_code": reply.error_code, "message": reply.message}
        with contextlib.suppress(HostError):  # it has ended, and the kernel with it
            await host.call("answer", timeout_s=ANSWER_S, ask=question.ask, **fields)

    async def host_asks_metastore(self, request: bytes) -> dict[str, Any]:
        state = self._state
        if state.metastore is None or not state.is_driver:
            return {"error": "this node has no metastore"}
        return await asyncio.to_thread(state.metastore.answer, request, cluster_id=state.cluster_id, host=state.host)

    def host_reports(self, changes: dict[str, Any]) -> None:
        """Takes over only what fits the node's current state."""
        state, phase = self._state, changes.get("phase")
        if state.current.stage is Stage.ENDED:
            return
        if state.current.generation == 0:
            if phase is Phase.FAILED:
                self._warm_lost((changes.get("failure") or Failure(code="", message="the node failed")).message)
            elif "message" in changes:
                state.progress(changes["message"])
            return
        if self._config.address and "master_url" in changes and master_host(changes["master_url"]) != self._config.address:
            del changes["master_url"]  # workers connect to the node in this URL: it must be this one
        late = state.current.retiring and phase in (Phase.STARTING, Phase.READY)
        if phase is not None and (phase not in _FROM_HOST or late):
            del changes["phase"]
        if changes.get("phase") is Phase.FAILED:
            failure = changes.get("failure") or Failure(code=state.death_code, message="the node failed")
            failure = explained(failure, want_of_memory=state.want_of_memory, code=state.death_code)
            self._failed(failure if failure.log_tail else msgspec.structs.replace(failure, log_tail=state.tail))
            self._give_up()
            return
        if state.status.scripts is not None and state.status.scripts.running:
            changes.pop("message", None)  # which script runs says more than what goes on beside it
        changes.pop("failure", None)
        if changes.get("cold_reason"):
            changes["warm_start"] = False
        state.update(**changes)

    def host_ended(self, host: NodeHost) -> None:
        """Unless it was asked to end, this generation is over."""
        state = self._state
        if host is not state.host or state.ending or state.current.stage is Stage.ENDED or state.status.phase is Phase.RETIRED:
            return
        if state.current.generation == 0:
            self._warm_lost(state.death().message)
            return
        self._failed(state.death())
        self._give_up()

    # ── failures ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _fail(self, error: HostError, otherwise: str) -> None:
        """Handles a step's failure. The code is the error's own, else `otherwise`, else depends on how far the node has come.

        The generation is over: its processes are ended, and its logs stay until it is released.
        """
        if self._state.current.stage is not Stage.ENDED:
            gone = isinstance(error, HostGone)
            code = (otherwise or self._state.death_code) if error.code in _PROTOCOL_CODES else error.code
            tail = error.log_tail or self._state.tail
            self._failed(self._state.death() if gone else cut_failure(code, str(error), tail))

    def _failed(self, failure: Failure) -> None:
        with contextlib.suppress(OSError):
            disk, asked = measure.disk(self._config.directory), self._config.min_free_disk
            failure = on_full_disk(failure, disk, floor=disk.floor(asked), driver=self._state.is_driver)
        self._end_generation(failure)

    def _end_generation(self, failure: Failure) -> None:
        hide = self._state.redactor.text
        failure = Failure(code=failure.code, message=hide(failure.message), log_tail=hide(failure.log_tail))
        self._state.say(f"the node failed: {failure.code}: {failure.message}")
        self._state.scripts_over(failure.message)
        self._state.advance(Stage.ENDED)
        self._state.update(phase=Phase.FAILED, failure=failure, message=failure.message, busy=False, alive_workers=())
        self._wake.set()  # `run` ends what is left of the node


async def _note_killed(host: NodeHost, why: str) -> None:
    with contextlib.suppress(HostError):  # it only explains an error
        await host.call("killed", timeout_s=ANSWER_S, why=why)
