"""Simulated agents: servers see them behave like real ones, but they compute nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from brickyard.domain.libraries import LibraryInstallStatus, LibraryReport
from brickyard.domain.node import (
    REPORT_S,
    Assignment,
    AssignmentReply,
    Failure,
    Load,
    NodeStatus,
    Phase,
    Poll,
    Role,
    StatusReport,
    WorkerLoad,
)
from brickyard.domain.samples import NodeSamples
from brickyard.domain.scripts import ScriptResult, ScriptsReport, ScriptStatus
from brickyard.providers.base import AgentApi, LaunchRequest
from brickyard.providers.simulated.samples import simulated_packed, simulated_samples
from brickyard.providers.simulated.servers import ServerChanged
from brickyard.providers.simulated.wanted import Wanted, installed

if TYPE_CHECKING:
    from brickyard.providers.simulated.world import World

_Samples = TypeVar("_Samples")
POLL_S, MOST_POLL_S = 20.0, 50.0  # while the server wants many reports, and few
BUSY_LOOK_S = 0.05
MOST_SAMPLES = 20  # in one report
_NEW = NodeStatus(isolation="none: simulated", limits="none: simulated", host="127.0.0.1")


class SimulatedAgent:
    """Behaves like a real agent towards the server: reports changes, polls for its assignment, follows it. There are thousands in
    one process, so each keeps no more than it must."""

    __slots__ = (
        "_assignment", "_doing", "_heard", "_installing", "_instance_id", "_living", "_report_s", "_said", "_sampled_s",
        "_server", "_speakers", "_speaking", "_status", "_timer", "_warm", "_world", "alive", "called", "server_token", "spot",
    )  # fmt: skip

    def __init__(self, request: LaunchRequest, *, world: World, server: AgentApi) -> None:
        self.spot = request.spot
        self.server_token = request.server_token
        self._instance_id = request.instance_id
        self._world = world
        self._server = server
        self._living: asyncio.Task[None] | None = None
        self._doing: set[asyncio.Future[None]] | None = None  # besides; referenced here so that they are not garbage-collected
        self._status = _NEW
        self._assignment: Wanted | None = None
        self._warm = False  # whether the runtime of the current generation was prepared before
        self._speaking: asyncio.Lock | None = None  # while it speaks
        self._speakers = 0  # those that speak, or wait for their turn
        self._said = self._heard = 0  # how often the status has changed, and up to which change a server knows it
        self._installing: asyncio.Lock | None = None
        self._report_s = REPORT_S  # how long the server lets us wait with samples
        self._sampled_s = 0.0  # until when samples have been sent (time.time())
        self._timer: asyncio.TimerHandle | None = None  # of the next report with samples
        self.alive = True
        self.called = False  # home

    def start(self) -> None:
        self._living = asyncio.ensure_future(self._live())
        self.retime()

    def stop(self) -> None:
        """Begins to end; the instance is gone after `stop_s`."""
        if self.alive:
            self.alive = False
            self._world.relist(self._instance_id)
            self._background(self._end())

    def cancel(self) -> None:
        self.alive = False
        self._world.relist(self._instance_id)
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._living, *(self._doing or ())):
            if task is not None:
                task.cancel()

    def drives(self, cluster_id: str) -> bool:
        current = self._assignment
        return (
            self.alive and current is not None and current.role in (Role.DRIVER, Role.SINGLE) and current.cluster_id == cluster_id
        )

    def hang(self, since_ms: int) -> None:
        self._background(self._say(silent_since_ms=since_ms))

    def fail(self, failure: Failure) -> None:
        self._background(self._say(phase=Phase.FAILED, failure=failure))

    def set_activity(self, *, busy: bool, last_activity_ms: int) -> None:
        self._background(self._say(busy=busy, last_activity_ms=last_activity_ms))

    def users_changed(self) -> None:
        self._background(self._say(users=self._world.kernels.users(self._instance_id)))

    def load_changed(self) -> None:
        self._background(self._say(load=self._load()))

    async def workers_changed(self, alive: set[str]) -> None:
        await self._say(alive_workers=tuple(sorted(alive)), load=self._load())

    def _load(self) -> Load | None:
        """The cluster's tasks, assigned to its workers in order."""
        if self._assignment is None or self._assignment.role is not Role.DRIVER:
            return None
        cluster_id, now = self._assignment.cluster_id, time.time_ns() // 1_000_000
        left, slots = self._world.tasks.get(cluster_id, (0, 1))
        before = self._status.load or Load()
        idle = {worker.address: worker.idle_since_ms for worker in before.workers}
        workers = []
        for address in sorted(self._world.masters.get(cluster_id, ())):
            running = min(left, slots)
            left -= running
            since = 0 if running else idle.get(address) or now
            workers.append(WorkerLoad(address=address, slots=slots, running=running, idle_since_ms=since, held_mb=0))
        since = (before.backlog_since_ms or now) if left else 0
        return Load(pending=left, backlog_since_ms=since, workers=tuple(workers))

    async def _live(self) -> None:
        await self._world.pause(self._world.knobs.register_s)
        if self._world.chance(self._world.knobs.never_registers):
            return
        await self._say()
        self.called = True
        self._world.relist(self._instance_id)
        have = 0
        while self.alive:
            try:
                reply = await self._poll(have)
            except ServerChanged:
                await self._say()
                continue
            if not reply.known:
                self.stop()
                return
            sooner, self._report_s = reply.report_s < self._report_s, reply.report_s
            if reply.unheard:
                await self._say()
            if sooner:
                self._tick()
            if reply.assignment is not None and reply.assignment.version != have:
                have, wanted = reply.assignment.version, reply.assignment
                await self._follow(wanted)
                if wanted.closing and not self._status.told_ms:
                    self._background(self._close(wanted.generation))
                del wanted
            del reply  # or it would be kept during the next poll

    def _poll(self, have: int) -> Awaitable[AssignmentReply]:
        """While the server wants few reports, the poll brings the samples, as a real agent's."""
        if self._report_s <= REPORT_S:
            return self._server.assignment(self._instance_id, have, POLL_S, same=True)
        wait_s = min(self._between_samples_s or self._report_s, MOST_POLL_S)
        return self._server.poll(
            Poll(instance_id=self._instance_id, have=have, wait=wait_s, samples=self._samples(simulated_packed))
        )

    async def _follow(self, wanted: Assignment) -> None:
        before, self._assignment = self._assignment, Wanted.of(wanted)
        fresh = before is None or before.generation != wanted.generation
        if fresh:
            self._warm = self._status.warm == wanted.runtime and wanted.role is not Role.WARM
            self._world.kernels.renew(self._instance_id, wanted.generation)
            self._world.logs.begin(self._instance_id, wanted)
            self._status = msgspec.structs.replace(_NEW, warm_start=self._warm)
            if wanted.role in (Role.DRIVER, Role.SINGLE):
                self._world.masters[wanted.cluster_id] = set()
                self._world.drivers[wanted.cluster_id] = self
        self._status = msgspec.structs.replace(self._status, assignment_version=wanted.version, generation=wanted.generation)
        if wanted.libraries:
            self._background(self._install(wanted))
        if fresh and wanted.refusal is not None:
            await self._say(phase=Phase.FAILED, failure=wanted.refusal)
        elif wanted.role is Role.WARM:
            if fresh:
                self._background(self._prepare(wanted, self._assignment))
        elif wanted.retiring:
            await self._leave(wanted)
        elif self._status.phase is Phase.FAILED or not await self._ran_scripts(wanted):
            if self._status.phase is Phase.IDLE:
                await self._say(phase=Phase.PREPARING)
        elif wanted.role is not Role.WORKER and fresh:
            await self._become_driver(wanted)
        elif wanted.role is Role.WORKER and wanted.master_url and self._status.phase is not Phase.READY:
            await self._become_worker(wanted)
        elif fresh:
            await self._say(phase=Phase.PREPARING)

    async def _prepare(self, wanted: Assignment, own: Wanted) -> None:
        """`own`: what the agent follows now. Once it follows something else, as when a cluster takes it, nothing more is said."""
        if self._assignment is not own:
            return
        if not wanted.runtime:
            await self._say(phase=Phase.READY)
            return
        await self._say(phase=Phase.PREPARING)
        await self._world.pause(self._world.knobs.prepare_s)
        if not self.alive or self._assignment is not own:
            return  # a cluster took it before it was warm
        if self._world.chance(self._world.knobs.prepare_error):
            failure = Failure(code="BOOTSTRAP_TIMEOUT", message="simulated failure of the preparation")
            await self._say(phase=Phase.FAILED, failure=failure)
        else:
            await self._say(phase=Phase.READY, warm=wanted.runtime)

    async def _ran_scripts(self, wanted: Assignment) -> bool:
        """Runs the init scripts, once. Returns False if one failed, or a worker does not know its driver yet."""
        scripts, results = wanted.init_scripts, list[ScriptResult]()
        if not scripts or self._status.scripts is not None:
            return self._status.phase is not Phase.FAILED
        if wanted.role is Role.WORKER and not wanted.driver_host:
            return False
        await self._say(phase=Phase.PREPARING, scripts=ScriptsReport(running=True))
        for number, script in enumerate(scripts):
            await self._world.pause(self._world.knobs.script_s)
            if script.name == self._world.knobs.failing_script:
                results.append(ScriptResult(status=ScriptStatus.FAILED_EXECUTION, message="exit code 1. Last lines: simulated"))
                results += [ScriptResult(status=ScriptStatus.NOT_EXECUTED)] * (len(scripts) - number - 1)
                text = f"init script {number + 1} of {len(scripts)}, {script.address}, failed: exit code 1"
                failure = Failure(code=script.failure, message=text, log_tail="simulated")
                await self._say(phase=Phase.FAILED, failure=failure, scripts=ScriptsReport(results=tuple(results)))
                return False
            results.append(ScriptResult(status=ScriptStatus.SUCCEEDED))
        await self._say(scripts=ScriptsReport(results=tuple(results)))
        return True

    async def _install(self, wanted: Assignment) -> None:
        """Installs the libraries that it has not, one after the other."""
        if self._installing is None:
            self._installing = asyncio.Lock()
        async with self._installing:
            for library, revision in wanted.wanted_libraries:
                if self._assignment is None or self._assignment.generation != wanted.generation:
                    return
                if any((each.library, each.revision) == (library, revision) for each in self._status.libraries):
                    continue
                await self._report_library(
                    LibraryReport(library=library, status=LibraryInstallStatus.INSTALLING, revision=revision)
                )
                await self._world.pause(self._world.knobs.library_s)
                report = installed(library, bad=self._world.knobs.bad_libraries)
                await self._report_library(msgspec.structs.replace(report, revision=revision))

    async def _report_library(self, report: LibraryReport) -> None:
        others = tuple(each for each in self._status.libraries if each.library != report.library)
        await self._say(libraries=(*others, report))

    async def _become_driver(self, wanted: Assignment) -> None:
        await self._say(phase=Phase.STARTING, master_url=f"spark://{self._instance_id}:7077")
        if await self._came_up("DRIVER_UNEXPECTED_FAILURE"):
            workers = self._world.masters.setdefault(wanted.cluster_id, set())
            delivered = self._world.logs.deliver(self._instance_id)
            await self._say(
                phase=Phase.READY, alive_workers=tuple(sorted(workers)), load=self._load(), log_delivery=delivered
            )  # fmt: skip

    async def _become_worker(self, wanted: Assignment) -> None:
        if not await self._came_up("WORKER_SETUP_FAILURE"):
            return
        address = f"{self._instance_id}:7078"
        await self._say(phase=Phase.READY, worker_address=address)
        workers = self._world.masters.setdefault(wanted.cluster_id, set())
        workers.add(address)
        await self._tell_driver(wanted.cluster_id, workers)

    async def _leave(self, wanted: Assignment) -> None:
        await self._say(phase=Phase.RETIRING)
        workers = self._world.masters.setdefault(wanted.cluster_id, set())
        workers.discard(self._status.worker_address)
        await self._tell_driver(wanted.cluster_id, workers)
        await self._say(phase=Phase.RETIRED)

    async def _close(self, generation: int) -> None:
        """Lets finish what runs, and says when nothing does any more."""
        await self._say(told_ms=time.time_ns() // 1_000_000)
        while self._status.busy or self._world.kernels.busy(self._instance_id):  # noqa: ASYNC110 - results come with time
            await asyncio.sleep(BUSY_LOOK_S)
        if self.alive and self._assignment is not None and self._assignment.generation == generation:
            await self._say(quiet_ms=time.time_ns() // 1_000_000)

    async def _tell_driver(self, cluster_id: str, workers: set[str]) -> None:
        driver = self._world.driver_of(cluster_id)
        if driver is not None:
            await driver.workers_changed(workers)

    async def _came_up(self, code: str) -> bool:
        knobs = self._world.knobs
        await self._world.pause(knobs.warm_start_s if self._warm else knobs.start_s)
        if self._world.chance(self._world.knobs.node_failure):
            await self._say(phase=Phase.FAILED, failure=Failure(code=code, message="simulated node failure"))
            return False
        return True

    async def _say(self, **changes: object) -> None:
        """Returns once a server knows it. A report that waits for its turn tells of all changes until then, as a real agent's."""
        if changes:
            self._status = msgspec.structs.replace(self._status, **changes)
        self._said += 1
        said = self._said
        async with self._turn():  # one report at a time, always with the current status
            if self._heard < said:
                await self._report()

    async def _sample(self, samples: NodeSamples) -> None:
        async with self._turn():
            await self._report(samples)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        self._speakers += 1
        try:
            if self._speaking is None:
                self._speaking = asyncio.Lock()
            async with self._speaking:
                yield
        finally:
            self._speakers -= 1
            if not self._speakers:
                self._speaking = None

    async def _report(self, samples: NodeSamples | None = None) -> None:
        said = self._said
        reply = await self._server.report(
            StatusReport(
                instance_id=self._instance_id,
                boot_id="simulated",
                endpoint=self._world.outside.endpoint_of(self._instance_id),
                pid=1,
                status=self._status,
                samples=samples,
            )
        )
        self._heard = said
        self._report_s = reply.report_s
        if not reply.known:
            self.stop()

    def retime(self) -> None:
        """The time between samples may have changed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._between_samples_s and self.alive and self._report_s <= REPORT_S:
            self._timer = asyncio.get_running_loop().call_later(self._between_samples_s, self._tick)

    @property
    def _between_samples_s(self) -> float:
        """Between two times that samples are sent; 0: none are."""
        return self._world.knobs.sample_s * self._report_s / REPORT_S

    def _tick(self) -> None:
        """Reports the samples since the last time."""
        self.retime()
        if self._timer is not None and (samples := self._samples(simulated_samples)) is not None:
            self._background(self._sample(samples))

    def _samples(self, made: Callable[..., _Samples]) -> _Samples | None:
        """Those of a working node since the last time, with made-up numbers, which say so."""
        every_s, wanted, now = self._world.knobs.sample_s, self._assignment, time.time()
        if not every_s or wanted is None or wanted.role is Role.WARM or self._status.phase is not Phase.READY:
            self._sampled_s = now
            return None
        count = min(max(1, round((now - self._sampled_s) / every_s)), MOST_SAMPLES)
        self._sampled_s = now
        return made(self._instance_id, wanted, self._load(), now_s=now, every_s=every_s, count=count)

    async def _end(self) -> None:
        await self._world.pause(self._world.knobs.stop_s)
        self._world.gone(self._instance_id)

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        if self._doing is None:
            self._doing = set()
        self._doing.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        if self._doing is not None:
            self._doing.discard(task)
            self._doing = self._doing or None
