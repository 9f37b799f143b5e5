"""The simulated world: thousands of instances with their agents on one event loop, and knobs for failures.

It implements the provider interface. Its agents (`agents.py`) call what `server` returns: the server of their own process
(`provider.py`), or servers over HTTP if the world is a separate process (`process.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from brickyard.domain import nodeops
from brickyard.domain.decoding import converter
from brickyard.domain.node import Failure
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import AgentApi, CapacityError, InvalidError, LaunchRequest, Observed, TransientError
from brickyard.providers.simulated.agents import SimulatedAgent
from brickyard.providers.simulated.kernels import SimulatedKernels
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.logs import SimulatedLogs
from brickyard.storage.directory import Storage

_to_open_port = converter(nodeops.OpenPortOf)


class Outside(Protocol):
    """How agents and servers reach each other."""

    def server_of(self, request: LaunchRequest) -> AgentApi:
        """What an agent calls."""
        ...

    def endpoint_of(self, instance_id: str) -> str:
        """The address at which servers call an instance's agent."""
        ...


class World:
    """Call `begin` on the event loop that its agents are to run on. Safe to call from several threads."""

    def __init__(
        self,
        *,
        outside: Outside,
        knobs: Knobs | None = None,
        storage: Storage | None = None,
    ) -> None:
        """`storage`: for logs."""
        self.knobs = knobs or Knobs()
        self.outside = outside
        self._random = random.Random(self.knobs.seed)  # noqa: S311 - reproducible failures, not secrets
        self._lock = threading.Lock()
        self._agents: dict[str, SimulatedAgent] = {}
        self._ended: set[str] = set()
        self._seen: dict[str, Observed] = {}  # what is to be listed of each agent
        self._listing: Mapping[str, Observed] | None = None  # what was listed last, while that is true
        self._loop: asyncio.AbstractEventLoop | None = None
        self.masters: dict[str, set[str]] = {}  # cluster id -> addresses of the workers that registered
        self.kernels = SimulatedKernels(self)
        self.logs = SimulatedLogs(storage, self)
        self.tasks: dict[str, tuple[int, int]] = {}  # cluster id -> (tasks to run, tasks that one worker runs at once)
        self.drivers: dict[str, SimulatedAgent] = {}  # cluster id -> its current or last driver

    def begin(self) -> None:
        """Runs agents on the current event loop."""
        self._loop = asyncio.get_running_loop()

    def turn(self, knobs: Knobs) -> None:
        """Applies these knobs from now on."""
        retimes = knobs.sample_s != self.knobs.sample_s
        self.knobs = knobs
        self.relist()
        if retimes and self._loop is not None:
            self._loop.call_soon_threadsafe(self._retime)

    def _retime(self) -> None:
        for agent in list(self._agents.values()):
            agent.retime()

    # -- the provider contract -----------------------------------------------------------------------------------------

    def shortage(self, wanted: Sequence[NodeType], *, freed: Collection[str] = ()) -> CapacityError | None:
        """See Provider.shortage."""
        with self._lock:
            left = max(self.knobs.max_instances - len(self._agents.keys() - set(freed)), 0)
        if len(wanted) > left:
            asked, there = f"{len(wanted)} instances", f"{left} instances"
            return CapacityError(
                f"{asked} were asked for and {left} are left of {self.knobs.max_instances}", asked=asked, left=there
            )
        full = [each.node_type_id for each in wanted if each.node_type_id in self.knobs.full_types]
        if full:
            return CapacityError(f"there are no instances of {full[0]} now", asked="1 instance", left="0 instances")
        return None

    def launch(self, request: LaunchRequest) -> None:
        if self._loop is None:
            raise TransientError("the simulated provider is not attached to a server yet")
        with self._lock:
            if request.instance_id in self._ended:
                raise InvalidError(f"{request.instance_id} was terminated")
            if request.instance_id in self._agents:
                return
            if self._chance(self.knobs.launch_error):
                raise TransientError("simulated launch failure")
            if len(self._agents) >= self.knobs.max_instances:
                left = max(self.knobs.max_instances - len(self._agents), 0)
                raise CapacityError(
                    f"1 instance of {request.node_type.node_type_id} was asked for and {left} are left of "
                    f"{self.knobs.max_instances}",
                    asked="1 instance",
                    left=f"{left} instances",
                )
            self._check_kind(request)
            agent = SimulatedAgent(request, world=self, server=self.outside.server_of(request))
            self._agents[request.instance_id] = agent
            self._see(request.instance_id, agent)
        self._loop.call_soon_threadsafe(agent.start)

    def _check_kind(self, request: LaunchRequest) -> None:
        name = request.node_type.node_type_id
        if request.spot:  # counted only for those: with thousands of instances, counting is the slowest part of a launch
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
            if self._listing is None:
                self._listing = dict(self._seen)
            return self._listing

    def relist(self, instance_id: str = "") -> None:
        """What is listed of that instance has changed, or of any."""
        with self._lock:
            for each in (instance_id,) if instance_id else self._agents:
                if (agent := self._agents.get(each)) is not None:
                    self._see(each, agent)

    def _see(self, instance_id: str, agent: SimulatedAgent) -> None:
        """Call with the lock held."""
        message = "" if agent.called else self.knobs.waits_for
        self._seen[instance_id] = Observed(instance_id=instance_id, alive=agent.alive, message=message)
        self._listing = None

    def end(self) -> None:
        """Removes all instances at once."""
        with self._lock:
            agents = dict(self._agents)
            self._agents.clear()
            self._seen.clear()
            self._listing = None
        for instance_id, agent in agents.items():
            self._cancel(agent)
            self.logs.end(instance_id)

    # -- failures to inject --------------------------------------------------------------------------------------------

    def kill(self, instance_id: str) -> None:
        """Removes the machine without notice."""
        self.logs.end(instance_id, killed=True)
        self.gone(instance_id)

    def fail(self, instance_id: str, failure: Failure) -> None:
        """Makes the node report a failure."""
        self._agents[instance_id].fail(failure)

    def set_activity(self, instance_id: str, *, busy: bool, last_activity_ms: int) -> None:
        """Sets what the driver reports about its work."""
        agent = self._agents[instance_id]
        if self._loop is not None:
            self._loop.call_soon_threadsafe(partial(agent.set_activity, busy=busy, last_activity_ms=last_activity_ms))

    def set_tasks(self, cluster_id: str, tasks: int, *, slots: int = 4) -> None:
        """Gives a running cluster that many tasks; each worker runs `slots` at once. They run until the number is lowered."""
        self.tasks[cluster_id] = (tasks, slots)
        if (driver := self.driver_of(cluster_id)) is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(driver.load_changed)

    # -- for the agents ------------------------------------------------------------------------------------------------

    def agent(self, instance_id: str) -> SimulatedAgent | None:
        """That instance's agent, if the instance exists."""
        return self._agents.get(instance_id)

    def pause(self, seconds: float) -> Awaitable[None]:
        with self._lock:
            spread = 1.0 + self.knobs.jitter * (2 * self._random.random() - 1)
        return asyncio.sleep(seconds * spread)

    def chance(self, probability: float) -> bool:
        with self._lock:
            return self._chance(probability)

    def gone(self, instance_id: str) -> None:
        """Forgets an instance, which no longer exists."""
        with self._lock:
            agent = self._agents.pop(instance_id, None)
            self._seen.pop(instance_id, None)
            self._ended.add(instance_id)
            self._listing = None
        self.kernels.forget(instance_id)
        self.logs.end(instance_id)
        if agent is not None:
            self._cancel(agent)

    def _cancel(self, agent: SimulatedAgent) -> None:
        """From any thread: its tasks are those of the event loop. One that is over has no tasks left."""
        agent.alive = False
        assert self._loop is not None  # noqa: S101 - `launch` needs it
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(agent.cancel)

    def driver_of(self, cluster_id: str) -> SimulatedAgent | None:
        driver = self.drivers.get(cluster_id)
        return driver if driver is not None and driver.drives(cluster_id) else None

    def call(self, instance_id: str, method: str, target: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request from a server to an instance's agent; `target` is a path with its query. Raises KernelRefused."""
        answer = self.logs.call(instance_id, method, target)
        if answer is not None:
            return answer
        if target == nodeops.PORT_OPEN.path and self.knobs.own_ports:
            return self.kernels.open_port(instance_id, _to_open_port(body))
        users = self.kernels.users(instance_id)
        answer = self.kernels.call(instance_id, method, target, body)
        agent = self.agent(instance_id)
        if agent is not None and self._loop is not None and self.kernels.users(instance_id) != users:
            self._loop.call_soon_threadsafe(agent.users_changed)
        return answer

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability
