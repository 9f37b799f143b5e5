"""The ways into a driver's Spark from outside: Spark Connect with its sessions, and the web UI."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from ..connect.apart import ApartConnectServer
from ..connect.server import session_url
from ..jvm.errors import error_text
from ..protocol import OpError
from ..spark import conf as sparkconf
from . import failures
from .report import Report

if TYPE_CHECKING:
    from ..documents import AssignmentDocument
    from ..jvm.process import Jvm
    from ..spark.driver import Driver
    from ..spark.place import Place

MAX_SESSIONS = 200
OPEN_S = 60.0  # for the catalog, which has been read by then, however large it is


class DriverAccess:
    """One per driver, on any thread. Until `begin` there is no way in."""

    def __init__(self, *, jvm: Jvm, assignment: AssignmentDocument, place: Place, report: Report) -> None:
        self._jvm = jvm
        self._assignment = assignment
        self._place = place
        self._report = report
        self._driver: Driver | None = None
        self._open = threading.Event()  # set once sessions may be made
        self.connects = 0  # how often Spark Connect was opened

    def begin(self, driver: Driver) -> None:
        """Spark runs."""
        self._driver = driver

    def let_in(self) -> None:
        """Sessions may be made from now on."""
        self._open.set()

    def open_within(self, patience_s: float) -> bool:
        """Waits until sessions may be made, and returns whether they may."""
        return self._open.wait(patience_s)

    def open_connect(self) -> int:
        """Starts Spark Connect on the first call and returns its port. Every call counts as use of Spark Connect.
        Raises OpError."""
        driver = self._driver
        if driver is None or not self._report.ready or not self.open_within(OPEN_S):
            raise OpError("DEAD", "the driver is not ready")
        if why := sparkconf.without_connect(self._assignment, self._jvm.manifest):
            raise OpError("INVALID", why)
        try:
            port = driver.connect.open()
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark Connect could not start: {failures.plain_message(error_text(error))}") from error
        self.connects += 1
        self._report.tell(connect_port=port)
        return port

    def open_web_ui(self) -> dict[str, Any]:
        """Returns `{"port", "key"}`: the port of Spark's web UI, and the key (base64url) that signs the tokens it requires.
        Raises OpError."""
        driver = self._driver
        if driver is None or not self._report.ready:
            raise OpError("DEAD", "the driver is not ready")
        if sparkconf.spark_line(self._jvm.manifest) < (4, 0):
            raise OpError("INVALID", "Spark 3 cannot keep the users of other clusters out of its web UI")
        try:
            port = driver.open_web_ui(self._place.ui_key)
            self._report.tell(spark_ports=driver.ports())
            return {"port": port, "key": self._place.ui_key}
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark's web UI could not start: {failures.plain_message(error_text(error))}") from error

    def open_session(self, session_id: str) -> str:
        """Makes a Spark Connect session for a context on a cluster that isolates users, and returns its URL. Raises OpError."""
        port = self.open_connect()
        assert self._driver is not None  # noqa: S101 - `open_connect` has checked it
        connect = self._driver.connect
        assert isinstance(connect, ApartConnectServer)  # noqa: S101 - clusters that isolate users have this kind
        try:
            connect.make_session(session_id)
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark made no session: {failures.plain_message(error_text(error))}") from error
        return session_url(self._place.ports_host, port, connect.session_token(session_id), session_id)

    def own_session(self, session_id: str, owner: str, pool: str) -> None:
        """Says whose a context's session is, and the pool of its jobs. Raises OpError."""
        self._own(session_id, owner, pool)

    def own_clients_session(self, user: str, session_id: str, owner: str) -> None:
        """Says whose a client's session is. `user`: Spark's name of its user. Raises OpError."""
        self._own(session_id, owner, f"session-{session_id}", user)

    def _own(self, session_id: str, owner: str, pool: str, *user: str) -> None:
        if self._driver is None:
            return
        try:
            self._driver.connect.own_session(session_id, owner, pool, *user)
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark did not answer: {failures.plain_message(error_text(error))}") from error

    def stop_streams(self, pool: str) -> None:
        """Begins to end the streams of a context whose process is gone. Does nothing if the driver is gone."""
        driver = self._driver
        if driver is not None:
            with contextlib.suppress(Py4JError, OSError):
                driver.stop_streams(pool)

    def jobs(self, *, running: bool) -> list[dict[str, Any]]:
        """Returns Spark's jobs, or those that run, as its REST API shows them; none if the driver is gone."""
        driver = self._driver
        if driver is not None:
            with contextlib.suppress(Py4JError, OSError):
                return driver.jobs(running=running)
        return []

    def close_session(self, session_id: str) -> None:
        """Ends such a session with everything that it runs. Does nothing if the driver is gone."""
        driver = self._driver
        if driver is not None:
            with contextlib.suppress(Py4JError, OSError):
                driver.connect.close_session(session_id)

    def end_sessions(self, sessions: Sequence[Sequence[str]]) -> None:
        """Ends sessions of Spark Connect's clients, given as Spark's name of the user and id, with what they run. Raises
        OpError."""
        if self._driver is None:
            return
        try:
            for user, session_id in sessions:
                self._driver.connect.end_session(user, session_id)
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark did not answer: {failures.plain_message(error_text(error))}") from error

    def connect_sessions(self) -> list[dict[str, Any]]:
        """Returns the sessions of Spark Connect's clients. Raises OpError."""
        try:
            return self._driver.connect.sessions(MAX_SESSIONS) if self._driver is not None else []
        except (Py4JError, OSError) as error:
            raise OpError("DEAD", f"Spark did not answer: {failures.plain_message(error_text(error))}") from error
