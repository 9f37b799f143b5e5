"""Random calls of the Clusters API, while machines fail and the server is killed: the design's invariants hold."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from brickyard.domain.states import State
from brickyard.testing.simulated import Knobs
from tests.stateful.workspace import LEGAL, Workspace, watch_states
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

    def __init__(self, size: Size, *, troubled: bool) -> None:
        self.runs = True
        self.size = size
        self.token = ""
        self.pinned = False
        self.troubled = troubled  # machines failed it: the system may have ended it
        self.events = {"CREATING": 1, "STARTING": 0, "PINNED": 0, "UNPINNED": 0}


class ApiMachine(RuleBasedStateMachine):
    """Every rule is one call, or one thing that befalls the workspace."""

    def __init__(self, database: Callable[[], str]) -> None:
        super().__init__()
        self.database = database
        self.runner = asyncio.Runner()
        self.place = tempfile.TemporaryDirectory(prefix="brickyard-stateful-")
        self.wishes: dict[str, Wish] = {}
        self.deleted: list[str] = []
        self.tokens = 0
        self.bounds: dict[str, int] = {}  # how many workers a cluster had or wanted, whichever was more, a moment ago
        self.faulty = False  # machines that are made now may fail
        self.states: list[tuple[str, State, State]] = []
        self.unwatch = watch_states(self.states)
        self.capture = structlog.testing.capture_logs()
        self.logs = self.capture.__enter__()

    @initialize()
    def boot(self) -> None:
        async def begin() -> Workspace:
            workspace = Workspace(Path(self.place.name), database_url=self.database())
            await workspace.boot()
            return workspace

        self.workspace = self.runner.run(begin())

    # -- calls ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.wishes) < 5)
    @rule(size=SIZE)
    def create(self, size: Size) -> None:
        self.tokens += 1
        self._create(size, f"token {self.tokens}")

    @precondition(lambda self: self.wishes)
    @rule(which=WHICH)
    def create_again(self, which: int) -> None:
        """As a client does that has heard no answer: the cluster is there already, unless it is to run no more."""
        name, wish = self.name(which), self.wish(which)
        again = self._create(wish.size, wish.token)
        assert again == name or not wish.runs or wish.troubled
        if again != name:  # whether there is a new one may be a matter of time, but what can be drawn next must not be
            assert self.post("permanent-delete", cluster_id=again)[0] == 200
            del self.wishes[again]
            self.deleted.append(again)

    def _create(self, size: Size, token: str) -> str:
        status, answer = self.post("create", **spec(size), idempotency_token=token)
        assert status == 200, answer
        name: str = answer["cluster_id"]
        if name not in self.wishes:
            self.wishes[name] = Wish(size, troubled=self.faulty)
            self.wishes[name].token = token
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
    @rule(which=WHICH, size=SIZE, rounds=ROUNDS)
    def edit(self, which: int, size: Size, rounds: int) -> None:
        if self.asked("edit", which, rounds, **spec(size)):
            self.wish(which).size = size

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
            assert "unpin the cluster first" in answer["message"]
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
        for name, before, after in self.states:
            assert after in LEGAL[before], f"{name} went from {before} to {after}"
        self.states.clear()

    @invariant()
    def nothing_failed_inside(self) -> None:
        assert not [entry for entry in self.logs if entry["log_level"] == "error"]

    @invariant()
    def no_cluster_has_more_than_it_wants(self) -> None:
        if not hasattr(self, "workspace"):
            return
        clusters, nodes = self.workspace.app._store.read_sync(
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
            if wish.runs and not ended_by_itself and not _runs(found, wish):
                there = f"{name} is {found['state']} with {len(found.get('executors', ()))} workers, wanted {wish.size}"
                return f"{there}: {found['state_message']} {found.get('termination_reason')}"
            if not wish.runs and found["state"] != "TERMINATED":
                return f"{name} is {found['state']}, and was terminated"
        alive = {each for each, seen in self.workspace.machines.observe().items() if seen.alive}
        recorded = self.workspace.app._store.read_sync(lambda tx: tx.instances.states())
        if left := {cluster_id for cluster_id, _ in recorded.values()} - self.wishes.keys():
            return f"clusters that were deleted for good still have instances: {left}"
        return "" if alive == recorded.keys() else f"on record are {sorted(recorded)}, and there are {sorted(alive)}"

    async def _agree(self) -> None:
        """A cluster that follows its load may change while it is compared: then it is compared again."""
        for _ in range(20):
            commits = self.workspace.commits
            try:
                await self._compare()
            except AssertionError:
                if self.workspace.commits == commits:
                    raise
            else:
                return
        raise AssertionError("it does not come to rest")

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
            wish.runs = found["state"] == "RUNNING"  # what the system has ended stays so until it is started
            owned += [node["instance_id"] for node in (*found.get("executors", ()), *([found["driver"]] if wish.runs else []))]
            await self._check_events(name, wish)
        assert len(owned) == len(set(owned)), "an instance is in two clusters"
        assert set(owned) == self.workspace.machines.observe().keys()
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
            self.unwatch()
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


def spec(size: Size) -> dict[str, Any]:
    return sized(size) | {
        "cluster_name": "c",
        "spark_version": "17.3.x-scala2.13",
        "node_type_id": "small",
        "autotermination_minutes": 0,
    }


def _runs(found: dict[str, Any], wish: Wish) -> bool:
    least, most = wish.size
    return found["state"] == "RUNNING" and least <= len(found.get("executors", ())) <= most


def _failed(found: dict[str, Any]) -> bool:
    return found["termination_reason"]["type"] != "SUCCESS" and bool(found["state_message"])


async def _soon(what: Any) -> None:
    what()


@pytest.mark.parametrize(("backend", "examples"), [("sqlite", 12), ("postgresql", 4)])
def test_random_calls(request: pytest.FixtureRequest, backend: str, examples: int) -> None:
    def database() -> str:
        server: Postgres | None = request.getfixturevalue("postgres") if backend == "postgresql" else None
        return server.new_database() if server is not None else ""

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
