"""What an agent makes of the answers to its long poll."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qs

from brickyard.agent.config import AgentConfig
from brickyard.agent.http import Client
from brickyard.agent.log import LogFile
from brickyard.agent.serverlink import ServerLink
from brickyard.domain.node import Assignment, AssignmentReply, StatusReport
from tests.agent.world import assignment


class Answered(ServerLink):
    """Gets these answers, one after the other."""

    answers: list[AssignmentReply]
    asked: list[str]  # the versions that it said it had

    async def _polled(self, client: Client, path: str, timeout_s: float) -> AssignmentReply | None:
        del client, timeout_s
        self.asked.append(parse_qs(path.partition("?")[2])["have"][0])
        return self.answers.pop(0)


def test_what_is_still_the_same_is_kept(tmp_path: Path) -> None:
    """An answer without an assignment ends the node, unless it says that nothing has changed."""
    given: list[Assignment | None] = []
    left: list[str] = []
    first = assignment()
    second = assignment(version=first.version + 1)

    def no_report() -> StatusReport:
        raise AssertionError("nothing is reported here")

    async def scenario() -> list[str]:
        config = AgentConfig(
            instance_id="i-1", agent_token="a", server_token="s", server_url="http://127.0.0.1:1", instance_dir=str(tmp_path),
            cache_dir=str(tmp_path), logs_dir=str(tmp_path), node_code_dir=str(tmp_path),
        )  # fmt: skip
        link = Answered(
            config=config, report=no_report, on_assignment=given.append, on_leave=left.append, log=LogFile(tmp_path / "log")
        )
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
    assert given == [first, second, None]
    assert asked == ["0", str(first.version), str(first.version), str(second.version), "0"]
    assert len(left) == 1
