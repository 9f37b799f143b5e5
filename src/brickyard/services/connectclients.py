"""Who uses which Spark Connect session, as their calls show.

Spark knows a session by its id and by what the client calls its user, which is "root" or "spark" for many. Every call passes the
gateway with a token, and says which program it comes from. This is for lists, and kept in memory only: a restarted server knows a
session again from its next call on.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

KEPT = 10_000  # sessions


class Session(NamedTuple):
    """A session as Spark knows it."""

    cluster_id: str
    user: str  # what the client calls itself; where users are kept apart, what the gateway calls its user
    session_id: str


class ConnectClient(NamedTuple):
    """Who called in a session last, and with what."""

    user_name: str
    client_type: str


class ConnectClients:
    """One per server."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Session, ConnectClient] = OrderedDict()

    def saw(self, session: Session, client: ConnectClient) -> None:
        """A call in that session. Of more sessions than are kept, the one that was silent for longest is forgotten."""
        known = self._seen.pop(session, None)
        if known is not None and not client.client_type:
            client = client._replace(client_type=known.client_type)
        self._seen[session] = client
        if len(self._seen) > KEPT:
            self._seen.popitem(last=False)

    def find(self, session: Session) -> ConnectClient | None:
        return self._seen.get(session)
