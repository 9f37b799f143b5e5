"""What an agent makes of the answers to its long poll, and what it brings with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from brickyard.agent.config import AgentConfig
from brickyard.agent.link.http import Client
from brickyard.agent.link.owner import LinkedAgent
from brickyard.agent.link.serverlink import ServerLink
from brickyard.domain.node import Assignment, AssignmentReply, NodeStatus, Phase, Poll, StatusReport
from brickyard.domain.packedsamples import packed
from brickyard.domain.samples import NodeSamples, Sample
from brickyard.logs.bounded import LogFile
from tests.agent.world import FakeServer, assignment
from tests.support.patience import until


def config(place: Path, *, server: FakeServer | None = None) -> AgentConfig:
    return AgentConfig(
        instance_id="i-1", agent_token="agent-secret", server_token="server-secret",
        server_url=server.url if server is not None else "http://127.0.0.1:1",
        server_file=str(server.file) if server is not None else "", instance_dir=str(place), cache_dir=str(place),
        logs_dir=str(place), node_code_dir=str(place),
    )  # fmt: skip


class Agent(LinkedAgent):
    """What an agent says of its node, and what a server has said to it."""

    def __init__(self) -> None:
        self.status = NodeStatus(phase=Phase.PREPARING)
        self.samples = NodeSamples(cluster_id="c-1", samples=(Sample(1, {"cpu_cores": 1.0}),))
        self.taken: list[tuple[NodeSamples | None, bool]] = []
        self.given: list[Assignment | None] = []
        self.left: list[str] = []

    def report(self) -> StatusReport:
        return StatusReport(instance_id="i-1", boot_id="b", endpoint="e", pid=1, status=self.status, samples=self.samples)

    def assign(self, assignment: Assignment | None) -> None:
        self.given.append(assignment)

    def samples_taken(self, samples: NodeSamples | None, *, again: bool) -> None:
        self.taken.append((samples, again))

    def leave(self, reason: str) -> None:
        self.left.append(reason)


class Answered(ServerLink):
    """Gets these answers, one after the other."""

    answers: list[AssignmentReply]
    asked: list[int]  # the versions that it said it had

    async def _polled(self, client: Client, poll: Poll, *, brings: bool) -> AssignmentReply | None:
        assert not brings, "the server has not said that it wants few reports"
        self.asked.append(poll.have)
        return self.answers.pop(0)


def test_what_is_still_the_same_is_kept(tmp_path: Path) -> None:
    """An answer without an assignment ends the node, unless it says that nothing has changed."""
    agent = Agent()
    first = assignment()
    second = assignment(version=first.version + 1)

    async def scenario() -> list[int]:
        link = Answered(config=config(tmp_path), agent=agent, log=LogFile(tmp_path / "log"))
        link.asked = []
        link.answers = [
            AssignmentReply(server_token="s", known=True, assignment=first),
            AssignmentReply(server_token="s", known=True, same=True),
            AssignmentReply(server_token="s", known=True, assignment=second),
            AssignmentReply(server_token="s", known=True),
            AssignmentReply(server_token="s", known=False),
        ]
        await link.follow()
        return link.asked

    asked = asyncio.run(scenario())
    assert agent.given == [first, second, None]
    assert asked == [0, first.version, first.version, second.version, 0]
    assert len(agent.left) == 1


async def test_at_rest_the_poll_brings_the_samples_and_only_changes_are_reported(tmp_path: Path) -> None:
    server, agent = FakeServer(tmp_path), Agent()
    server.start()
    server.report_s = 40.0

    try:

        async def seen(condition: Callable[[], object], what: str) -> None:
            await asyncio.to_thread(until, lambda: condition() or None, what)

        link = ServerLink(config=config(tmp_path, server=server), agent=agent, log=LogFile(tmp_path / "log"))
        works = [asyncio.create_task(link.report())]
        await seen(lambda: agent.taken, "the first report, whose answer says that few are wanted")
        works.append(asyncio.create_task(link.follow()))
        await seen(lambda: server.brought, "a poll")
        now_ms = server.brought[0].now_ms
        assert now_ms > 0, "what time it has"
        assert server.brought[0] == Poll(instance_id="i-1", have=0, wait=40.0, samples=packed(agent.samples), now_ms=now_ms)
        assert len(agent.taken) == 1, "the poll is not answered yet"
        link.sampled()
        agent.status = NodeStatus(phase=Phase.READY)
        link.wake()
        await seen(lambda: len(server.reports) == 2, "the report of the change, while the poll is held")
        assert server.reports[-1].status.phase is Phase.READY
        await seen(lambda: len(agent.taken) == 2, "what that report has brought is taken")

        server.unheard = True  # a new server, that has not heard the status; it answers the poll that follows this assignment
        server.assign("i-1", assignment())
        await seen(lambda: len(server.reports) == 3, "the status is reported again")
        await seen(lambda: len(server.brought) >= 3, "another poll")
        assert [again for _, again in agent.taken] == [False] * len(agent.taken)
        assert len(server.reports) == 3, "polls are the heartbeat"

        server.pace(5.0)
        await seen(lambda: len(server.reports) == 4, "a report at once, when the server wants them often")
        await seen(lambda: server.polls, "a poll that brings nothing")
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    finally:
        server.stop()
    assert not agent.left


async def test_samples_of_a_poll_that_is_cut_off_are_sent_again(tmp_path: Path) -> None:
    server, agent = FakeServer(tmp_path), Agent()
    server.start()
    server.report_s = 40.0

    try:
        link = ServerLink(config=config(tmp_path, server=server), agent=agent, log=LogFile(tmp_path / "log"))
        works = [asyncio.create_task(link.report())]
        await asyncio.to_thread(until, lambda: agent.taken or None, "the first report")
        works.append(asyncio.create_task(link.follow()))
        await asyncio.to_thread(until, lambda: server.brought or None, "a poll")
        taken = len(agent.taken)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(until, lambda: len(server.brought) == 2 or None, "another poll")
        assert server.brought[0].samples == server.brought[1].samples == packed(agent.samples)
        assert len(agent.taken) - taken <= 1, "the report to the server that is back, and no poll"
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
    finally:
        server.stop()
