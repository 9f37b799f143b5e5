"""Random steps of three servers whose database fails before and after any statement: nothing is lost, doubled or orphaned."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from brickyard.domain.cluster import public_state
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.domain.pools import CreateInstancePool, EditInstancePool, InstancePoolId
from brickyard.domain.requests import ClusterId, CreateCluster, ResizeCluster, RestartCluster, StartCluster
from brickyard.domain.run import RunResultState
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.domain.tasks import SparkPythonTask, SubmitRun, SubmitTask, TaskDependency
from brickyard.features.runs.model import RunId
from brickyard.testing.builders import SPARK_4
from tests.reconcile.anyorder import ADMIN
from tests.stateful.faultystore import KINDS
from tests.stateful.threeservers import World
from tests.support.depth import DEEP

STEPS = 10_000 if DEEP else 700
SEEDS = (1, 2)
MOST = 5  # clusters, pools and runs at a time: else the steps would spread too thin
SPEC: dict[str, Any] = {"spark_version": SPARK_4.key, "node_type_id": "small", "autotermination_minutes": 0}


class Ledger:
    """What clients have asked for, and what they were told. A request that failed by the database may have been done or not."""

    def __init__(self) -> None:
        self.clusters: dict[str, list[str]] = {}  # name -> ids that were answered
        self.unknown: Counter[str] = Counter()  # name -> creates without an answer
        self.tokens: dict[str, str] = {}  # name -> its idempotency token, if it has one
        self.last: dict[str, tuple[str, bool]] = {}  # cluster id -> the last request for it, and whether it was answered
        self.pools: dict[str, list[str]] = {}
        self.unknown_pools: Counter[str] = Counter()
        self.pools_gone: set[str] = set()
        self.runs: dict[str, SubmitRun] = {}  # by their tokens
        self.answered: dict[str, int] = {}  # token -> run id


class Clients:
    """Everybody who calls the workspace. Each method is one request, to any server."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger()
        self._count = 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    async def create(self) -> None:
        ledger, choice = self.ledger, self.world.random
        if len(self._clusters()) >= MOST:
            return
        name = self._name("c")
        if choice.random() < 0.5:
            ledger.tokens[name] = f"token-{name}"
        ledger.clusters[name] = []
        pools = self._pools()
        sizes: dict[str, Any] = {"num_workers": choice.choice([1, 1, 2, 5])}
        if choice.random() < 0.4 and pools:
            sizes |= {"instance_pool_id": choice.choice(pools), "node_type_id": None}
        await self._create(name, {**SPEC, **sizes})

    async def _create(self, name: str, fields: dict[str, Any]) -> None:
        token = self.ledger.tokens.get(name)
        request = CreateCluster(cluster_name=name, idempotency_token=token, **fields)
        try:
            made = await self.world.server.clusters.create(ADMIN, request)
        except DatabaseTrouble:
            self.ledger.unknown[name] += 1
            return
        except ApiError:
            return  # its pool is gone
        if made not in self.ledger.clusters[name]:
            self.ledger.clusters[name].append(made)

    async def create_again(self) -> None:
        """What a client does that got no answer, and has given a token."""
        waiting = [name for name in self.ledger.tokens if not self.ledger.clusters[name] and self.ledger.unknown[name]]
        if waiting:
            await self._create(self.world.random.choice(waiting), {**SPEC, "num_workers": 1})

    async def change(self) -> None:
        """A request about a cluster."""
        if not (known := self._clusters()):
            return
        choice = self.world.random
        cluster_id, clusters = choice.choice(known), self.world.server.clusters
        requests: dict[str, Callable[[], Awaitable[None]]] = {
            "delete": lambda: clusters.delete(ADMIN, ClusterId(cluster_id=cluster_id)),
            "start": lambda: clusters.start(ADMIN, StartCluster(cluster_id=cluster_id)),
            "restart": lambda: clusters.restart(ADMIN, RestartCluster(cluster_id=cluster_id)),
            "resize": lambda: clusters.resize(ADMIN, ResizeCluster(cluster_id=cluster_id, num_workers=choice.randint(1, 4))),
            "permanent_delete": lambda: clusters.permanent_delete(ADMIN, ClusterId(cluster_id=cluster_id)),
        }
        verb = choice.choices(list(requests), weights=[3, 5, 2, 3, 2])[0]
        with contextlib.suppress(ApiError):
            answered = False
            try:
                await requests[verb]()
                answered = True
            except DatabaseTrouble:
                pass
            self.ledger.last[cluster_id] = (verb, answered)

    async def change_pool(self) -> None:
        """A request about a pool, which may be for a new one."""
        choice, ledger, pools = self.world.random, self.ledger, self.world.server.pools
        known = self._pools()
        if len(known) < 2:
            name = self._name("p")
            ledger.pools[name] = []
            try:
                fields: dict[str, Any] = {"min_idle_instances": choice.randint(0, 2), "max_capacity": choice.choice([None, 4])}
                made = await pools.create(ADMIN, CreateInstancePool(instance_pool_name=name, node_type_id="small", **fields))
                ledger.pools[name].append(made)
            except DatabaseTrouble:
                ledger.unknown_pools[name] += 1
            return
        pool_id = choice.choice(known)
        name = next(name for name, ids in ledger.pools.items() if pool_id in ids)
        with contextlib.suppress(ApiError):
            if choice.random() < 0.3:
                ledger.pools_gone.add(pool_id)  # perhaps
                await pools.delete(ADMIN, InstancePoolId(instance_pool_id=pool_id))
            else:
                edit = EditInstancePool(
                    instance_pool_id=pool_id,
                    instance_pool_name=name,
                    node_type_id="small",
                    min_idle_instances=choice.randint(0, 3),
                )
                await pools.edit(ADMIN, edit)

    async def submit(self) -> None:
        """A run of some tasks, or one that got no answer once more."""
        choice, ledger = self.world.random, self.ledger
        waiting = [token for token in ledger.runs if token not in ledger.answered]
        if not waiting or (len(waiting) < MOST and choice.random() < 0.5):
            token = self._name("r")
            ledger.runs[token] = self._run(token)
        else:
            token = choice.choice(waiting)
        with contextlib.suppress(ApiError):
            ledger.answered[token] = await self.world.server.runs.submit(ADMIN, ledger.runs[token])

    def _run(self, token: str) -> SubmitRun:
        choice, known = self.world.random, self._clusters()
        new = ClusterSpec(spark_version=SPARK_4.key, node_type_id="small", num_workers=1)
        on = choice.choice(known) if known and choice.random() < 0.7 else None
        tasks: list[SubmitTask] = []
        for number in range(choice.randint(1, 3)):
            key = f"{choice.choice('ssf')}{number}"
            needs = [TaskDependency(task_key=tasks[-1].task_key)] if tasks and choice.random() < 0.5 else None
            tasks.append(
                SubmitTask(
                    task_key=key,
                    spark_python_task=SparkPythonTask(python_file="dbfs:/x.py"),
                    existing_cluster_id=on,
                    new_cluster=None if on else new,
                    depends_on=needs,
                    max_retries=choice.choice([None, 1]),
                )
            )
        return SubmitRun(run_name=token, tasks=tasks, idempotency_token=token)

    async def cancel(self) -> None:
        if self.ledger.answered:
            run_id = self.world.random.choice(sorted(self.ledger.answered.values()))
            with contextlib.suppress(ApiError):
                await self.world.server.runs.cancel(ADMIN, RunId(run_id=run_id))

    def _clusters(self) -> list[str]:
        """Those that were answered and not deleted for good."""
        last = self.ledger.last
        return [
            each for ids in self.ledger.clusters.values() for each in ids if last.get(each, ("", False))[0] != "permanent_delete"
        ]

    def _pools(self) -> list[str]:
        return [each for ids in self.ledger.pools.values() for each in ids if each not in self.ledger.pools_gone]


class Play:
    """The steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clients = Clients(world)

    async def step(self) -> None:
        world, choice, clients = self.world, self.world.random, self.clients
        steps: list[tuple[int, Callable[[], Awaitable[Any]]]] = [
            (26, self._work),
            (18, self._call),
            (18, lambda: world.report(choice.sample(sorted(world.machines.exists), min(3, len(world.machines.exists))))),
            (8, self._look),
            (3, clients.create),
            (1, clients.create_again),
            (5, clients.change),
            (2, clients.change_pool),
            (4, clients.submit),
            (1, clients.cancel),
            (1, self._kill),
            (1, self._vanish),
            (4, self._wait),
        ]
        if choice.random() < 0.35:
            world.faults.arm(choice.randint(1, 30), after=choice.random() < 0.5, kind=choice.choice(KINDS))
        try:
            await choice.choices([each for _, each in steps], weights=[weight for weight, _ in steps])[0]()
        finally:
            world.faults.disarm()
        world.clock.advance(ms=choice.randint(1, 400))

    async def _work(self) -> None:
        await self.world.server.work()

    async def _call(self) -> None:
        waiting = [each for each in self.world.servers if each.waits]
        if waiting:
            await self.world.random.choice(waiting).make_a_call()

    async def _look(self) -> None:
        with contextlib.suppress(DatabaseTrouble):
            await self.world.servers[0].monitor.run_once()

    async def _kill(self) -> None:
        self.world.faults.disarm()
        self.world.kill()
        await self.world.server.take_over(self.world.gone)

    async def _vanish(self) -> None:
        if self.world.machines.exists:
            self.world.machines.exists.discard(self.world.random.choice(sorted(self.world.machines.exists)))

    async def _wait(self) -> None:
        self.world.clock.advance(ms=self.world.random.choice([1_000, 5_000, 20_000]))

    # -- the end ---------------------------------------------------------------------------------------------------------

    async def heal(self) -> None:
        """Nothing fails any more. Clients that got no answer ask again, and everything comes to rest."""
        world, ledger = self.world, self.clients.ledger
        world.faulty = False
        for token, request in ledger.runs.items():
            with contextlib.suppress(ApiError):  # its cluster may be gone
                ledger.answered[token] = await world.server.runs.submit(ADMIN, request)
        for _ in range(400):
            await self._everything()
            if not (left := self._unsettled()):
                return
        raise AssertionError(f"it never comes to rest: {left}")

    async def _everything(self) -> None:
        world = self.world
        for server in world.servers:
            await server.work(most=50)
            while server.waits:
                await server.make_a_call()
        for _ in range(2):
            await world.report(sorted(world.machines.exists))
        await world.servers[0].monitor.run_once()
        world.clock.advance(seconds=5)

    def _unsettled(self) -> list[str]:
        clusters, instances, runs = self.world.rows()
        left = [f"run {run.run_id}" for run in runs if not run.ended_ms]
        left += [f"cluster {each.cluster_id}" for each in clusters if public_state(each) not in (State.RUNNING, State.TERMINATED)]
        left += [f"deleted {each.cluster_id}" for each in clusters if each.deleted_ms]
        left += [f"instance {each.instance_id}" for each in instances if not each.live or each.releasing_ms]
        left += [f"orphan {name}" for name in self.world.machines.exists - {each.instance_id for each in instances}]
        return left

    def check(self) -> None:
        """Nothing is lost, doubled or orphaned."""
        clusters, instances, runs = self.world.rows()
        ledger, executed = self.clients.ledger, self.world.drivers.executed
        by_name = Counter(each.spec.cluster_name for each in clusters)
        ids = {each.cluster_id: each for each in clusters}
        used = {task.spec.existing_cluster_id for run in runs for task in run.tasks}
        for name, answered in ledger.clusters.items():
            token = name in ledger.tokens
            assert by_name[name] <= (1 if token else len(answered) + ledger.unknown[name]), f"{name} is there twice"
            for cluster_id in answered:
                verb, was_answered = ledger.last.get(cluster_id, ("", True))
                if verb != "permanent_delete":
                    assert cluster_id in ids, f"{cluster_id} is lost"
                elif was_answered:
                    assert cluster_id not in ids, f"{cluster_id} was deleted, and is there"
                if verb == "delete" and was_answered and cluster_id not in used:  # a run starts the cluster that it needs
                    assert public_state(ids[cluster_id]) is State.TERMINATED, f"{cluster_id} was terminated, and is not"
        assert len({run.idempotency_token for run in runs}) == len(runs), "a run is there twice"
        assert {run.run_id for run in runs} == set(ledger.answered.values()), "a run is lost, or nobody's"
        self._check_machines(ids.keys(), {each.instance_id: each for each in instances})
        attempts = {each.task_run_id: each for run in runs for task in run.tasks for each in task.attempts}
        twice = [each for each, count in executed.items() if count > 1]
        assert not twice, f"attempts were executed twice: {twice}"
        unasked = executed.keys() - attempts.keys()
        assert not unasked, f"attempts were executed that nobody knows of: {unasked}"
        claimed = {name for name, each in attempts.items() if each.result is RunResultState.SUCCESS}
        assert claimed <= executed.keys(), "a task is said to have succeeded, and was never executed"
        outputs = self.world.clean.read_sync(lambda tx: {name: tx.runs.output(name) for name in claimed})
        assert all(each is not None and each.logs == str(name) for name, each in outputs.items()), "an output is lost"

    def _check_machines(self, cluster_ids: Any, instances: dict[str, Any]) -> None:
        world = self.world
        assert {name for name, each in instances.items() if each.live} == world.machines.exists, "an orphan, or a lost instance"
        owners = Counter(each.cluster_id for each in instances.values() if each.cluster_id)
        assert owners.keys() <= set(cluster_ids), "nodes of a cluster that is gone"
        clusters, _, runs = world.rows()
        for each in clusters:
            wanted = each.num_workers + 1 if public_state(each) is State.RUNNING else 0
            if each.grow_failures and 1 <= owners[each.cluster_id] < wanted:
                continue  # its pool is full or gone
            assert owners[each.cluster_id] == wanted, f"{each.cluster_id} has {owners[each.cluster_id]} nodes of {wanted}"
        pools = self.world.clean.read_sync(lambda tx: {each.instance_pool_id: each for each in tx.pools.active()})
        of_pools = Counter(each.pool_id for each in instances.values() if each.pool_id and not each.cluster_id)
        assert of_pools.keys() <= pools.keys(), "idle instances of a pool that is gone"
        for pool_id, pool in pools.items():
            if pool.spec.max_capacity is None and not pool.failures:
                assert of_pools[pool_id] >= pool.min_idle, f"{pool_id} is not filled"
        jobs = {attempt.cluster_id for run in runs for task in run.tasks for attempt in task.attempts if task.cluster is not None}
        assert not [each for each in clusters if each.cluster_id in jobs and public_state(each) is not State.TERMINATED]
        for name, ids in self.clients.ledger.pools.items():
            for pool_id in ids:
                assert pool_id in pools or pool_id in self.clients.ledger.pools_gone, f"pool {name} is lost"


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_doubled_or_orphaned(tmp_path: Path, seed: int) -> None:
    (tmp_path / "dbfs").mkdir()
    (tmp_path / "dbfs" / "x.py").write_text("1")
    world = World(tmp_path, seed)
    try:
        play = Play(world)
        for _ in range(STEPS // len(SEEDS)):
            await play.step()
        await play.heal()
        play.check()
        assert world.faults.raised > STEPS // len(SEEDS) // 20
        assert world.drivers.executed
    finally:
        world.close()
