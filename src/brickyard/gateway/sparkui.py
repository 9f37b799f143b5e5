"""`/spark-ui/{cluster_id}/...`: the Spark UI of a cluster, at its driver while one runs, else at a history server."""

from __future__ import annotations

import base64
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from starlette.types import Scope

from brickyard.clusters.attach.service import AttachService, RunningCluster
from brickyard.domain.audit import UI_OPENED
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import ApiError, InvalidState, ResourceDoesNotExist, TemporarilyUnavailable
from brickyard.domain.nodeops import LOGS, UI_OPEN, Nothing, ReadLogs
from brickyard.gateway import pages
from brickyard.gateway.answers import with_query
from brickyard.gateway.history import HistoryServers
from brickyard.gateway.jws import signed_token
from brickyard.gateway.pages import Upstream
from brickyard.gateway.webproxy import Address, Answer, WebSource, below

if TYPE_CHECKING:
    import aiohttp

TAIL = 1 << 20  # bytes of an executor's output
MAX_KNOWN = 10_000
_LOGS = re.compile(r"/executor-logs/(\d{1,9})/(stdout|stderr)")
_PASSED_ON = frozenset({b"accept", b"accept-language", b"if-none-match", b"if-modified-since", b"range"})


class _Live(NamedTuple):
    incarnation: int
    url: str
    key: bytes
    way: str


class SparkUi(WebSource[Upstream]):
    """One per server."""

    prefix = "/spark-ui/"
    pattern = below(r"/spark-ui/(?P<cluster_id>[A-Za-z0-9-]{1,64})")
    usage = "The Spark UI of a cluster is at /spark-ui/CLUSTER-ID/."
    operation = UI_OPENED
    missing = "The Spark UI requires permission to attach to the cluster."
    read_s = 120.0
    read_only = True
    allowed = pages.ALLOWED

    def __init__(self, *, attach: AttachService, history: HistoryServers) -> None:
        self._attach = attach
        self._history = history
        self._live: dict[str, _Live] = {}
        self._without: set[tuple[str, int]] = set()  # drivers that have no UI

    async def find(self, caller: Caller, address: Address) -> Upstream:
        cluster_id = address.cluster_id
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

    async def check(self, caller: Caller, address: Address) -> None:
        await self._attach.look(caller, address.cluster_id)

    def forget(self, address: Address) -> TemporarilyUnavailable:
        self._live.pop(address.cluster_id, None)  # of a history server, the next `find` notices
        return TemporarilyUnavailable(f"The Spark UI of cluster {address.cluster_id} does not answer. Try again.")

    async def own_text(self, caller: Caller, address: Address) -> bytes | None:
        match = _LOGS.fullmatch(address.path)
        return None if match is None else await self.executor_log(caller, address.cluster_id, int(match[1]), match[2])

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

    def elsewhere(self, upstream: Upstream, address: Address, scope: Scope) -> str:
        return upstream.elsewhere(address.path, scope["query_string"].decode("latin-1"))

    def request(self, upstream: Upstream, address: Address, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"] if name in _PASSED_ON]
        own = {
            "Authorization": f"Bearer {upstream.bearer}",
            "X-Forwarded-Context": address.prefix,
            "Accept-Encoding": "identity",
        }
        return with_query(address.path, scope), [*headers, *own.items()]

    def answer(self, upstream: Upstream, address: Address, response: aiohttp.ClientResponse, *, https: bool) -> Answer:
        rewrite = {"text/html": pages.page, "application/json": pages.data}.get(response.content_type)
        return Answer(
            pages.response_headers(response.raw_headers, prefix=address.prefix),
            partial(rewrite, prefix=address.prefix) if rewrite is not None else None,
        )

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
