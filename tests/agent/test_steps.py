"""The agent's ladder: every step has its file, and a step that takes too long ends with its own words and reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Stage, Step
from brickyard.agent.networks import Networks
from brickyard.agent.node import Node
from brickyard.agent.shortages import explained
from brickyard.agent.state import NodeState
from brickyard.agent.steps import LADDER
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Failure, NodeStatus, Phase, Role
from brickyard.domain.scripts import InitScript
from brickyard.logs.bounded import LogFile
from tests.agent.owner import Owner
from tests.agent.runtime import make_runtime
from tests.agent.world import assignment
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


async def _for_ever(_: NodeState) -> None:
    await asyncio.Event().wait()


def _node(tmp_path: Path, work: Work, changed: Callable[[], None], *, host: Work = LADDER[Step.HOST]) -> Node:
    """A node whose INSTALL is `work`, and whose HOST is `host`."""
    config = AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url="", instance_dir=str(tmp_path), cache_dir=str(tmp_path),
        logs_dir=str(tmp_path / "logs"), node_code_dir=str(tmp_path),
    )  # fmt: skip

    return Node(
        config=config, owner=Owner(changed), networks=Networks(config=config, switchboard=-1),
        log=LogFile(tmp_path / "agent.log"), ladder={**LADDER, Step.INSTALL: work, Step.HOST: host},
    )  # fmt: skip


async def _failed(
    tmp_path: Path,
    work: Work,
    *,
    role: Role = Role.DRIVER,
    refusal: Failure | None = None,
    host: Work = LADDER[Step.HOST],
    scripts: tuple[InitScript, ...] = (),
) -> NodeStatus:
    """The status of a node whose INSTALL is `work`, and HOST is `host`, once it has failed."""
    over = asyncio.Event()

    def changed() -> None:
        if node.status.phase is Phase.FAILED:
            over.set()

    node = _node(tmp_path, work, changed, host=host)
    loop = asyncio.create_task(node.run())
    try:
        node.want(assignment(role=role, refusal=refusal, init_scripts=scripts))
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        failed = node.status
        await node.close()
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
    return failed


def test_every_step_is_on_the_ladder() -> None:
    assert set(LADDER) == set(Step)


@pytest.mark.parametrize(
    ("failure", "role", "code"),
    [
        ("", Role.DRIVER, "SPARK_STARTUP_FAILURE"),
        ("", Role.WORKER, "WORKER_SETUP_FAILURE"),
        ("SPARK_IMAGE_DOWNLOAD_FAILURE", Role.DRIVER, "SPARK_IMAGE_DOWNLOAD_FAILURE"),
    ],
)
def test_a_step_that_takes_too_long_fails_the_node_with_its_own_reason(
    tmp_path: Path, failure: str, role: Role, code: str, golden: Golden
) -> None:
    work = Work(_for_ever, progress="getting Spark", limit_s=0.01, failure=failure)
    failed = asyncio.run(_failed(tmp_path, work, role=role)).failure
    assert failed is not None
    assert failed.code == code
    golden(failed.message, work.progress, "0.01 s")


async def test_what_is_only_for_people_is_told_once_nothing_else_comes_along(tmp_path: Path) -> None:
    """Each report costs a server a transaction."""

    over, told = asyncio.Event(), list[str]()

    async def install(node: NodeState) -> None:
        for message in ("a", "b", "c"):
            node.progress(message)
        await asyncio.Event().wait()

    def changed() -> None:
        told.append(node.status.message)
        if node.status.message == "c":
            over.set()

    node = _node(tmp_path, Work(install, progress="getting Spark"), changed)
    loop = asyncio.create_task(node.run())
    try:
        node.want(assignment())
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        assert not {"getting Spark", "a", "b"} & set(told)
        await node.close()
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


def test_a_step_that_raises_what_it_may_not_is_told_as_a_mistake_of_ours(tmp_path: Path, golden: Golden) -> None:
    why = "a timeout that is not the step's"

    async def broken(_: NodeState) -> None:
        raise TimeoutError(why)

    failed = asyncio.run(_failed(tmp_path, Work(broken, progress="getting Spark", limit_s=100.0))).failure
    assert failed is not None
    assert failed.code == "INTERNAL_ERROR"
    golden(failed.message, f"TimeoutError: {why}")


def test_a_node_that_must_not_start_fails_with_the_servers_reason(tmp_path: Path) -> None:
    refusal = Failure(code="SECRET_RESOLUTION_ERROR", message="secret k of scope s does not exist")
    failed = asyncio.run(_failed(tmp_path, Work(_for_ever), refusal=refusal)).failure
    assert failed is not None
    assert (failed.code, failed.message) == (refusal.code, refusal.message)


async def test_a_node_is_begun_as_a_whole_whatever_is_told_meanwhile(tmp_path: Path) -> None:
    """A worker hears of its driver's address as soon as that is known: also while its directories are being made."""

    begun, there = asyncio.Event(), set[str]()

    async def install(_: NodeState) -> None:
        there.update(path.name for path in [*tmp_path.iterdir(), *(tmp_path / "node").iterdir()])
        begun.set()
        await asyncio.Event().wait()

    def changed() -> None:
        if node.status.phase is Phase.PREPARING:  # what BEGIN tells first
            node.want(assignment(2, role=Role.WORKER, driver_host="127.0.0.1"))

    node = _node(tmp_path, Work(install), changed)
    loop = asyncio.create_task(node.run())
    try:
        node.want(assignment(1, role=Role.WORKER))
        async with asyncio.timeout(PATIENCE_S):
            await begun.wait()
        assert there >= {"node.json", "work", "tmp", "home", "logs"}
        await node.close()
    finally:
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


def test_a_node_that_cannot_be_set_up_is_not_put_down_to_the_script_that_would_have_run(tmp_path: Path, golden: Golden) -> None:
    manifest, why = make_runtime(tmp_path), "sandbox: cannot show /a: No such file"

    async def installed(state: NodeState) -> None:
        state.manifest = manifest
        state.advance(Stage.INSTALLED)

    async def hosted(state: NodeState) -> None:
        await state.new_host().start(["sh", "-c", f"read call; echo '{why}' >&2; exit 71"], {})
        state.advance(Stage.HOSTED)

    script = InitScript(name="a.sh", content="dHJ1ZQ==")
    failed = asyncio.run(_failed(tmp_path, Work(installed), host=Work(hosted), scripts=(script,)))
    assert failed.scripts is not None, "it was on its way to run the script"
    assert failed.failure is not None
    assert failed.failure.code == "SPARK_STARTUP_FAILURE"
    golden(failed.failure.message, why)


def test_a_lack_of_memory_explains_a_death_unless_the_jvm_knows_better() -> None:
    killed = Failure(code="DRIVER_UNREACHABLE", message="the driver's JVM ended by signal SIGKILL")
    heap = Failure(code="DRIVER_OUT_OF_MEMORY", message="the driver ran out of memory (Java heap space)")
    why = "the node ran out of memory"
    assert explained(killed, want_of_memory="", code="DRIVER_OUT_OF_MEMORY") == killed
    assert explained(killed, want_of_memory=why, code="DRIVER_OUT_OF_MEMORY").message == why
    assert explained(heap, want_of_memory=why, code="DRIVER_OUT_OF_MEMORY") == heap
