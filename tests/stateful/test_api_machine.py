"""Random calls of the Clusters and Instance Pools APIs, while machines fail and the server is killed: the design's invariants
hold."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from brickyard.domain.node import Failure
from brickyard.domain.pools import Standing
from brickyard.providers.simulated import Knobs
from tests.stateful.workspace import LEGAL, StateLog, Workspace
from tests.support.depth import DEEP
from tests.support.postgres import Postgres

WHICH = st.integers(0, 5)
Size = tuple[int, int]  # least and most workers; the same where the size is fixed
SIZE: st.SearchStrategy[Size] = st.one_of(
    st.integers(1, 4).map(lambda number: (number, number)), st.tuples(st.integers(1, 2), st.integers(3, 4))
)
ROUNDS = st.sampled_from([0, 0, 4, 25])  # of the loops and the machines before a call: it meets a cluster on its way, or at rest
MAY = {  # the states in which a call is legal; in every other one it is INVALID_STATE
    "start": {"Terminated"},
    "restart": {"Running"},
    "resize": {"Running"},
    "edit": {"Running", "Terminated"},
    "update": {"Running", "Terminated"},
}


class Wish:
    """What has been asked for of a cluster, and granted."""

    def __init__(self, size: Size, *, pool: str, troubled: bool) -> None:
        self.runs = True
        self.size = size
        self.pool = pool  # where its nodes come from; "": from the provider
        self.token = ""
        self.pinned = False
        self.troubled = troubled  # machines failed it: the system may have ended it
        self.events = {"CREATING": 1, "STARTING": 0, "PINNED": 0, "UNPINNED": 0}


class PoolWish(NamedTuple):
    """What was asked for of a pool."""

    idle: int
    capacity: int | None
    minutes: int

    def fields(self) -> dict[str, Any]:
        """As a request has them."""
        capacity = {} if self.capacity is None else {"max_capacity": self.capacity}
        return {
            "min_idle_instances": self.idle, "idle_instance_autotermination_minutes": self.minutes, "node_type_id": "small",
            **capacity,
        }  # fmt: skip


class ApiMachine(RuleBasedStateMachine):
    """Every rule is one call, or one thing that befalls the workspace."""

    def __init__(self, database: Callable[[], str]) -> None:
        super().__init__()
        self.database = database
        self.runner = asyncio.Runner()
        self.place = tempfile.TemporaryDirectory(prefix="brickyard-stateful-")
        self.wishes: dict[str, Wish] = {}
        self.deleted: list[str] = []
        self.pools: dict[str, PoolWish] = {}
        self.pool_bounds: dict[str, int] = {}  # how many instances a pool had or might have, whichever was more, a moment ago
        self.tokens = 0
        self.bounds: dict[str, int] = {}  # how many workers a cluster had or wanted, whichever was more, a moment ago
        self.faulty = False  # machines that are made now may fail
        self.capture = structlog.testing.capture_logs()
        self.logs = self.capture.__enter__()

    @initialize()
    def boot(self) -> None:
        async def begin() -> Workspace:
            url = self.database()
            workspace = Workspace(Path(self.place.name), database_url=url)
            await workspace.boot()
            self.states = StateLog(url or f"sqlite:///{self.place.name}/brickyard.db")
            return workspace

        self.workspace = self.runner.run(begin())

    # -- calls ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.wishes) < 5)
    @rule(size=SIZE, which_pool=WHICH)
    def create(self, size: Size, which_pool: int) -> None:
        self.tokens += 1
        self._create(size, self.pool(which_pool), f"token {self.tokens}")

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH)
    def create_again(self, which: int) -> None:
        """As a client does that has heard no answer: the cluster is there already, unless it is to run no more."""
        name, wish = self.name(which), self.wish(which)
        again = self._create(wish.size, wish.pool if wish.pool in self.pools else "", wish.token)
        assert again == name or not wish.runs or wish.troubled
        if again != name:  # whether there is a new one may be a matter of time, but what can be drawn next must not be
            assert self.post("permanent-delete", cluster_id=again)[0] == 200
            del self.wishes[again]
            self.deleted.append(again)

    def _create(self, size: Size, pool: str, token: str) -> str:
        status, answer = self.post("create", **spec(size, pool), idempotency_token=token)
        assert status == 200, answer
        name: str = answer["cluster_id"]
        if name not in self.wishes:
            self.wishes[name] = Wish(size, pool=pool, troubled=self.faulty)
            self.wishes[name].token = token
            self._trouble_by_pools()
        return name

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, rounds=ROUNDS)
    def start(self, which: int, rounds: int) -> None:
        if self.asked("start", which, rounds):
            self.wish(which).runs = True
            self.wish(which).events["STARTING"] += 1

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, rounds=ROUNDS)
    def restart(self, which: int, rounds: int) -> None:
        self.asked("restart", which, rounds)

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, size=SIZE, rounds=ROUNDS)
    def resize(self, which: int, size: Size, rounds: int) -> None:
        if self.asked("resize", which, rounds, **sized(size)):
            self.wish(which).size = size

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, size=SIZE, which_pool=WHICH, rounds=ROUNDS)
    def edit(self, which: int, size: Size, which_pool: int, rounds: int) -> None:
        pool = self.pool(which_pool)
        if self.asked("edit", which, rounds, **spec(size, pool)):
            self.wish(which).size, self.wish(which).pool = size, pool
            self._trouble_by_pools()

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, size=SIZE, rounds=ROUNDS)
    def update(self, which: int, size: Size, rounds: int) -> None:
        wanted = sized(size)
        if self.asked("update", which, rounds, update_mask=",".join(wanted), cluster=wanted):
            self.wish(which).size = size

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, rounds=ROUNDS)
    def delete(self, which: int, rounds: int) -> None:
        assert self.asked("delete", which, rounds)
        self.wish(which).runs = False

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, rounds=ROUNDS)
    def permanent_delete(self, which: int, rounds: int) -> None:
        name, wish = self.name(which), self.wish(which)
        self.rounds(rounds)
        status, answer = self.post("permanent-delete", cluster_id=name)
        if wish.pinned:
            assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
            assert name in answer["message"] and "unpin" in answer["message"]
        else:
            assert status == 200, answer
            del self.wishes[name]
            self.deleted.append(name)

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, pinned=st.booleans())
    def pin_or_unpin(self, which: int, *, pinned: bool) -> None:
        assert self.asked("pin" if pinned else "unpin", which, 0)
        wish = self.wish(which)
        if wish.pinned is not pinned:
            wish.events["PINNED" if pinned else "UNPINNED"] += 1
        wish.pinned = pinned

    @precondition(lambda self: len(self.pools) < 2)
    @rule(idle=st.integers(0, 2), capacity=st.sampled_from([None, None, 3, 6]), minutes=st.sampled_from([0, 1]))
    def create_pool(self, idle: int, capacity: int | None, minutes: int) -> None:
        self.tokens += 1
        wanted = PoolWish(idle, capacity, minutes)
        name = {"instance_pool_name": f"pool {self.tokens}", "preloaded_spark_versions": ["17.3.x-scala2.13"]}
        status, answer = self.runner.run(self.workspace.pool("POST", "create", **name, **wanted.fields()))
        assert status == 200, answer
        self.pools[answer["instance_pool_id"]] = wanted

    @precondition(lambda self: self.pools)
    @rule(which=WHICH, idle=st.integers(0, 2), capacity=st.sampled_from([None, 3, 6]), minutes=st.sampled_from([0, 1]))
    def edit_pool(self, which: int, idle: int, capacity: int | None, minutes: int) -> None:
        name = list(self.pools)[which % len(self.pools)]
        wanted = PoolWish(idle, capacity, minutes)
        fields = {"instance_pool_id": name, "instance_pool_name": name, **wanted.fields()}
        status, answer = self.runner.run(self.workspace.pool("POST", "edit", **fields))
        assert status == 200, answer
        self.pools[name] = wanted
        self._trouble_by_pools()

    @precondition(lambda self: self.pools)
    @rule(which=WHICH, rounds=ROUNDS)
    def delete_pool(self, which: int, rounds: int) -> None:
        self.rounds(rounds)
        name = list(self.pools)[which % len(self.pools)]
        status, answer = self.runner.run(self.workspace.pool("POST", "delete", instance_pool_id=name))
        assert status == 200, answer
        del self.pools[name]
        self._trouble_by_pools()

    def _trouble_by_pools(self) -> None:
        """A pool with a capacity, or one that is gone, may keep a cluster from starting."""
        for wish in self.wishes.values():
            wish.troubled |= self._short(wish)

    def _short(self, wish: Wish) -> bool:
        """Whether the cluster's pool may keep it from its size now."""
        return bool(wish.pool) and (wish.pool not in self.pools or self.pools[wish.pool].capacity is not None)

    # -- what befalls it -----------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 100, 2_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.runner.run(self.workspace.pass_time(ms))

    @rule()
    def the_server_is_killed(self) -> None:
        async def again() -> None:
            await self.workspace.crash()
            await self.workspace.boot()

        self.runner.run(again())

    @rule(register_s=st.sampled_from([0.0, 0.02]), start_s=st.sampled_from([0.0, 0.02]), stop_s=st.sampled_from([0.0, 0.02]))
    def machines_are_slow(self, **seconds: float) -> None:
        self.faulty = False
        self.workspace.machines.knobs = Knobs(**seconds)  # type: ignore[arg-type] # keyword arguments of a struct

    @rule(launch_error=st.sampled_from([0.0, 0.5]), node_failure=st.sampled_from([0.0, 0.3]), few=st.booleans())
    def machines_fail(self, launch_error: float, node_failure: float, *, few: bool) -> None:
        limit = 3 if few else 1_000_000
        self.workspace.machines.knobs = Knobs(launch_error=launch_error, node_failure=node_failure, max_instances=limit)
        self.faulty = True
        self.trouble()

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH, tasks=st.integers(0, 20))
    def work_comes_and_goes(self, which: int, tasks: int) -> None:
        self.workspace.machines.set_tasks(self.name(which), tasks)

    @rule(which=st.integers(0, 20), silently=st.booleans())
    def a_machine_is_lost(self, which: int, *, silently: bool) -> None:
        machines = self.workspace.machines
        if names := sorted(machines.observe()):
            self.trouble()
            name = names[which % len(names)]
            if silently:
                machines.kill(name)
            else:
                self.runner.run(_soon(lambda: machines.fail(name, Failure(code="X", message="simulated"))))

    # -- what must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def states_change_as_the_api_says(self) -> None:
        for name, before, after in self.states.new() if hasattr(self, "states") else ():
            assert after in LEGAL[before], f"{name} went from {before} to {after}"

    @invariant()
    def nothing_failed_inside(self) -> None:
        assert not [entry for entry in self.logs if entry["log_level"] == "error"]

    @invariant()
    def no_cluster_has_more_than_it_wants(self) -> None:
        if not hasattr(self, "workspace"):
            return
        clusters, nodes = self.workspace.app.store.read_sync(
            lambda tx: (tx.clusters.many(self.wishes), tx.instances.of_clusters(self.wishes))
        )
        for name, cluster in clusters.items():
            current = [node for node in nodes[name] if node.live and node.generation == cluster.incarnation and not node.retiring]
            workers = [node for node in current if node.role.value == "worker"]
            # Fewer may be wanted since a moment ago; but nothing may have been added to what was enough then.
            scale = cluster.spec.autoscale
            most = cluster.num_workers if scale is None else scale.max_workers or 0
            assert len(workers) <= max(most, self.bounds.get(name, 0))
            assert len(current) - len(workers) <= 1
            self.bounds[name] = max(most, len(workers))

    @invariant()
    def no_pool_has_more_than_its_capacity(self) -> None:
        if not hasattr(self, "workspace"):
            return
        standings = self.workspace.app.store.read_sync(lambda tx: tx.instances.standings())
        for name, wanted in self.pools.items():
            there = sum(count for kind, count in standings.get(name, {}).items() if kind is not Standing.NONE)
            most = 1_000_000 if wanted.capacity is None else wanted.capacity
            assert there <= max(most, self.pool_bounds.get(name, 0))
            self.pool_bounds[name] = max(most, there)

    @rule()
    def all_wishes_come_true(self) -> None:
        """With machines that work again, everything that was granted comes to be; then all that is shown agrees."""
        self.faulty = False
        self.workspace.machines.knobs = Knobs()
        self.runner.run(self.workspace.settle(self._missing))
        self.runner.run(self._agree())

    async def _missing(self) -> str:
        for name, wish in self.wishes.items():
            status, found = await self.workspace.get("get", cluster_id=name)
            assert status == 200, found
            ended_by_itself = wish.troubled and found["state"] == "TERMINATED" and _failed(found)
            if wish.runs and not ended_by_itself and not _runs(found, wish, short=self._short(wish)):
                there = f"{name} is {found['state']} with {len(found.get('executors', ()))} workers, wanted {wish.size}"
                return f"{there}: {found['state_message']} {found.get('termination_reason')}"
            if not wish.runs and found["state"] != "TERMINATED":
                return f"{name} is {found['state']}, and was terminated"
        return await self._missing_in_pools() or self._left_over()

    async def _missing_in_pools(self) -> str:
        for name, wanted in self.pools.items():
            status, found = await self.workspace.pool("GET", "get", instance_pool_id=name)
            assert status == 200, found
            stats = found["stats"]
            used = stats["used_count"] + stats["pending_used_count"]
            idle = wanted.idle if wanted.capacity is None else max(0, min(wanted.idle, wanted.capacity - used))
            if stats["idle_count"] != idle:
                return f"{name} has {stats}, wanted {wanted}"
        return ""

    def _left_over(self) -> str:
        alive = {each for each, seen in self.workspace.machines.observe().items() if seen.alive}
        recorded, nodes, standings = self.workspace.app.store.read_sync(
            lambda tx: (tx.instances.states(), tx.instances.of_clusters(self.wishes), tx.instances.standings())
        )
        if left := {cluster_id for cluster_id, _ in recorded.values() if cluster_id} - self.wishes.keys():
            return f"clusters that were deleted for good still have instances: {left}"
        if left := standings.keys() - self.pools.keys() - {wish.pool for wish in self.wishes.values()}:
            return f"pools that were deleted still have instances: {left}"
        if back := [node.instance_id for each in nodes.values() for node in each if node.releasing_ms]:
            return f"{back} are on their way back to their pools"
        return "" if alive == recorded.keys() else f"on record are {sorted(recorded)}, and there are {sorted(alive)}"

    async def _agree(self) -> None:
        """What changes while it is compared, or has only just begun to, is compared again once it has settled. (That nothing was
        committed meanwhile proves no rest: an instance that nobody wants ends without a commit.)"""
        for _ in range(20):
            try:
                await self._compare()
            except AssertionError as error:
                differs = error
                await self.workspace.settle(self._missing)
            else:
                return
        raise AssertionError("it does not come to rest") from differs

    async def _compare(self) -> None:
        _, listed = await self.workspace.get("list", version="2.0")
        shown = {item["cluster_id"]: item for item in listed["clusters"]}
        assert shown.keys() == self.wishes.keys()
        assert await self._pages() == list(shown)
        owned: list[str] = []
        for name, wish in self.wishes.items():
            _, found = await self.workspace.get("get", cluster_id=name)
            request, wanted = found.pop("spec"), sized(wish.size)
            for shown_size in (request, found):
                assert {key: value for key, value in shown_size.items() if key in ("num_workers", "autoscale")} == wanted
            assert found == shown[name]
            wish.runs = found["state"] in ("RUNNING", "RESIZING")  # what the system has ended stays so until it is started
            assert not wish.runs or "driver" in found, found  # it may be lost, and its loss not have been dealt with
            owned += [node["instance_id"] for node in (*found.get("executors", ()), *([found["driver"]] if wish.runs else []))]
            await self._check_events(name, wish)
        assert len(owned) == len(set(owned)), "an instance is in two clusters"
        recorded = self.workspace.app.store.read_sync(lambda tx: tx.instances.states())
        assert self.workspace.machines.observe().keys() == recorded.keys()
        in_clusters = {instance_id for instance_id, (cluster_id, _) in recorded.items() if cluster_id}
        growing = any(self._short(wish) for wish in self.wishes.values())  # a cluster that is short goes on trying
        assert set(owned) <= in_clusters if growing else set(owned) == in_clusters
        for name in self.deleted:
            assert (await self.workspace.get("get", cluster_id=name))[0] == 400
        pinned = await self.workspace.get("list", **{"filter_by.is_pinned": "true"})
        assert {item["cluster_id"] for item in pinned[1]["clusters"]} == {
            name for name, wish in self.wishes.items() if wish.pinned
        }

    async def _pages(self) -> list[str]:
        names: list[str] = []
        token = ""
        while True:
            _, page = await self.workspace.get("list", page_size=2, page_token=token)
            names += [item["cluster_id"] for item in page["clusters"]]
            if not (token := page.get("next_page_token", "")):
                return names

    async def _check_events(self, name: str, wish: Wish) -> None:
        _, whole = await self.workspace.post("events", cluster_id=name, order="ASC", limit=500)
        events = whole["events"]
        assert whole["total_count"] == len(events)
        assert events[0]["type"] == "CREATING"
        times = [event["timestamp"] for event in events]
        assert times == sorted(times)
        kinds = [event["type"] for event in events]
        assert {kind: kinds.count(kind) for kind in wish.events} == wish.events
        paged: list[Any] = []
        asked: dict[str, Any] | None = {"cluster_id": name, "page_size": 7}
        while asked:
            _, page = await self.workspace.post("events", **asked)
            paged += page["events"]
            asked = page.get("next_page")
        assert paged[-len(events) :] == events[::-1]  # newer ones may have come meanwhile

    def teardown(self) -> None:
        try:
            if hasattr(self, "workspace"):
                self.all_wishes_come_true()
                self.states_change_as_the_api_says()
                self.nothing_failed_inside()
        finally:
            if hasattr(self, "states"):
                self.states.close()
            if hasattr(self, "workspace"):
                self.runner.run(self.workspace.crash())
            self.runner.close()
            self.capture.__exit__(None, None, None)
            self.place.cleanup()

    # -- helpers -------------------------------------------------------------------------------------------------------

    def post(self, verb: str, **body: Any) -> tuple[int, Any]:
        return self.runner.run(self.workspace.post(verb, **body))

    def asked(self, verb: str, which: int, rounds: int, **body: Any) -> bool:
        """Whether the call was granted. If not, the state that its error names is one in which it is not legal."""
        self.rounds(rounds)
        status, answer = self.post(verb, cluster_id=self.name(which), **body)
        if status == 200:
            return True
        pool = self.wish(which).pool
        if verb == "update" and pool and pool not in self.pools:  # what results would be on a pool that is gone
            assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), answer
            assert pool in answer["message"]
            return False
        assert (status, answer["error_code"]) == (400, "INVALID_STATE"), answer
        named = re.search(r"is in unexpected state (\w+)\.", answer["message"])
        assert named is not None, answer
        assert named[1] not in MAY[verb], answer
        return False

    def rounds(self, number: int) -> None:
        async def some() -> None:
            for _ in range(number):
                await self.workspace.pass_time(100)

        self.runner.run(some())

    def pool(self, which: int) -> str:
        """One of the pools or, as often as one of them, none."""
        return ["", *self.pools][which % (len(self.pools) + 1)]

    def name(self, which: int) -> str:
        return list(self.wishes)[which % len(self.wishes)]

    def wish(self, which: int) -> Wish:
        return self.wishes[self.name(which)]

    def trouble(self) -> None:
        for wish in self.wishes.values():
            wish.troubled = True


def sized(size: Size) -> dict[str, Any]:
    least, most = size
    return {"num_workers": least} if least == most else {"autoscale": {"min_workers": least, "max_workers": most}}


def spec(size: Size, pool: str) -> dict[str, Any]:
    return sized(size) | {
        "cluster_name": "c",
        "spark_version": "17.3.x-scala2.13",
        **({"instance_pool_id": pool} if pool else {"node_type_id": "small"}),
        "autotermination_minutes": 0,
    }


def _runs(found: dict[str, Any], wish: Wish, *, short: bool) -> bool:
    least, most = wish.size
    workers = len(found.get("executors", ()))
    if short:
        return found["state"] in ("RUNNING", "RESIZING") and workers <= most
    return found["state"] == "RUNNING" and least <= workers <= most


def _failed(found: dict[str, Any]) -> bool:
    return found["termination_reason"]["type"] != "SUCCESS" and bool(found["state_message"])


async def _soon(what: Any) -> None:
    what()


@pytest.mark.parametrize(("backend", "examples"), [("sqlite", 60 if DEEP else 6), ("postgresql", 20 if DEEP else 3)])
def test_random_calls(request: pytest.FixtureRequest, backend: str, examples: int) -> None:
    def database() -> str:
        server: Postgres | None = request.getfixturevalue("postgres") if backend == "postgresql" else None
        return server.new_database(template=server.migrated) if server is not None else ""

    class Machine(ApiMachine):
        def __init__(self) -> None:
            super().__init__(database)

    chosen = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],  # a failure depends on timing, so that making it smaller leads astray
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Machine, settings=chosen)
