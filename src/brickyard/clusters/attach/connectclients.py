"""Records which user and program uses which Spark Connect session.

Spark identifies a session by its id and by the user name that the client gives, which is often "root" or "spark". Every call
passes the gateway with a token and names its program. This record is only for display and kept in memory: a restarted server
learns of a session with its next call.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

KEPT = 10_000  # sessions


class Session(NamedTuple):
    """A session as Spark identifies it."""

    cluster_id: str
    user: str  # the name that the client gives; if users are kept apart, the gateway's name for its user
    session_id: str


class ConnectClient(NamedTuple):
    """The last caller in a session, and its program."""

    user_name: str
    client_type: str


class ConnectClients:
    """One per server."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Session, ConnectClient] = OrderedDict()

    def saw(self, session: Session, client: ConnectClient) -> bool:
        """Records a call in that session; returns whether it is the first one that this server sees. Beyond the limit, the
        session that was silent for longest is forgotten."""
        known = self._seen.pop(session, None)
        if known is not None and not client.client_type:
            client = client._replace(client_type=known.client_type)
        self._seen[session] = client
        if len(self._seen) > KEPT:
            self._seen.popitem(last=False)
        return known is None

    def ended(self, session: Session) -> bool:
        """Forgets a session that its client has ended; returns whether it was known."""
        return self._seen.pop(session, None) is not None

    def find(self, session: Session) -> ConnectClient | None:
        return self._seen.get(session)
