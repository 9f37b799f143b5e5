"""Spark Connect in Spark 3: its server is a Maven artifact, asks for no token and keeps no list of sessions.

Therefore every call passes our guard (TokenGuard.java), and the sessions are those that Spark's web UI would show.
"""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from ..jvm.janino import DRIVER_JAVA, at_hand
from .server import ConnectServer, described, in_background

GUARD_SOURCE = DRIVER_JAVA / "TokenGuard.java"


class OlderConnectServer(ConnectServer):
    """The server for Spark 3. It cannot make sessions from within: isolating users needs Spark 4."""

    token_setting = "spark.brickyard.connect.token"  # noqa: S105 - where TokenGuard.java looks for it when it is made

    def _start(self, service: Any) -> None:
        takes_context = not str(self._sc.version()).startswith("3.4.")
        with at_hand(self._scala, GUARD_SOURCE), self._token_set():
            service.start(*([self._sc] if takes_context else []))
        with contextlib.suppress(Py4JError):  # 3.4 does not report what runs; its jobs count as the driver's
            self._executions = service.executionManager()

    def _port(self) -> int:
        return int(self._scala.field(self._service, "server").getPort())  # 3.4 has no method for this

    def _holder(self, user: str, session_id: str) -> Any:
        return self._service.getOrCreateIsolatedSession(user, session_id)

    def end_session(self, user: str, session_id: str) -> None:
        """Interrupts what a client's session runs. The session itself stays, as Spark 3 gives no way to end one. 3.4 cannot
        interrupt: there, a call whose client has gone runs to its end."""
        if self._executions is None:
            return
        with contextlib.suppress(Py4JJavaError):  # no such session
            holder = self._service.getIsolatedSession(user, session_id)
            holder.interruptAll()
            for query in holder.session().streams().active():
                in_background(query.stop)

    def sessions(self, limit: int) -> list[dict[str, Any]]:
        """Returns the connected sessions, newest first. Empty on 3.4, where Spark does not report them. Raises Py4JError."""
        if self._executions is None:
            return []
        shown = self._scala.jvm.org.apache.spark.sql.connect.ui.SparkConnectServerAppStatusStore(self._sc.statusStore().store())
        used: dict[str, int] = {}
        for each in self._scala.items(shown.getExecutionList()):
            name = str(each.sessionId())
            used[name] = max(used.get(name, 0), int(each.startTimestamp()), int(each.closeTimestamp()))
        found = []
        for each in self._scala.items(shown.getSessionList()):
            if not int(each.finishTimestamp()):
                started = int(each.startTimestamp())
                found.append(described(each, started, max(started, used.get(str(each.sessionId()), 0))))
        return sorted(found, key=lambda each: -int(each["started_ms"]))[:limit]
