"""A Spark Connect session of its own for every kernel: all that a kernel gets of Spark where users are kept apart."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Protocol

from ..protocol import OpError
from .door import Door, DoorError


class Server(Protocol):
    """The driver's Spark Connect, as the role offers it."""

    def open_session(self, session_id: str) -> str:
        """Make a session; returns its URL (`sc://...`). Raises OpError."""
        ...

    def close_session(self, session_id: str) -> None:
        """End a session with all that it runs and holds. Does nothing where there is none."""
        ...


class Sessions:
    """Opens them."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def open(self) -> Door:
        """Raises DoorError."""
        session_id = str(uuid.uuid4())
        try:
            url = self._server.open_session(session_id)
        except OpError as error:
            raise DoorError(str(error)) from error
        # The second name is PySpark's own: with it, what user code imports is made for Spark Connect.
        env = {"SPARK_REMOTE": url, "SPARK_CONNECT_MODE_ENABLED": "1"}
        return Door(env, partial(self._server.close_session, session_id))

    def close(self) -> None:
        """Nothing is shared."""
