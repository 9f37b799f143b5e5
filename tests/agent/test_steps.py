"""The agent's ladder: every step has its file, and a step that takes too long ends with its own words and reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.converge import Step
from brickyard.agent.log import LogFile
from brickyard.agent.networks import Networks
from brickyard.agent.node import Node
from brickyard.agent.sandbox import Isolation
from brickyard.agent.state import NodeState, explained
from brickyard.agent.steps import LADDER
from brickyard.agent.steps.work import Work
from brickyard.domain.node import Failure, NodeStatus, Phase, Role
from tests.agent.world import assignment
from tests.support.patience import PATIENCE_S


async def _for_ever(_: NodeState) -> None:
    await asyncio.Event().wait()


async def _failed(tmp_path: Path, work: Work, *, role: Role = Role.DRIVER, refusal: Failure | None = None) -> NodeStatus:
    """The status of a node whose INSTALL is `work`, once it has failed."""
    config = AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url="", instance_dir=str(tmp_path), cache_dir=str(tmp_path),
        logs_dir=str(tmp_path / "logs"), node_code_dir=str(tmp_path),
    )  # fmt: skip
    over, told = asyncio.Event(), list[NodeStatus]()

    def changed() -> None:
        told.append(node.status)
        if node.status.phase is Phase.FAILED:
            over.set()

    async def probe() -> Isolation:
        raise AssertionError("nothing starts here")

    node = Node(
        config=config, probe=probe, networks=Networks(config=config, switchboard=-1), log=LogFile(tmp_path / "agent.log"),
        on_change=changed, ladder={**LADDER, Step.INSTALL: work},
    )  # fmt: skip
    loop = asyncio.create_task(node.run())
    try:
        node.want(assignment(role=role, refusal=refusal))
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        assert refusal is not None or work.progress in {status.message for status in told}
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
    tmp_path: Path, failure: str, role: Role, code: str
) -> None:
    work = Work(_for_ever, progress="getting Spark", limit_s=0.01, failure=failure)
    failed = asyncio.run(_failed(tmp_path, work, role=role)).failure
    assert failed is not None
    assert (failed.code, failed.message) == (code, "getting Spark took longer than 0.01 s")


def test_a_step_that_raises_what_it_may_not_is_told_as_a_mistake_of_ours(tmp_path: Path) -> None:
    async def broken(_: NodeState) -> None:
        raise TimeoutError("a timeout that is not the step's")

    failed = asyncio.run(_failed(tmp_path, Work(broken, progress="getting Spark", limit_s=100.0))).failure
    assert failed is not None
    assert failed.code == "INTERNAL_ERROR"
    assert "could not install the node: TimeoutError: a timeout" in failed.message


def test_a_node_that_must_not_start_fails_with_the_servers_reason(tmp_path: Path) -> None:
    refusal = Failure(code="SECRET_RESOLUTION_ERROR", message="secret k of scope s does not exist")
    failed = asyncio.run(_failed(tmp_path, Work(_for_ever), refusal=refusal)).failure
    assert failed is not None
    assert (failed.code, failed.message) == (refusal.code, refusal.message)


def test_a_lack_of_memory_explains_a_death_unless_the_jvm_knows_better() -> None:
    killed = Failure(code="DRIVER_UNREACHABLE", message="the driver's JVM ended by signal SIGKILL")
    heap = Failure(code="DRIVER_OUT_OF_MEMORY", message="the driver ran out of memory (Java heap space)")
    why = "the node ran out of memory"
    assert explained(killed, want_of_memory="", code="DRIVER_OUT_OF_MEMORY") == killed
    assert explained(killed, want_of_memory=why, code="DRIVER_OUT_OF_MEMORY").message == why
    assert explained(heap, want_of_memory=why, code="DRIVER_OUT_OF_MEMORY") == heap
