"""Gives every kernel its own Spark Connect session: a kernel's only access to Spark on clusters that isolate users."""

from __future__ import annotations

import uuid
from typing import Protocol

from ..protocol import OpError
from .sparkaccess import SparkAccess, SparkAccessError


class Server(Protocol):
    """The driver's Spark Connect."""

    def open_session(self, session_id: str) -> str:
        """Makes a session and returns its URL (`sc://...`). Raises OpError."""
        ...

    def own_session(self, session_id: str, owner: str, pool: str) -> None:
        """Says whose a session is, and the pool of its jobs. Raises OpError."""
        ...

    def close_session(self, session_id: str) -> None:
        """Ends a session with everything that it runs and holds. Does nothing if there is none."""
        ...


class Sessions:
    """Opens sessions for kernels."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def open(self) -> SparkAccess:
        """Opens one. Raises SparkAccessError."""
        session_id = str(uuid.uuid4())
        try:
            url = self._server.open_session(session_id)
        except OpError as error:
            raise SparkAccessError(str(error)) from error
        # PySpark itself reads the second variable: with it, user code imports the Spark Connect versions.
        env = {"SPARK_REMOTE": url, "SPARK_CONNECT_MODE_ENABLED": "1"}
        return _Session(self._server, session_id, env)

    def close(self) -> None:
        """Does nothing: kernels share nothing here."""


class _Session:
    """One kernel's session."""

    def __init__(self, server: Server, session_id: str, env: dict[str, str]) -> None:
        self._server = server
        self._session_id = session_id
        self.env = env

    def own(self, user: str, pool: str) -> None:
        try:
            self._server.own_session(self._session_id, user, pool)
        except OpError as error:
            raise SparkAccessError(str(error)) from error

    def close(self) -> None:
        self._server.close_session(self._session_id)
