"""A simulated provider with simulated agents: thousands of instances in one process, and knobs for failures.

It keeps the provider contract and speaks the agent protocol with `AgentService` directly, so everything above it (plan,
loops, store, API) is the real thing; only machines and Spark are not there. `brickyard up --provider simulated` runs on it.
It never claims to compute: contexts and commands are refused.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.node import (
    Assignment,
    AssignmentReply,
    Failure,
    Load,
    NodeStatus,
    Phase,
    Role,
    StatusReport,
    WorkerLoad,
)
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import (
    CapacityError,
    Home,
    InvalidError,
    LaunchRequest,
    Observed,
    Provider,
    TransientError,
)
from brickyard.providers.simulated import knobsfile
from brickyard.providers.simulated.client import DOMAIN, SimulatedAgentClient
from brickyard.providers.simulated.kernels import SimulatedKernels
from brickyard.providers.simulated.knobsfile import Knobs


class SimulatedProvider(Provider):
    """Make it, then `attach(home)` on the event loop that its agents shall run on."""

    name = "simulated"
    ends_with_server = True
    where = "nowhere"

    def __init__(
        self,
        *,
        node_types: Sequence[NodeType],
        knobs: Knobs | None = None,
        knobs_file: Path | None = None,
        spot_market: bool = False,
    ) -> None:
        self.spot_market = spot_market
        self._node_types = tuple(node_types)
        self.knobs = knobs or Knobs()
        self._knobs_file = knobs_file
        self._random = random.Random(self.knobs.seed)  # noqa: S311 - reproducible failures, not secrets
        self._lock = threading.Lock()
        self._agents: dict[str, SimulatedAgent] = {}
        self._ended: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home: Home | None = None
        self.masters: dict[str, set[str]] = {}  # cluster id -> addresses of the workers that registered
        self.kernels = SimulatedKernels()
        self.tasks: dict[str, tuple[int, int]] = {}  # cluster id -> (tasks to run, tasks that one worker runs at once)
        self.drivers: dict[str, SimulatedAgent] = {}  # cluster id -> the node that drives it, or did

    def attach(self, home: Home) -> None:
        """Run agents on the current event loop, calling `home`. Those that lived through a server's end call the new one."""
        self._loop = asyncio.get_running_loop()
        self._home = home
        with self._lock:
            agents = list(self._agents.values())
        for agent in agents:
            agent.home_moved()

    def agent_client(self) -> SimulatedAgentClient:
        return SimulatedAgentClient(self.kernels, self.observe)

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        path = self._knobs_file
        return {"simulated_knobs": lambda: knobsfile.follow(path, self._turn)} if path is not None else {}

    def _turn(self, knobs: Knobs) -> None:
        self.knobs = knobs

    # -- the provider contract -----------------------------------------------------------------------------------------

    def node_types(self) -> Sequence[NodeType]:
        return self._node_types

    def launch(self, request: LaunchRequest) -> None:
        if self._loop is None or self._home is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        with self._lock:
            if request.instance_id in self._ended:
                raise InvalidError(f"{request.instance_id} was terminated")
            if request.instance_id in self._agents:
                return
            if self._chance(self.knobs.launch_error):
                raise TransientError("simulated launch failure")
            if len(self._agents) >= self.knobs.max_instances:
                left = self.knobs.max_instances - len(self._agents)
                raise CapacityError(
                    f"1 instance of {request.node_type.node_type_id} was asked for and {left} are left of "
                    f"{self.knobs.max_instances}",
                    asked="1 instance",
                    left=f"{left} instances",
                )
            self._check_kind(request)
            agent = SimulatedAgent(request.instance_id, provider=self, spot=request.spot)
            self._agents[request.instance_id] = agent
        self._loop.call_soon_threadsafe(agent.start)

    def _check_kind(self, request: LaunchRequest) -> None:
        name = request.node_type.node_type_id
        if request.spot:  # counted for those only: with thousands of instances it takes longer than all the rest of a launch
            spot = sum(1 for agent in self._agents.values() if agent.spot)
            if spot >= self.knobs.max_spot:
                raise CapacityError(f"no spot instance of {name} is left of {spot}", asked="1 instance", left="0 instances")
        if name in self.knobs.full_types:
            raise CapacityError(f"there are no instances of {name} now", asked="1 instance", left="0 instances")

    def terminate(self, instance_id: str, *, reason: str) -> None:
        del reason
        with self._lock:
            agent = self._agents.get(instance_id)
            if agent is not None:
                self._ended.add(instance_id)
        if agent is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(agent.stop)

    def observe(self) -> Mapping[str, Observed]:
        with self._lock:
            return {key: Observed(instance_id=key, alive=agent.alive) for key, agent in self._agents.items()}

    def close(self, *, keep_nodes: bool) -> None:
        """Simulated nodes live in this process: they end with it whatever was asked."""
        del keep_nodes
        with self._lock:
            agents = list(self._agents.values())
            self._agents.clear()
        for agent in agents:
            agent.cancel()

    # -- changes to play -----------------------------------------------------------------------------------------------

    def offer(self, node_types: Sequence[NodeType]) -> None:
        """Have these node types from now on, and no others."""
        self._node_types = tuple(node_types)

    # -- failures to inject --------------------------------------------------------------------------------------------

    def kill(self, instance_id: str) -> None:
        """The machine goes away without a word."""
        self.gone(instance_id)

    def fail(self, instance_id: str, failure: Failure) -> None:
        """The node reports a failure."""
        self._agents[instance_id].fail(failure)

    def set_activity(self, instance_id: str, *, busy: bool, last_activity_ms: int) -> None:
        """What the driver says about work on it."""
        self._agents[instance_id].set_activity(busy=busy, last_activity_ms=last_activity_ms)

    def set_tasks(self, cluster_id: str, tasks: int, *, slots: int = 4) -> None:
        """Give a running cluster so many tasks, of which each worker runs `slots` at once. They run until there are fewer."""
        self.tasks[cluster_id] = (tasks, slots)
        if (driver := self.driver_of(cluster_id)) is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(driver.load_changed)

    # -- for the agents ------------------------------------------------------------------------------------------------

    @property
    def home(self) -> Home:
        """The server that agents call now."""
        if self._home is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        return self._home

    def pause(self, seconds: float) -> Awaitable[None]:
        with self._lock:
            spread = 1.0 + self.knobs.jitter * (2 * self._random.random() - 1)
        return asyncio.sleep(seconds * spread)

    def chance(self, probability: float) -> bool:
        with self._lock:
            return self._chance(probability)

    def gone(self, instance_id: str) -> None:
        """Forget an instance: it no longer exists."""
        with self._lock:
            agent = self._agents.pop(instance_id, None)
            self._ended.add(instance_id)
        self.kernels.forget(instance_id)
        if agent is not None:
            agent.cancel()

    def driver_of(self, cluster_id: str) -> SimulatedAgent | None:
        driver = self.drivers.get(cluster_id)
        return driver if driver is not None and driver.drives(cluster_id) else None

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability


class SimulatedAgent:
    """Behaves towards the server as a real agent does: reports changes, polls for its assignment, follows it."""

    def __init__(self, instance_id: str, *, provider: SimulatedProvider, spot: bool = False) -> None:
        self._instance_id = instance_id
        self.spot = spot
        self._provider = provider
        self._task: asyncio.Task[None] | None = None
        self._status = NodeStatus(isolation="none: simulated", limits="none: simulated", host="127.0.0.1")
        self._assignment: Assignment | None = None
        self._warm = False  # the runtime of the present generation was prepared before
        self._speaking = asyncio.Lock()
        self._poll: asyncio.Task[AssignmentReply] | None = None
        self.alive = True

    def start(self) -> None:
        self._task = asyncio.create_task(self._live())

    def stop(self) -> None:
        """Begin to end; the instance is gone after `stop_s`."""
        if self.alive:
            self.alive = False
            self._background(self._end())

    def cancel(self) -> None:
        self.alive = False
        if self._task is not None:
            self._task.cancel()

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

    def load_changed(self) -> None:
        self._background(self._say(load=self._load()))

    async def workers_changed(self, alive: set[str]) -> None:
        await self._say(alive_workers=tuple(sorted(alive)), load=self._load())

    def _load(self) -> Load | None:
        """The cluster's tasks, on its workers one after the other."""
        if self._assignment is None or self._assignment.role is not Role.DRIVER:
            return None
        cluster_id, now = self._assignment.cluster_id, time.time_ns() // 1_000_000
        left, slots = self._provider.tasks.get(cluster_id, (0, 1))
        before = self._status.load or Load()
        idle = {worker.address: worker.idle_since_ms for worker in before.workers}
        workers = []
        for address in sorted(self._provider.masters.get(cluster_id, ())):
            running = min(left, slots)
            left -= running
            since = 0 if running else idle.get(address) or now
            workers.append(WorkerLoad(address=address, slots=slots, running=running, idle_since_ms=since, held_mb=0))
        since = (before.backlog_since_ms or now) if left else 0
        return Load(pending=left, backlog_since_ms=since, workers=tuple(workers))

    async def _live(self) -> None:
        await self._provider.pause(self._provider.knobs.register_s)
        if self._provider.chance(self._provider.knobs.never_registers):
            return
        await self._say()
        have = 0
        while self.alive:
            reply = await self._polled(have)
            if reply is None:
                await self._say()  # a new server: tell it what this node is
                continue
            if not reply.known:
                self.stop()
                return
            if reply.assignment is not None and reply.assignment.version != have:
                have = reply.assignment.version
                await self._follow(reply.assignment)

    async def _polled(self, have: int) -> AssignmentReply | None:
        """The assignment, or None when the server went away meanwhile."""
        poll = self._poll = asyncio.ensure_future(self._provider.home.assignment(self._instance_id, have, 30.0))
        try:
            return await poll
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # this agent ends
            return None

    def home_moved(self) -> None:
        """The server that was asked is no more: ask the new one."""
        if self._poll is not None:
            self._poll.cancel()

    async def _follow(self, wanted: Assignment) -> None:
        before, self._assignment = self._assignment, wanted
        fresh = before is None or before.generation != wanted.generation
        if fresh:
            self._warm = self._status.warm == wanted.runtime and wanted.role is not Role.WARM
            self._provider.kernels.renew(self._instance_id, wanted.generation)
            self._status = NodeStatus(isolation=self._status.isolation, limits=self._status.limits, host="127.0.0.1")
            self._status = msgspec.structs.replace(self._status, warm_start=self._warm)
            if wanted.role in (Role.DRIVER, Role.SINGLE):
                self._provider.masters[wanted.cluster_id] = set()
                self._provider.drivers[wanted.cluster_id] = self
        self._status = msgspec.structs.replace(self._status, assignment_version=wanted.version, generation=wanted.generation)
        if wanted.role is Role.WARM:
            if fresh:
                self._background(self._prepare(wanted))
        elif wanted.retiring:
            await self._leave(wanted)
        elif wanted.role is not Role.WORKER and fresh:
            await self._become_driver(wanted)
        elif wanted.role is Role.WORKER and wanted.master_url and self._status.phase is not Phase.READY:
            await self._become_worker(wanted)
        elif fresh:
            await self._say(phase=Phase.PREPARING)

    async def _prepare(self, wanted: Assignment) -> None:
        if not wanted.runtime:
            await self._say(phase=Phase.READY)
            return
        await self._say(phase=Phase.PREPARING)
        await self._provider.pause(self._provider.knobs.prepare_s)
        if not self.alive or self._assignment is not wanted:
            return  # it was taken before it was warm
        if self._provider.chance(self._provider.knobs.prepare_error):
            failure = Failure(code="BOOTSTRAP_TIMEOUT", message="simulated failure of the preparation")
            await self._say(phase=Phase.FAILED, failure=failure)
        else:
            await self._say(phase=Phase.READY, warm=wanted.runtime)

    async def _become_driver(self, wanted: Assignment) -> None:
        await self._say(phase=Phase.STARTING, master_url=f"spark://{self._instance_id}:7077")
        if await self._came_up("DRIVER_UNEXPECTED_FAILURE"):
            workers = self._provider.masters.setdefault(wanted.cluster_id, set())
            await self._say(phase=Phase.READY, alive_workers=tuple(sorted(workers)), load=self._load())

    async def _become_worker(self, wanted: Assignment) -> None:
        if not await self._came_up("WORKER_SETUP_FAILURE"):
            return
        address = f"{self._instance_id}:7078"
        await self._say(phase=Phase.READY, worker_address=address)
        workers = self._provider.masters.setdefault(wanted.cluster_id, set())
        workers.add(address)
        await self._tell_driver(wanted.cluster_id, workers)

    async def _leave(self, wanted: Assignment) -> None:
        await self._say(phase=Phase.RETIRING)
        workers = self._provider.masters.setdefault(wanted.cluster_id, set())
        workers.discard(self._status.worker_address)
        await self._tell_driver(wanted.cluster_id, workers)
        await self._say(phase=Phase.RETIRED)

    async def _tell_driver(self, cluster_id: str, workers: set[str]) -> None:
        driver = self._provider.driver_of(cluster_id)
        if driver is not None:
            await driver.workers_changed(workers)

    async def _came_up(self, code: str) -> bool:
        knobs = self._provider.knobs
        await self._provider.pause(knobs.warm_start_s if self._warm else knobs.start_s)
        if self._provider.chance(self._provider.knobs.node_failure):
            await self._say(phase=Phase.FAILED, failure=Failure(code=code, message="simulated node failure"))
            return False
        return True

    async def _say(self, **changes: object) -> None:
        self._status = msgspec.structs.replace(self._status, **changes)
        async with self._speaking:  # one report at a time, always of what is so now
            reply = await self._provider.home.report(
                StatusReport(
                    instance_id=self._instance_id,
                    boot_id="simulated",
                    endpoint=f"http://{self._instance_id}{DOMAIN}",
                    pid=1,
                    status=self._status,
                )
            )
        if not reply.known:
            self.stop()

    async def _end(self) -> None:
        await self._provider.pause(self._provider.knobs.stop_s)
        self._provider.gone(self._instance_id)

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        _keep.add(task)
        task.add_done_callback(_keep.discard)


_keep: set[asyncio.Future[None]] = set()  # tasks that nobody awaits, kept from the collector while they run
