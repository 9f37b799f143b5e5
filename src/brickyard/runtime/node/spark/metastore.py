"""The way from Spark's catalog to the workspace's metastore: questions go to the agent, which has its files, and answers back.

The JVM has no way to the agent itself, so that nothing but this process and the JVM can ask.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from py4j.protocol import Py4JError

TAKE_MS = 10_000  # for as long the JVM lets one call wait for a question


class Agent(Protocol):
    """The node's agent, as its metastore's callers see it."""

    def ask_metastore(self, number: int, request: Mapping[str, Any]) -> None:
        """Sends a question. Its answer comes back with the number."""
        ...


class MetastoreWay:
    """Passes questions and answers on."""

    def __init__(self, jvm: Any, agent: Agent) -> None:
        """Raises Py4JError."""
        self.channel = jvm.brickyard.CatalogChannel()
        self._agent = agent

    def run(self, stopped: Callable[[], bool]) -> None:
        """Passes questions on until the JVM has ended."""
        with contextlib.suppress(Py4JError, OSError):  # the JVM's end is reported elsewhere
            while not stopped():
                if (asked := self.channel.take(TAKE_MS)) is not None:
                    number, _, question = str(asked).partition(" ")
                    self._agent.ask_metastore(int(number), json.loads(question))

    def answer(self, number: int, answer: Mapping[str, Any]) -> None:
        """Raises Py4JError."""
        self.channel.answer(number, json.dumps(answer, separators=(",", ":")))
