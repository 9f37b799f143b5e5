"""Finds and authorises the target of a caller's Spark Connect calls, once every few seconds instead of with every call."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from brickyard.clusters.attach.service import AttachService, RunningCluster
from brickyard.domain.audit import CONNECT_STARTED
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Monotonic
from brickyard.domain.cluster import Instance
from brickyard.domain.nodeops import CONNECT_OPEN, Nothing
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.spec import ISOLATING_MODES
from brickyard.nodes.ways import short
from brickyard.plan.attach import Client

FRESH_S = 2.0  # how long a revoked permission or a replaced driver may still count
OPEN_S = 30.0  # an endpoint in use is requested again this often, which tells the driver that it is in use
MAX_KNOWN = 10_000


class Endpoint(NamedTuple):
    """Spark Connect of one start of one cluster: its address, the token for it, and the driver. With `users_apart`, sessions
    belong to the users whose tokens the calls bear, not to the users that the clients name."""

    cluster_id: str
    incarnation: int
    address: str
    token: str
    users_apart: bool
    driver: Instance


class _Known(NamedTuple):
    endpoint: Endpoint
    until: float


class Endpoints:
    """One per server, for one event loop."""

    def __init__(
        self,
        *,
        attach: AttachService,
        patience_s: float,
        may_start: bool,
        note: Note = unnoted,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._attach = attach
        self._patience_s = patience_s
        self._may_start = may_start
        self._note = note
        self._monotonic = monotonic
        self._known: dict[tuple[str, str, Client], _Known] = {}
        self._opened: dict[tuple[str, int], tuple[Endpoint, float]] = {}
        self._openings: dict[tuple[str, int], asyncio.Task[Endpoint]] = {}

    async def find(
        self,
        caller: Caller,
        cluster_id: str,
        *,
        client: Client,
        finishes: bool = False,
        address: str = "",
    ) -> Endpoint:
        """The endpoint for this caller and kind of work; waits while the cluster starts. `finishes`: the call is about something
        that runs already, which a cluster that is about to stop may let finish. `address`: the client's. Raises ApiError."""
        key = (caller.user_name, cluster_id, client)
        known = self._known.get(key)
        if known is not None and self._monotonic() < known.until:
            return known.endpoint
        if finishes and (last := await self._attach.finishing(caller, cluster_id, client=client)) is not None:
            return await self._open(last)  # not to be known: other calls must not find it

        def noted() -> None:
            self._note(CONNECT_STARTED, caller, address=address, cluster_id=cluster_id)

        # A client that goes away says so: that starts no cluster which has ended meanwhile.
        on_start = noted if self._may_start and not finishes else None
        running = await self._attach.running(caller, cluster_id, client=client, patience_s=self._patience_s, on_start=on_start)
        endpoint = await self._open(running)
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = _Known(endpoint, self._monotonic() + FRESH_S)
        return endpoint

    def forget(self, endpoint: Endpoint) -> None:
        """Drops an endpoint that does not answer, so that the next call looks again."""
        self._known = {key: known for key, known in self._known.items() if known.endpoint != endpoint}
        self._opened.pop((endpoint.cluster_id, endpoint.incarnation), None)

    async def _open(self, running: RunningCluster) -> Endpoint:
        """Asks the driver for its port, which also tells it that it is in use. Only the first caller waits."""
        key = (running.cluster.cluster_id, running.driver.generation)
        opened = self._opened.get(key)
        if opened is not None and self._monotonic() < opened[1]:
            return opened[0]
        opening = self._openings.get(key)
        if opening is None:
            opening = self._openings[key] = asyncio.create_task(self._ask(running))
            opening.add_done_callback(lambda done: self._asked(key, done))
        return opened[0] if opened is not None else await asyncio.shield(opening)

    async def _ask(self, running: RunningCluster) -> Endpoint:
        cluster = running.cluster
        opened = await self._attach.ask(running.driver, CONNECT_OPEN, Nothing())
        address = f"unix:{short(opened.way)}" if opened.way else f"{running.host}:{opened.port}"
        apart = cluster.spec.data_security_mode in ISOLATING_MODES
        # A restart that lets finish what runs has new secrets already; the driver has its own ones.
        token = running.driver.assignment.connect_token if running.driver.assignment is not None else cluster.connect_token
        return Endpoint(cluster.cluster_id, running.driver.generation, address, token, apart, running.driver)

    def _asked(self, key: tuple[str, int], done: asyncio.Task[Endpoint]) -> None:
        self._openings.pop(key, None)
        for old in [old for old in self._opened if old[0] == key[0]]:
            del self._opened[old]
        if not done.cancelled() and done.exception() is None:
            if len(self._opened) >= MAX_KNOWN:
                self._opened.clear()
            self._opened[key] = (done.result(), self._monotonic() + OPEN_S)
