"""Stands in for the agent whose node is tested without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brickyard.agent.contexts import Question
from brickyard.agent.host import HostListener, NodeHost
from brickyard.agent.owner import NodeOwner
from brickyard.domain.node import AskNotebook, AskSecrets, NotebookReply, SecretsReply
from brickyard.sandbox.launcher import Isolation


class Owner(NodeOwner):
    """An agent that starts nothing and asks nobody."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed

    def status_changed(self) -> None:
        self._changed()

    async def isolation(self) -> Isolation:
        raise AssertionError("nothing starts here")

    async def ask(self, asked: AskSecrets) -> SecretsReply:
        raise AssertionError(f"nothing is asked here: {asked}")

    async def read_notebook(self, asked: AskNotebook) -> NotebookReply:
        raise AssertionError(f"nothing is asked here: {asked}")


class Listener(HostListener):
    """Hears a host that has nothing to say but log lines."""

    def redact(self, text: str) -> str:
        return text

    def host_logs(self, line: str) -> None:
        pass

    def host_reports(self, changes: dict[str, Any]) -> None:
        raise AssertionError(changes)

    def host_asks(self, host: NodeHost, question: Question) -> None:
        raise AssertionError(question)

    async def host_asks_metastore(self, request: bytes) -> dict[str, Any]:
        raise AssertionError(request)

    def host_ended(self, host: NodeHost) -> None:
        pass
