"""Three servers of one workspace, their machines and their clients, moved by hand, one step after the other, in simulated time.

Services, loops' passes, monitor and store are the real ones. Provider, agents and drivers are played here: they do what they are
asked, at the moment that the test chooses, and write down what they did. Any statement of a step may fail (`faultystore.py`), and
a server may be killed between any two steps, with all that it had in memory.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from brickyard.access import Authorizer
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, LaunchError
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.node import Assignment, NodeStatus, Phase, Role, StatusReport
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.run import Conclusion, Output, Run, RunResultState, TerminationCode
from brickyard.features.notifications.service import Receivers
from brickyard.features.pools.service import PoolService
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.service import RunService
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.nodes.loads import Loads
from brickyard.nodes.reports import record_report
from brickyard.plan.policy import Policy
from brickyard.providers.base import LaunchRequest, Observed, Provider
from brickyard.providers.fleet import Providers
from brickyard.reconcile.aside import Aside
from brickyard.reconcile.clusters import ClusterLoop
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.launches import OwnerContext, ProviderCalls, record_launch, take_over_launches
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.pools import PoolLoop
from brickyard.reconcile.runpass import Call, ChildCall
from brickyard.reconcile.runs import Ended, NodeSilent, RunLoop
from brickyard.store.sharing import Always
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from brickyard.testing.clock import ManualClock
from tests.reconcile.runworld import EveryRight
from tests.stateful.faultystore import Faults
from tests.support.databases import empty_sqlite
from tests.support.members import SetMembers
from tests.support.quietagents import QuietAgents
from tests.support.services import cluster_service

POLICY = Policy(nodes_per_pass=3, max_nodes=6)
SIZES = {SMALL.node_type_id: SMALL}


class SeededIds(Ids):
    """The same ids for the same steps."""

    def __init__(self, seed: int) -> None:
        self._random = self  # type: ignore[assignment] # it gives bytes, like the kernel's
        self._numbers = random.Random(seed)  # noqa: S311 - the same each time

    def take(self, count: int) -> bytes:
        return self._numbers.randbytes(count)

    def hex(self, digits: int = 32) -> str:
        return self.take((digits + 1) // 2).hex()[:digits]


class Machines(Provider):
    """The provider: what exists, whoever asked for it."""

    name = "played"

    def __init__(self) -> None:
        self.exists: set[str] = set()
        self.refuses: dict[str, str] = {}  # instances whose launch is refused, and how

    def node_types(self) -> Sequence[NodeType]:
        return [SMALL]

    def launch(self, request: LaunchRequest) -> None:
        raise NotImplementedError  # `Server.launch` plays it

    def terminate(self, instance_id: str, *, reason: str) -> None:
        del reason
        self.exists.discard(instance_id)

    def observe(self) -> Mapping[str, Observed]:
        return {name: Observed(instance_id=name, alive=True) for name in sorted(self.exists)}


_Place = tuple[str, int, int]  # a driver, its generation, and an attempt


class Drivers:
    """The drivers' side of runs, with the fence that a node has: what is over there does not begin again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.executed: Counter[int] = Counter()  # how often each attempt was begun, by its id
        self._running: dict[_Place, int] = {}  # since when
        self._over: set[_Place] = set()

    async def begin(self, call: Call) -> Ended | None:
        key = self._reach(call)
        if key in self._over:
            raise NodeSilent
        if key not in self._running:
            self._running[key] = self._world.clock.now_ms()
            self.executed[call.attempt.task_run_id] += 1
        self._maybe_silent()
        return None

    async def look(self, call: Call) -> Ended | None:
        key = self._reach(call)
        if key not in self._running:
            return _ended(call, RunResultState.FAILED, TerminationCode.DRIVER_ERROR)
        if self._world.clock.now_ms() < self._running[key] + 200:
            return None
        if call.task.spec.task_key.startswith("f"):
            return _ended(call, RunResultState.FAILED, TerminationCode.RUN_EXECUTION_ERROR)
        return _ended(call, RunResultState.SUCCESS, TerminationCode.SUCCESS)

    async def stop(self, call: Call) -> Output | None:
        return _printed(call) if self._reach(call) in self._running else None

    async def end(self, call: Call) -> None:
        key = self._reach(call)
        self._over.add(key)
        self._running.pop(key, None)
        self._maybe_silent()

    def _reach(self, call: Call) -> _Place:
        """Raises NodeSilent if nobody is there to answer, or the call is lost on its way."""
        self._maybe_silent()
        driver, wanted = call.driver.instance_id, call.driver.assignment
        status = self._world.statuses.get(driver)
        if driver not in self._world.machines.exists or status is None or wanted is None:
            raise NodeSilent
        if status.generation != wanted.generation:
            raise NodeSilent  # a node of another start: nothing of that one is left
        return driver, wanted.generation, call.attempt.task_run_id

    def _maybe_silent(self) -> None:
        if self._world.faulty and self._world.random.random() < 0.1:
            raise NodeSilent


def _ended(call: Call, result: RunResultState, code: TerminationCode) -> Ended:
    return Ended(conclusion=Conclusion(result, code, "done"), output=_printed(call))


def _printed(call: Call) -> Output:
    return Output(logs=str(call.attempt.task_run_id))


class PlayedRuns(RunLoop):
    """Its calls to drivers wait until the test lets one be made."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.waiting: dict[int, Callable[[], Coroutine[None, None, None]]] = {}

    def _begin(self, call: Call | ChildCall, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self.waiting.setdefault(call.attempt.task_run_id, work)  # at most one for each attempt

    async def make(self, attempt: int) -> None:
        work = self.waiting.pop(attempt)
        with contextlib.suppress(NodeSilent, DatabaseTrouble):
            await work()


class Server:
    """One server process."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self._world = world
        self.store = store = Store.open(world.url, sharing=Always(alone=False))
        clock, ids = world.clock, world.ids
        self.launches: list[Instance] = []  # provider calls that wait until the test lets one be made
        self.endings: list[Instance] = []
        members = SetMembers(number=number)
        launches: Any = self  # it plays them
        given = OwnerContext(store, clock, clock, ids, POLICY, Catalogue(world.machines.node_types), launches, members)
        measures = ClusterMeasures(registry=CollectorRegistry())
        self.pools_loop = PoolLoop(given)
        self.clusters_loop = ClusterLoop(
            given,
            agents=QuietAgents(),
            loads=Loads(),
            measures=measures,
            wake_pool=_nothing,
            sweeper=None,
        )
        self.runs_loop = PlayedRuns(
            store=store, clock=clock, ids=ids, nodes=world.drivers, rights=EveryRight(), wake_cluster=_nothing
        )
        self.monitor = InstanceMonitor(
            store=store,
            providers=Providers(world.machines),
            agents=QuietAgents(),
            wake=_nothing,
            monotonic=lambda: clock.now_ms() / 1000,
        )
        self.clusters = cluster_service(store, clock=clock, ids=ids)
        self.pools = PoolService(
            store=store, clock=clock, ids=ids, offers=self.clusters.offers, authorizer=Authorizer(), wake=_nothing
        )
        files = TaskFiles(dbfs=world.place / "dbfs", machine=world.place / "machine")
        specify = self.clusters.commands.specify
        self.runs = RunService(
            store=store,
            clock=clock,
            authorizer=Authorizer(),
            maker=RunMaker(
                clock=clock,
                ids=ids,
                authorizer=Authorizer(),
                specify=specify,
                files=files,
                receivers=Receivers(mails=False),
            ),
            wake=_nothing,
        )

    def begin(self, calls: ProviderCalls, sizes: Mapping[str, NodeType]) -> None:
        """What `Launches` does, later."""
        del sizes
        self.launches += calls.launch
        self.endings += calls.terminate

    @property
    def waits(self) -> bool:
        """Whether there are calls to make."""
        return bool(self.launches or self.endings or self.runs_loop.waiting)

    async def make_a_call(self) -> None:
        """One of the calls that wait, to the provider or to a driver, and the record of its answer."""
        choice = self._world.random
        kinds = [each for each in (self.launches, self.endings, self.runs_loop.waiting) if each]
        kind = choice.choice(kinds)
        if kind is self.runs_loop.waiting:
            await self.runs_loop.make(choice.choice(sorted(self.runs_loop.waiting)))
        elif kind is self.endings:
            self._world.machines.terminate(self.endings.pop(choice.randrange(len(self.endings))).instance_id, reason="released")
        else:
            await self._launch(self.launches.pop(choice.randrange(len(self.launches))))

    async def _launch(self, instance: Instance) -> None:
        world, error = self._world, None
        if world.faulty and world.random.random() < 0.15:
            kind = world.random.choice(["CapacityError", "TransientError", "ThrottledError"])
            error = LaunchError(kind=kind, message="refused")
        else:
            world.machines.exists.add(instance.instance_id)
        now = world.clock.now_ms()
        with contextlib.suppress(DatabaseTrouble):
            await self.store.write(lambda tx: record_launch(tx, instance.instance_id, error, now=now), background=True)

    async def record(self, report: StatusReport) -> None:
        """What `AgentService` does."""
        now = self._world.clock.now_ms()
        await self.store.write(lambda tx: record_report(tx, report, now=now))

    async def work(self, *, most: int = 4) -> int:
        """Passes over what one of the loops finds due. Returns how many."""
        done = 0
        loops: list[Any] = [self.clusters_loop, self.pools_loop, self.runs_loop]
        self._world.random.shuffle(loops)
        for loop in loops:
            with contextlib.suppress(DatabaseTrouble):
                for key in await loop._due(most, patient=False):
                    done += 1
                    with contextlib.suppress(DatabaseTrouble):
                        await loop.work(key, timed=False)
        return done

    async def take_over(self, gone: Collection[int]) -> None:
        with contextlib.suppress(DatabaseTrouble):
            await take_over_launches(self.store, lambda number: number in gone, Aside("takeover"))

    def close(self) -> None:
        self.monitor._calls.shutdown(wait=True)
        self.monitor._asks.shutdown(wait=True)
        self.store.close()


class World:
    """The workspace. `faulty`: the provider, drivers and the database fail now and then."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)  # noqa: S311 - the same steps each time
        self.ids = SeededIds(seed)
        self.clock = ManualClock()
        self.faults = Faults()
        self.faulty = True
        self.machines = Machines()
        self.statuses: dict[str, NodeStatus] = {}  # what each agent says
        self.drivers = Drivers(self)
        (place / "dbfs").mkdir(exist_ok=True)
        self.url = empty_sqlite(place / "test.db")
        self._numbers = 0
        self.gone: set[int] = set()
        self.servers = [self._server() for _ in range(3)]
        self.clean = Store.open(self.url)  # for looking on

    def _server(self) -> Server:
        self._numbers += 1
        with self.faults.installed():
            made = Server(self, self._numbers)
            made.store.read_sync(lambda tx: None)
            made.store.write_sync(lambda tx: None)
        return made

    @property
    def server(self) -> Server:
        return self.random.choice(self.servers)

    def kill(self) -> None:
        """A server dies with what it had in memory, and another one begins."""
        dead = self.servers.pop(self.random.randrange(len(self.servers)))
        self.gone.add(dead.number)
        dead.close()
        self.servers.append(self._server())

    def close(self) -> None:
        for each in self.servers:
            each.close()
        self.clean.close()

    # -- looking on ----------------------------------------------------------------------------------------------------

    def rows(self) -> tuple[list[Cluster], list[Instance], list[Run]]:
        """All clusters, instances and runs on record."""

        def look(tx: Any) -> tuple[list[Cluster], list[Instance], list[Run]]:
            clusters = [found for each in _all(tx, "SELECT cluster_id FROM clusters") if (found := tx.clusters.get(each))]
            runs = [found for each in _all(tx, "SELECT run_id FROM runs") if (found := tx.runs.get(each))]
            return clusters, tx.instances.many(_all(tx, "SELECT instance_id FROM instances")), runs

        return self.clean.read_sync(look)

    # -- agents --------------------------------------------------------------------------------------------------------

    async def report(self, instance_ids: Iterable[str]) -> None:
        """Those agents do the next thing that their assignments ask for, and say so to some server."""
        rows = {row.instance_id: row for row in self.clean.read_sync(lambda tx: tx.instances.many(instance_ids))}
        for name in sorted(rows.keys() & self.machines.exists):
            row = rows[name]
            if row.assignment is None:
                continue
            status = self.statuses[name] = self._next(row, self.statuses.get(name, NodeStatus()), row.assignment)
            report = StatusReport(instance_id=name, boot_id="b", endpoint="http://x", pid=1, status=status)
            with contextlib.suppress(DatabaseTrouble):
                await self.server.record(report)

    def _next(self, row: Instance, status: NodeStatus, wanted: Assignment) -> NodeStatus:
        if status.generation != wanted.generation:
            status = NodeStatus(phase=Phase.PREPARING, generation=wanted.generation)
        elif wanted.retiring:
            following = {Phase.READY: Phase.RETIRING, Phase.RETIRING: Phase.RETIRED}
            status = msgspec.structs.replace(status, phase=following.get(status.phase, Phase.RETIRED))
        elif wanted.role is Role.WARM:
            pass
        elif wanted.role is Role.WORKER:
            if wanted.master_url:
                address = f"{row.instance_id}/{wanted.generation}:7078"
                status = msgspec.structs.replace(status, phase=Phase.READY, worker_address=address)
        else:
            there = [each for key, each in self.statuses.items() if key in self.machines.exists]
            ready = [each.worker_address for each in there if each.phase is Phase.READY and each.worker_address]
            status = msgspec.structs.replace(
                status,
                phase=Phase.READY,
                master_url=f"spark://{row.instance_id}:7077",
                alive_workers=tuple(sorted(ready)),
            )
        return msgspec.structs.replace(status, assignment_version=wanted.version)


def _all(tx: Any, sql: str) -> list[Any]:
    return [row[0] for row in tx.instances._connection.exec_driver_sql(sql)]


def _nothing(_key: Any) -> None:
    pass
