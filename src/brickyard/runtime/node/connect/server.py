"""Spark Connect in the driver's JVM: the server and its sessions."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from ..jvm.scala import Scala
from ..protocol import bracketed

OWN_USER = "context"  # the user that Spark sees for our contexts' sessions
NEVER = -1  # no time limit, for Spark's session manager


class ConnectServer:
    """The server for Spark 4. Starts on first use. Every method may be called from any thread."""

    token_setting = "spark.connect.authenticate.token"  # noqa: S105 - its name

    def __init__(self, scala: Scala, spark_context: Any, *, preshared: str = "") -> None:
        """`preshared`: the token that every call must show; "" where a guard of ours checks calls."""
        self._scala = scala
        self._preshared = preshared
        self._sc = spark_context
        self._service: Any = None
        self._executions: Any = None
        self._lock = threading.Lock()
        self._own: set[str] = set()  # ids of our contexts' sessions

    def open(self) -> int:
        """Starts the server unless it is running; returns its port. Raises Py4JError.

        Spark's own plugin would start the server with the context, and every cluster start would wait.
        """
        with self._lock:
            if self._service is None:
                # Clients' sessions derive from this one, and fail if it does not exist yet.
                self._scala.session()
                service = self._scala.object("org.apache.spark.sql.connect.service", "SparkConnectService")
                self._start(service)
                self._service = service
            return self._port()

    def _start(self, service: Any) -> None:
        with self._token_set():
            service.start(self._sc)
        self._executions = service.executionManager()

    @contextlib.contextmanager
    def _token_set(self) -> Iterator[None]:
        """Sets the token no longer than the server needs to read it: sessions show their settings."""
        conf = self._sc.conf()
        try:
            if self._preshared:
                conf.set(self.token_setting, self._preshared)
            yield
        finally:
            conf.remove(self.token_setting)

    def _port(self) -> int:
        return int(self._service.localPort())

    def activity(self) -> tuple[bool, int]:
        """Returns whether anything runs through it, and a number that each end of an operation changes; 0 if none ever
        has ended."""
        if self._executions is None:
            return False, 0
        running = self._executions.listActiveExecutions()
        return (False, int(running.value())) if running.isLeft() else (True, 0)

    def sessions(self, limit: int) -> list[dict[str, Any]]:
        """Returns the sessions of outside clients, newest first. Raises Py4JError."""
        if self._service is None:
            return []
        listed = self._service.sessionManager().listActiveSessions()
        guests = (info for info in self._scala.items(listed) if str(info.sessionId()) not in self._own)
        found = (described(info, int(info.startTimeMs()), int(info.lastAccessTimeMs())) for info in guests)
        return sorted(itertools.islice(found, limit), key=lambda each: -int(each["started_ms"]))

    def make_session(self, session_id: str) -> None:
        """Makes a context's session, which lasts until `close_session`: Spark ends other sessions after an hour without use.
        The server must be open. Raises Py4JError."""
        self._own.add(session_id)
        holder = self._holder(OWN_USER, session_id)
        never = self._scala.jvm.java.util.OptionalLong.of(NEVER)
        holder.setCustomInactiveTimeoutMs(self._scala.jvm.scala.jdk.javaapi.OptionConverters.toScala(never))

    def own_session(self, session_id: str, owner: str, pool: str, user: str = OWN_USER) -> None:
        """Makes the session if there is none, and gives it its owner and the pool of its jobs; the first owner stays. `user`:
        Spark's name of its user. If the session is over, Spark itself tells its client. Raises Py4JError."""
        if self._service is None:
            return
        with contextlib.suppress(Py4JJavaError):
            session = self._holder(user, session_id).session()
            self._scala.java("brickyard.SessionOwner").name(session)
            self._scala.java("brickyard.SessionOwner").own(session, owner, pool, True)

    def _holder(self, user: str, session_id: str) -> Any:
        return self._service.sessionManager().getOrCreateIsolatedSession(self._key(session_id, user), self._scala.none)

    def interrupt(self, tag: str) -> None:
        """Ends what our contexts' sessions run under a tag. Raises Py4JError."""
        for session_id in sorted(self._own):
            found = self._service.sessionManager().getIsolatedSessionIfPresent(self._key(session_id))
            if found.isDefined():
                found.get().interruptTag(tag)

    def close_session(self, session_id: str) -> None:
        """Ends a context's session with everything that it runs and holds. Raises Py4JError."""
        self._own.discard(session_id)
        self._service.sessionManager().closeSession(self._key(session_id), False)

    def end_session(self, user: str, session_id: str) -> None:
        """Interrupts what a client's session runs, and ends the session soon: Spark waits for the interrupted. Does nothing if
        there is no such session. Raises Py4JError."""
        if self._service is None:
            return
        manager, key = self._service.sessionManager(), self._key(session_id, user)
        found = manager.getIsolatedSessionIfPresent(key)
        if found.isDefined():
            found.get().interruptAll()
            in_background(lambda: manager.closeSession(key, False))

    def stop(self) -> None:
        """Stops the server if it was ever started. Never raises."""
        if self._service is not None:
            with contextlib.suppress(Py4JError):
                self._service.stop(self._scala.none, self._scala.none)

    def _key(self, session_id: str, user: str = OWN_USER) -> Any:
        return self._scala.jvm.org.apache.spark.sql.connect.service.SessionKey(user, session_id)


def in_background(work: Callable[[], Any]) -> None:
    """Does what may take long in Spark. An error of Spark's is not reported."""

    def guarded() -> None:
        with contextlib.suppress(Py4JError, OSError):
            work()

    threading.Thread(target=guarded, name="connect-ending", daemon=True).start()


def server_url(host: str, port: int, token: str) -> str:
    """Returns the URL of a driver's Connect server. With `token=` PySpark would require TLS, which Spark's server does not
    speak."""
    return f"sc://{bracketed(host)}:{port}/;authorization=Bearer%20{token}"


def session_url(host: str, port: int, token: str, session_id: str) -> str:
    """Returns the URL of a context's session."""
    return f"{server_url(host, port, token)};user_id={OWN_USER};session_id={session_id}"


def described(info: Any, started_ms: int, last_used_ms: int) -> dict[str, Any]:
    """Describes a session for the agent, from Spark's object with `sessionId()` and `userId()`. Raises Py4JError."""
    return {
        "session_id": str(info.sessionId()),
        "user": str(info.userId()),
        "started_ms": started_ms,
        "last_used_ms": last_used_ms,
    }
