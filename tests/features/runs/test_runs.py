"""Runs through the service, on both databases, with simulated clusters and drivers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.clusters.attach.withdrawal import code_refusal
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.clock import SystemClock
from brickyard.domain.cluster import Target, default_tags
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState, PermissionDenied
from brickyard.domain.events import EventType
from brickyard.domain.notifications import EmailNotifications
from brickyard.domain.requests import CreateCluster, EditCluster, RestartCluster, StartCluster
from brickyard.domain.run import RunLifeCycleState, RunLifecycleStateV2State, RunResultState, TerminationCode
from brickyard.domain.spec import ClientsTypes, WorkloadType
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.tasks import PythonWheelTask, RunIf, SparkJarTask, SparkPythonTask, SqlTask, SubmitRun, SubmitTask
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.features.runs.model import GetRun, ListRuns, RunId
from brickyard.features.runs.tasknodes import DriverTasks
from brickyard.plan.cluster import plan
from brickyard.plan.policy import Policy
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runs import Ended, NodeSilent
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SIZES, cluster
from tests.reconcile.runworld import ADMIN, CLUSTER, RunWorld, task
from tests.reconcile.world import provider
from tests.support.databases import both_databases
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.people import ENTITLED, enter, lock_out

Life, Result = RunLifeCycleState, RunResultState
USER = Caller(user_name="user@example.com", user_id="2", is_admin=False, token_id="u", entitlements=ENTITLED)


class Ahead:
    """The machine's clock, set ahead by the test."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.ms


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
async def world(store: Store, tmp_path: Path, clock: Ahead) -> AsyncIterator[RunWorld]:
    async with RunWorld(store, provider(), tmp_path, clock=clock).running() as world:
        yield world


async def existing(world: RunWorld, **changes: Any) -> str:
    ask = CreateCluster(cluster_name="c", spark_version=CLUSTER.spark_version, node_type_id="small", num_workers=1, **changes)
    return await world.clusters.create(ADMIN, ask)


async def test_tasks_run_in_order_on_clusters_of_their_own(world: RunWorld) -> None:
    world.file("a", "one")
    world.file("b", "two")
    run_id = await world.submit(task("a"), task("b", "a"), run_name="nightly")
    view = await world.over(run_id)
    assert (view.state.life_cycle_state, view.state.result_state) == (Life.TERMINATED, Result.SUCCESS)
    assert view.status.state is RunLifecycleStateV2State.TERMINATED
    assert view.status.termination_details and view.status.termination_details.code is TerminationCode.SUCCESS
    first, second = view.tasks or []
    assert (first.end_time or 0) > 0
    assert (first.start_time or 0) + (first.setup_duration or 0) <= (second.start_time or 0), "b waited for a"
    assert (await world.output(second.run_id)).logs == "/b.py --key b: two"
    for each in (first, second):
        assert each.cluster_instance
        cluster, nodes = await world.look(each.cluster_instance.cluster_id)
        assert cluster is not None and not nodes
        assert cluster.source is ClusterSource.JOB
        assert cluster.termination_reason and cluster.termination_reason.code is TerminationReasonCode.JOB_FINISHED
        tags = default_tags(cluster)
        assert (tags["RunName"], tags["JobId"]) == ("nightly", str(view.job_id))
        assert cluster.spec.autotermination_minutes == 0
        assert (await world.kinds(cluster.cluster_id))[0] is EventType.CREATING
    assert len(world.provider.kernels.begun) == 2


async def test_a_job_cluster_is_not_started_restarted_or_edited(world: RunWorld, golden: Golden) -> None:
    world.file("a", "slow")
    run_id = await world.submit(task("a"))
    await world.begun(run_id, "a")
    name = (await world.row(run_id)).tasks[0].attempts[0].cluster_id
    edit = EditCluster(cluster_id=name, spark_version=CLUSTER.spark_version, node_type_id="small", num_workers=2)
    calls: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
        lambda: world.clusters.start(ADMIN, StartCluster(cluster_id=name)),
        lambda: world.clusters.restart(ADMIN, RestartCluster(cluster_id=name)),
        lambda: world.clusters.edit(ADMIN, edit),
    )
    for call in calls:
        with golden.refused(InvalidState):
            await call()
    with golden.refused(InvalidParameterValue):
        await world.submit(task("b", on=name))
    await world.service.cancel(ADMIN, RunId(run_id=run_id))
    await world.over(run_id)
    with golden.refused(InvalidState):
        await calls[0]()


async def test_an_existing_cluster_is_started_used_and_left_as_it_is(world: RunWorld) -> None:
    name = await existing(world)
    await world.wait(name, State.RUNNING)
    await world.terminate(name)
    await world.wait(name, State.TERMINATED)
    for key in ("a", "b", "c"):
        world.file(key, key)
    view = await world.over(await world.submit(task("a", on=name), task("b", on=name), task("c", "a", "b", on=name)))
    assert view.state.result_state is Result.SUCCESS
    cluster, _ = await world.look(name)
    assert cluster is not None and cluster.up and cluster.incarnation == 2
    assert not world.provider.kernels.contexts(), "each task's process has ended"


class Noted:
    """Drivers as a slow server calls them: what it was about to begin may still come."""

    def __init__(self, tasks: DriverTasks) -> None:
        self.tasks = tasks
        self.calls: list[Call] = []

    async def begin(self, call: Call) -> Ended | None:
        self.calls.append(call)
        return await self.tasks.begin(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tasks, name)


@pytest.mark.parametrize("how", ["done", "cancelled", "cancelled before it came"])
async def test_what_a_slow_server_begins_after_the_end_does_not_run(store: Store, tmp_path: Path, how: str) -> None:
    class Lost(Noted):
        async def begin(self, call: Call) -> Ended | None:
            self.calls.append(call)
            raise NodeSilent("the request is on its way")

    noted: list[Noted] = []

    def around(tasks: DriverTasks) -> Noted:
        noted.append((Lost if how == "cancelled before it came" else Noted)(tasks))
        return noted[0]

    async with RunWorld(store, provider(), tmp_path, around_drivers=around).running() as world:
        name = await existing(world)
        world.file("a", "one" if how == "done" else "slow")
        run_id = await world.submit(task("a", on=name))
        if how == "cancelled":
            await world.begun(run_id, "a")
        elif how != "done":
            await asyncio.wait_for(_called(noted[0]), PATIENCE_S)
        if how != "done":
            await world.service.cancel(ADMIN, RunId(run_id=run_id))
        view = await world.over(run_id)
        began = list(world.provider.kernels.begun)
        for call in noted[0].calls:
            assert await noted[0].tasks.begin(call) is not None, "the driver refuses"
        assert world.provider.kernels.begun == began
        assert not world.provider.kernels.contexts()
        assert await world.service.get(ADMIN, GetRun(run_id=run_id)) == view


async def _called(noted: Noted) -> None:
    while not noted.calls:
        await asyncio.sleep(0.01)


async def test_a_failure_has_its_traceback_and_decides_what_follows(world: RunWorld, golden: Golden) -> None:
    name = await existing(world)
    for key, source in (("a", "fail"), ("b", "never"), ("c", "after"), ("d", "never")):
        world.file(key, source)
    run_id = await world.submit(
        task("a", on=name),
        task("b", "a", on=name),
        task("c", "a", on=name, run_if=RunIf.AT_LEAST_ONE_FAILED),
        task("d", on=name, disabled=True),
    )
    view = await world.over(run_id)
    a, b, c, d = view.tasks or []
    assert [each.state.result_state for each in (a, b, c, d)] == [
        Result.FAILED,
        Result.UPSTREAM_FAILED,
        Result.SUCCESS,
        Result.DISABLED,
    ]
    assert b.state.life_cycle_state is Life.SKIPPED
    assert view.state.life_cycle_state is Life.INTERNAL_ERROR, "waiters of clients raise"
    golden(view.state.state_message)
    output = await world.output(a.run_id)
    assert (output.error, output.logs) == ("ValueError: 1 < 2", "before it failed")
    assert output.error_trace.endswith("ValueError: 1 < 2")
    golden((await world.output(b.run_id)).error)
    with golden.refused(InvalidParameterValue):
        await world.output(run_id)


async def test_a_retry_reads_the_file_again_and_both_attempts_are_kept(world: RunWorld, clock: Ahead) -> None:
    world.file("a", "fail")
    run_id = await world.submit(task("a", max_retries=2, min_retry_interval_millis=3_600_000))
    async with asyncio.timeout(PATIENCE_S):
        while not (await world.row(run_id)).tasks[0].retry_at_ms:
            await asyncio.sleep(0.01)
    world.file("a", "better")
    clock.ms = 3_600_000
    world.runs.wake(run_id)
    view = await world.over(run_id)
    assert view.state.result_state is Result.SUCCESS
    first, second = view.tasks or []
    assert (first.attempt_number, second.attempt_number) == (0, 1)
    assert (second.start_time or 0) - (first.start_time or 0) >= 3_600_000
    assert first.cluster_instance and second.cluster_instance
    assert first.cluster_instance.cluster_id != second.cluster_instance.cluster_id
    assert (await world.output(first.run_id)).error == "ValueError: 1 < 2"
    assert (await world.output(run_id)).logs == "/a.py --key a: better"


@pytest.mark.parametrize("whole", [True, False])
async def test_timeouts_end_what_runs(world: RunWorld, clock: Ahead, whole: bool) -> None:
    name = await existing(world)
    await world.wait(name, State.RUNNING)
    world.file("a", "slow")
    one = task("a", on=name, timeout_seconds=0 if whole else 3600)
    run_id = await world.submit(one, timeout_seconds=3600 if whole else 0)
    await world.begun(run_id, "a")
    clock.ms = 3_600_000
    world.runs.wake(run_id)
    view = await world.over(run_id)
    assert (view.state.life_cycle_state, view.state.result_state) == (
        Life.TERMINATED,
        Result.TIMEDOUT,
    )
    assert view.state.user_cancelled_or_timedout
    output = await world.output(run_id)
    assert (output.logs, output.error) == ("printed before", (view.tasks or [])[0].state.state_message)
    assert not world.provider.kernels.contexts()


async def test_a_cancelled_run_is_over_soon_and_can_then_be_deleted(world: RunWorld, golden: Golden) -> None:
    world.file("a", "slow")
    run_id = await world.submit(task("a"), task("b", "a"))
    await world.begun(run_id, "a")
    with golden.refused(InvalidState):
        await world.service.delete(ADMIN, RunId(run_id=run_id))
    with pytest.raises(PermissionDenied):
        await world.service.cancel(USER, RunId(run_id=run_id))
    await world.service.cancel(ADMIN, RunId(run_id=run_id))
    view = await world.over(run_id)
    assert view.state.result_state is Result.CANCELED
    assert [each.state.result_state for each in view.tasks or []] == [Result.CANCELED, Result.CANCELED]
    await world.service.cancel(ADMIN, RunId(run_id=run_id))
    attempt = (view.tasks or [])[0].run_id
    assert (await world.output(attempt)).logs == "printed before"
    await world.service.delete(ADMIN, RunId(run_id=run_id))
    for gone in (run_id, attempt):
        with golden.refused(InvalidParameterValue, str(gone), run=str(gone)):
            await world.view(gone)


async def test_an_idempotency_token_is_its_users(world: RunWorld, golden: Golden) -> None:
    """Also once the runs are deleted."""

    world.file("a", "")
    asked = SubmitRun(tasks=[task("a")], idempotency_token="nightly")
    ours = [(caller, await world.service.submit(caller, asked)) for caller in (USER, ADMIN)]
    assert ours[0][1] != ours[1][1]
    for caller, run_id in ours:
        assert await world.service.submit(caller, asked) == run_id
        await world.over(run_id)
        await world.service.delete(caller, RunId(run_id=run_id))
        with golden.refused(InvalidParameterValue, str(run_id), run=str(run_id)):
            await world.service.submit(caller, asked)


async def test_a_task_whose_user_may_no_longer_run_code_is_not_tried_again(world: RunWorld) -> None:
    world.file("a", "slow")
    run_id = await world.submit(task("a", max_retries=-1))
    await world.begun(run_id, "a")
    attempt = (await world.row(run_id)).tasks[0].attempts[0]
    _, nodes = await world.look(attempt.cluster_id)
    driver = next(node for node in nodes if node.instance_id == attempt.driver_id)
    asked = {"user": ADMIN.user_name, "reason": "the user has left"}
    await world.provider.agent_client().call(driver.endpoint, "", "POST", "/v1/withdrawn", asked)
    view = await world.over(run_id)
    assert view.state.result_state is Result.FAILED
    (only,) = (await world.row(run_id)).tasks[0].attempts
    assert (only.code, only.message) == (TerminationCode.UNAUTHORIZED_ERROR, f"PermissionDenied: {asked['reason']}")


async def test_a_task_whose_user_has_lost_access_does_not_begin(world: RunWorld, store: Store, golden: Golden) -> None:
    """One that waits for its cluster, or for another task, runs nothing once its user is gone."""

    def refused(tx: Tx) -> str:
        return code_refusal(tx, Authorizer(), ADMIN.user_name, cluster())

    world.file("a", "never")
    await store.write(lambda tx: enter(tx, ADMIN))
    assert await store.read(refused) == ""
    await store.write(lambda tx: lock_out(tx, ADMIN))
    world.refusal = lambda call: store.read(refused)
    view = await world.over(await world.submit(task("a", max_retries=-1)))
    assert view.state.result_state is Result.FAILED
    golden(view.state.state_message, ADMIN.user_name)
    assert not world.provider.kernels.begun


@pytest.mark.parametrize("how", ["cluster", "driver", "process"])
async def test_what_is_lost_under_a_task_fails_it(world: RunWorld, how: str) -> None:
    world.file("a", "die" if how == "process" else "slow")
    run_id = await world.submit(task("a"))
    if how != "process":
        await world.begun(run_id, "a")
        attempt = (await world.row(run_id)).tasks[0].attempts[0]
        if how == "cluster":
            await world.terminate(attempt.cluster_id)
        else:
            world.provider.kill(attempt.driver_id)
    view = await world.over(run_id)
    (failed,) = view.tasks or []
    assert (failed.state.life_cycle_state, failed.state.result_state) == (Life.INTERNAL_ERROR, Result.FAILED)
    assert failed.state.state_message
    assert len(world.provider.kernels.begun) == 1


async def test_a_token_is_for_one_run_also_when_it_is_used_at_once(world: RunWorld, golden: Golden) -> None:
    world.file("a", "one")
    found = await asyncio.gather(*(world.submit(task("a"), idempotency_token="t") for _ in range(8)))
    assert len(set(found)) == 1
    await world.over(found[0])
    assert await world.submit(task("a"), idempotency_token="t") == found[0]
    assert len(world.provider.kernels.begun) == 1
    await world.service.delete(ADMIN, RunId(run_id=found[0]))
    with golden.refused(InvalidParameterValue, "idempotency_token"):
        await world.submit(task("a"), idempotency_token="t")


async def test_the_older_form_of_one_task(world: RunWorld) -> None:
    world.file("a", "one")
    old = SubmitRun(spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"), new_cluster=CLUSTER, timeout_seconds=3600)
    run_id = await world.service.submit(ADMIN, old)
    view = await world.over(run_id)
    assert view.run_name == "Untitled"
    assert view.state.result_state == "SUCCESS", view
    assert (await world.output(run_id)).logs == "/a.py : one"


PYPI: dict[str, Any] = {"pypi": {"package": "simplejson"}}


async def test_a_tasks_libraries_are_on_its_cluster_before_it_begins(world: RunWorld) -> None:
    wheel = PythonWheelTask(package_name="p", entry_point="e", named_parameters={"a": "1"})
    jar = SparkJarTask(main_class_name="Main", parameters=["x"])
    maven = {"maven": {"coordinates": "a:b:1", "exclusions": []}}
    run_id = await world.submit(
        SubmitTask(task_key="w", python_wheel_task=wheel, new_cluster=CLUSTER, libraries=[{"whl": "dbfs:/p.whl"}, PYPI, PYPI]),
        SubmitTask(task_key="j", spark_jar_task=jar, new_cluster=CLUSTER, libraries=[{"jar": "/dbfs/a.jar"}, maven, {}]),
    )
    view = await world.over(run_id)
    assert view.state.result_state == "SUCCESS", view
    first, second = [json.loads((await world.output(each.run_id)).logs) for each in view.tasks or []]
    assert first == {"kind": "wheel", "package": "p", "entry_point": "e", "parameters": ["--a=1"], "wheels": [], "values": {}}
    assert second == {"kind": "jar", "class": "Main", "parameters": ["x"], "wheels": [], "values": {}}
    found = []
    for each in view.tasks or []:
        assert each.cluster_instance
        cluster, _ = await world.look(each.cluster_instance.cluster_id)
        assert cluster is not None
        found.append([json.loads(msgspec.json.encode(one.library)) for one in cluster.libraries])
    assert found == [[{"whl": "dbfs:/p.whl"}, PYPI], [{"jar": "/dbfs/a.jar"}, {"maven": {"coordinates": "a:b:1"}}]]


async def test_a_task_whose_library_fails_fails_with_the_installers_words(world: RunWorld, golden: Golden) -> None:
    world.file("a", "one")
    world.provider.knobs.bad_libraries = frozenset({"bad"})
    run_id = await world.submit(task("a", libraries=[{"pypi": {"package": "bad"}}]))
    view = await world.over(run_id)
    assert view.state.result_state == "FAILED"
    (only,) = view.tasks or []
    golden(str(only.state.state_message))
    assert only.status.termination_details is not None
    assert only.status.termination_details.code is TerminationCode.LIBRARY_INSTALLATION_ERROR
    assert not world.provider.kernels.begun, "it never began"


async def test_libraries_of_a_task_on_a_shared_cluster_stay_there(world: RunWorld) -> None:
    world.file("a", "one")
    name = await existing(world)
    view = await world.over(await world.submit(task("a", on=name, libraries=[PYPI])))
    assert view.state.result_state == "SUCCESS", view
    cluster, _ = await world.look(name)
    assert cluster is not None and [each.library.pypi is not None for each in cluster.libraries] == [True]
    wheel = PythonWheelTask(package_name="p", entry_point="e")
    own = SubmitTask(task_key="w", python_wheel_task=wheel, existing_cluster_id=name, libraries=[{"whl": "dbfs:/d/p.whl"}])
    view = await world.over(await world.submit(own))
    told = json.loads((await world.output((view.tasks or [])[0].run_id)).logs)
    assert told["wheels"] == ["/d/p.whl"], "a wheel is the task's own: the next run may bring another of that name"
    cluster, _ = await world.look(name)
    assert cluster is not None and len(cluster.libraries) == 1


async def test_a_cluster_is_not_idle_while_a_task_waits_for_its_libraries(world: RunWorld, clock: Ahead) -> None:
    world.file("a", "one")
    name = await existing(world, autotermination_minutes=10)
    await world.wait(name, State.RUNNING)
    world.provider.knobs.library_s = 3600.0
    await world.submit(task("a", on=name, libraries=[PYPI]))
    clock.ms = 11 * 60_000
    for _ in range(int(10 * PATIENCE_S)):
        cluster, nodes = await world.look(name)
        assert cluster is not None
        decided = plan(cluster, nodes, now=clock.now_ms(), sizes=SIZES, policy=Policy())
        if decided.cluster.target is Target.RUNNING:
            break
        await asyncio.sleep(0.1)
    assert decided.cluster.target is Target.RUNNING, decided.cluster.state_message
    assert decided.cluster.up and len(decided.cluster.libraries) == 1


@both_databases
async def test_only_who_may_manage_a_cluster_brings_libraries_to_it(world: RunWorld, store: Store) -> None:
    world.file("a", "one")
    name = await existing(world)
    place = Place(ObjectKind.CLUSTER, name)
    await store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_RESTART)]))
    with pytest.raises(PermissionDenied, match="CAN_MANAGE"):
        await world.service.submit(USER, SubmitRun(tasks=[task("a", on=name, libraries=[PYPI])]))
    cluster, _ = await world.look(name)
    assert cluster is not None and cluster.libraries == ()
    assert await world.service.submit(USER, SubmitRun(tasks=[task("a", on=name)])), "without libraries it may"


async def test_pages_of_runs(world: RunWorld) -> None:
    name = await existing(world)
    world.file("a", "slow")
    made = [await world.submit(task("a", on=name)) for _ in range(5)]
    await world.service.cancel(ADMIN, RunId(run_id=made[0]))
    await world.over(made[0])
    found: list[int] = []
    page = await world.service.list(ADMIN, ListRuns(limit=2))
    found += [run.run_id for run in page.runs or []]
    while page.next_page_token:
        page = await world.service.list(ADMIN, ListRuns(limit=2, page_token=page.next_page_token))
        found += [run.run_id for run in page.runs or []]
    assert sorted(found) == sorted(made) and len(found) == 5
    assert page.prev_page_token
    back = await world.service.list(ADMIN, ListRuns(limit=2, page_token=page.prev_page_token))
    assert [run.run_id for run in back.runs or []] == found[2:4]
    active = await world.service.list(ADMIN, ListRuns(active_only=True))
    assert {run.run_id for run in active.runs or []} == set(made[1:])
    done = await world.service.list(ADMIN, ListRuns(completed_only=True, expand_tasks=True))
    assert [run.run_id for run in done.runs or []] == made[:1]
    assert (done.runs or [])[0].tasks
    for run_id in made[1:]:
        await world.service.cancel(ADMIN, RunId(run_id=run_id))
        await world.over(run_id)


async def test_a_file_that_cannot_be_read_fails_the_task_and_says_why(world: RunWorld, tmp_path: Path, golden: Golden) -> None:
    name = await existing(world)
    (tmp_path / "dbfs" / "b.py").write_bytes(b"\xff")
    view = await world.over(await world.submit(task("a", on=name), task("b", on=name)))
    missing, binary = [(await world.output(each.run_id)).error for each in view.tasks or []]
    golden(missing, "dbfs:/a.py")
    golden(binary, "dbfs:/b.py", "UTF-8")


async def test_files_of_this_machine_only_below_the_directory_that_the_settings_name(
    world: RunWorld, tmp_path: Path, golden: Golden
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    (machine / "a.py").write_text("mine")
    (tmp_path / "outside.py").write_text("secret")
    (machine / "link.py").symlink_to(tmp_path / "outside.py")
    view = await world.over(await world.submit(task("a", file=f"file:{machine}/a.py")))
    assert "mine" in (await world.output((view.tasks or [])[0].run_id)).logs
    view = await world.over(await world.submit(task("link", file=f"file:{machine}/link.py")))
    golden((await world.output((view.tasks or [])[0].run_id)).error)
    for path in (f"file:{tmp_path}/outside.py", f"file:{machine}/../outside.py", "file:/etc/passwd"):
        with pytest.raises(InvalidParameterValue, match="python_file"):
            await world.submit(task("b", file=path))


ONE = task("a")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (SubmitRun(), "it says nothing to run"),
        (SubmitRun(tasks=[ONE, ONE]), "given twice"),
        (SubmitRun(tasks=[task("a b")]), "is not valid"),
        (SubmitRun(tasks=[task("a", "b"), task("b", "a")]), "in a circle"),
        (SubmitRun(tasks=[task("a", "x")]), "which is not a task of this run"),
        (SubmitRun(tasks=[msgspec.structs.replace(ONE, existing_cluster_id="c")]), "existing_cluster_id"),
        (SubmitRun(tasks=[msgspec.structs.replace(ONE, new_cluster=None)]), "no serverless compute"),
        (SubmitRun(tasks=[task("a", on="nowhere")]), "does not exist"),
        (
            SubmitRun(tasks=[SubmitTask(task_key="a", sql_task=SqlTask(warehouse_id="w"), new_cluster=CLUSTER)]),
            "runs on its warehouse",
        ),
        (SubmitRun(tasks=[ONE], email_notifications=EmailNotifications(on_failure=["me@example.com"])), "email_notifications"),
        (SubmitRun(tasks=[ONE], git_source={"git_url": "x"}), "git_source"),
        (SubmitRun(tasks=[ONE], timeout_seconds=-1), "timeout_seconds"),
        (SubmitRun(tasks=[ONE], idempotency_token="x" * 65), "idempotency_token"),
        (SubmitRun(tasks=[task("a", max_retries=-2)]), "max_retries"),
        (SubmitRun(tasks=[task("a", file="s3://b/a.py")]), "s3: files are not supported"),
        (SubmitRun(tasks=[task("a", file="a.py")]), "must be an absolute path"),
        (SubmitRun(tasks=[task("a", libraries=[{"pypi": {"package": "/x"}}])]), r"libraries\[0\].pypi.package is '/x'"),
        (SubmitRun(tasks=[task("a", libraries=[{"pypi": "x"}])]), r"libraries\[0\] makes no sense"),
        (SubmitRun(tasks=[task("a", libraries=[{"wheel": "x"}])]), r"libraries\[0\].wheel is not a kind of library"),
        (SubmitRun(tasks=[task("a", libraries=[{"whl": "file:/x/y.whl"}])]), "a file of the node"),
        (SubmitRun(tasks=[task("a", libraries=[{"egg": "dbfs:/y.egg"}])]), "build a wheel"),
        (SubmitRun(tasks=[task("a", libraries=[{"cran": {"package": "x==1.0"}}])]), "not the name of an R package"),
        (
            SubmitRun(
                tasks=[SubmitTask(task_key="a", spark_jar_task=SparkJarTask(main_class_name="A"), existing_cluster_id="c")]
            ),
            "is not supported with existing_cluster_id",
        ),
        (
            SubmitRun(tasks=[msgspec.structs.replace(ONE, spark_jar_task=SparkJarTask(main_class_name="A"))]),
            "spark_python_task and spark_jar_task to run",
        ),
        (
            SubmitRun(
                tasks=[
                    SubmitTask(
                        task_key="a",
                        python_wheel_task=PythonWheelTask(
                            package_name="p", entry_point="e", parameters=["1"], named_parameters={"a": "1"}
                        ),
                        new_cluster=CLUSTER,
                    )
                ]
            ),
            "both given",
        ),
        (
            SubmitRun(tasks=[msgspec.structs.replace(ONE, new_cluster=msgspec.structs.replace(CLUSTER, num_workers=-1))]),
            "num_workers",
        ),
        (
            SubmitRun(
                tasks=[
                    msgspec.structs.replace(
                        ONE,
                        new_cluster=msgspec.structs.replace(
                            CLUSTER, workload_type=WorkloadType(clients=ClientsTypes(jobs=False, notebooks=True))
                        ),
                    )
                ]
            ),
            "does not accept jobs",
        ),
    ],
)
async def test_what_cannot_be_run_is_refused_by_name(world: RunWorld, request_: SubmitRun, says: str) -> None:
    with pytest.raises(ApiError, match=says):
        await world.service.submit(ADMIN, request_)
    assert not (await world.service.list(ADMIN, ListRuns())).runs
