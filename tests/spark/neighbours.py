"""The cluster of another user, beside what a test does to the machine or to its own cluster: it must notice nothing of it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import CommandStatus, Kind, ResultType, State
from databricks.sdk.service.iam import ComplexValue

from tests.spark.live import User
from tests.support.runtimes import SPARK_4

# A job each second until the other context says that it is enough; no file, since a test may take all disk space.
COUNT = """
import socket
enough = socket.socket(socket.AF_UNIX)
enough.bind("\\0" + MARK)
enough.listen()
enough.settimeout(1)
counted = 0
while True:
    assert spark.range(7).count() == 7
    counted += 1
    try:
        enough.accept()
        break
    except TimeoutError:
        pass
print(counted > 0)
"""
STATE = "print(MARK, os.getpid(), spark.sparkContext.applicationId, spark.range(9).count())"
ENOUGH = "socket.socket(socket.AF_UNIX).connect('\\0' + MARK)"


class Neighbour:
    """A user with a small cluster: one context counts, the other keeps a value."""

    def __init__(self, admin: User, runtime: str, **fields: Any) -> None:
        self._admin, self._mark = admin, secrets.token_hex(8)
        name = f"{self._mark}@example.com"
        admin.w.users.create(user_name=name, entitlements=[ComplexValue(value="allow-cluster-create")])
        made = admin.w.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
        assert isinstance(made, dict)
        self._token = str(made["token_value"])
        alone: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW, "autotermination_minutes": 0}
        self.cluster_id = self.user.create(name, runtime, **alone | fields)
        self.user.wait(self.cluster_id, State.RUNNING)
        mark = f"import os, socket\nMARK = {self._mark!r}\n"
        self._counting, self._keeping = self.user.context(self.cluster_id), self.user.context(self.cluster_id)
        self._count = self.user.begin(self.cluster_id, self._counting, mark + COUNT)
        self._state = self._answer(self._keeping, self.user.begin(self.cluster_id, self._keeping, mark + STATE))
        self._driver, self._events = self.user.get(self.cluster_id).driver, self.user.events(self.cluster_id)

    @property
    def user(self) -> User:
        """The admin's server may have been started anew, with another URL."""
        user = User(WorkspaceClient(host=self._admin.w.config.host, token=self._token))
        user.patience_s = self._admin.patience_s
        return user

    def assert_unmoved(self, *, expected: frozenset[str] = frozenset()) -> None:
        """The cluster runs as before, with no other events than `expected` ones; it counted all the time and has its state."""
        now = self.user.get(self.cluster_id)
        assert (now.state, now.driver) == (State.RUNNING, self._driver), now
        state = self.user.begin(self.cluster_id, self._keeping, STATE)
        assert self._answer(self._keeping, state) == self._state
        counting = self.user.w.command_execution.command_status(self.cluster_id, self._counting, self._count)
        assert counting.status is CommandStatus.RUNNING, counting
        enough = self.user.begin(self.cluster_id, self._keeping, ENOUGH)
        assert self._answer(self._keeping, enough) == ""
        assert self._answer(self._counting, self._count) == "True"
        assert [event for event in self.user.events(self.cluster_id) if event not in expected] == self._events

    def _answer(self, context_id: str, command_id: str) -> str:
        answer = self.user.finish(self.cluster_id, context_id, command_id)
        assert answer.results is not None and answer.results.result_type is ResultType.TEXT, answer
        return str(answer.results.data or "")


@contextlib.contextmanager
def neighbour(
    admin: User, runtime: str = SPARK_4, *, expected: frozenset[str] = frozenset(), **fields: Any
) -> Iterator[Neighbour]:
    """A neighbour, who at the end has noticed nothing of the block."""
    made = Neighbour(admin, runtime, **fields)
    yield made
    made.assert_unmoved(expected=expected)
