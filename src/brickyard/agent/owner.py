"""The agent, as the node that it has knows it."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.node import AskNotebook, AskSecrets, NotebookReply, SecretsReply
from brickyard.sandbox import launcher

UNHURRIED_S = 0.3  # for so long a change that nothing waits for may wait for one that matters: one report tells of both


class NodeOwner(Protocol):
    """The agent whose node this is (`run.Agent`), as the node knows it."""

    def status_changed(self) -> None:
        """Called on the event loop after every change of the node's status, within UNHURRIED_S."""
        ...

    async def isolation(self) -> launcher.Isolation:
        """How this machine isolates nodes."""
        ...

    async def ask(self, asked: AskSecrets) -> SecretsReply:
        """Asks a server for secrets. Never raises: an error is a reply."""
        ...

    async def read_notebook(self, asked: AskNotebook) -> NotebookReply:
        """Asks a server for a notebook. Never raises: an error is a reply."""
        ...
