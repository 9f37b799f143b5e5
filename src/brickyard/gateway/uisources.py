"""Finds a cluster's Spark UI: at its driver while one runs, otherwise at a history server for its event logs."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import ApiError, InvalidState, ResourceDoesNotExist
from brickyard.domain.nodeops import LOGS, UI_OPEN, Nothing, ReadLogs
from brickyard.gateway.history import HistoryServers
from brickyard.gateway.jws import signed_token
from brickyard.gateway.sparkui import Upstream
from brickyard.services.attach import AttachService, RunningCluster
from brickyard.services.caller import Caller

TAIL = 1 << 20  # bytes of an executor's output
MAX_KNOWN = 10_000


class _Live(NamedTuple):
    incarnation: int
    url: str
    key: bytes
    way: str


class UiSources:
    """One per server."""

    def __init__(self, *, attach: AttachService, history: HistoryServers) -> None:
        self._attach = attach
        self._history = history
        self._live: dict[str, _Live] = {}
        self._without: set[tuple[str, int]] = set()  # drivers that have no UI

    async def find(self, caller: Caller, cluster_id: str) -> Upstream:
        """The UI of a cluster that the caller may attach to. Raises ApiError."""
        found = await self._attach.look(caller, cluster_id)
        cluster, driver = found.cluster, found.driver
        if driver is not None and (cluster_id, cluster.incarnation) not in self._without:
            try:
                live = await self._open(cluster, driver)
            except InvalidState:
                self._without.add((cluster_id, cluster.incarnation))
            else:
                return Upstream(live.url, signed_token(live.key), way=live.way)
        return await self._history.find(cluster_id, driver.instance_id if driver is not None else "")

    async def check(self, caller: Caller, cluster_id: str) -> None:
        """Raises ApiError if the caller may not attach to the cluster."""
        await self._attach.look(caller, cluster_id)

    def forget(self, cluster_id: str) -> None:
        """Drops the cached location of the UI, which does not answer."""
        self._live.pop(cluster_id, None)
        self._history.forget(cluster_id)

    async def executor_log(self, caller: Caller, cluster_id: str, executor: int, stream: str) -> bytes:
        """The end of an executor's output, from its worker or from the kept logs. Raises ApiError."""
        wanted = re.compile(rf"executor/[^/]+/{executor}/{stream}")
        for worker in await self._attach.workers(caller, cluster_id):
            try:
                listed = await self._attach.ask(worker, LOGS, ReadLogs())
                name = next((each.name for each in listed.files if wanted.fullmatch(each.name)), None)
                if name is None:
                    continue  # not this worker's executor
                answer = await self._attach.ask(worker, LOGS, ReadLogs(name=name, tail=TAIL))
            except ApiError:
                continue  # the worker is gone
            return answer.text.encode()
        kept = await self._history.kept_log(cluster_id, wanted, TAIL)
        if kept is None:
            raise ResourceDoesNotExist(f"The {stream} of executor {executor} of cluster {cluster_id} no longer exists.")
        return kept

    async def _open(self, cluster: Cluster, driver: Instance) -> _Live:
        known = self._live.get(cluster.cluster_id)
        if known is not None and known.incarnation == cluster.incarnation:
            return known
        opened = await self._attach.ask(driver, UI_OPEN, Nothing())
        if len(self._live) >= MAX_KNOWN:
            self._live.clear()
        host = RunningCluster(cluster, driver).host
        key = base64.urlsafe_b64decode(opened.key + "==")
        url = f"http://{host}:{opened.port}"
        live = self._live[cluster.cluster_id] = _Live(cluster.incarnation, url, key, opened.way)
        return live
