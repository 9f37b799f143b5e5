"""Clients of the servers that benchmarks measure: one caller that waits, and many at once."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import aiohttp

from bench._harness import cpu_s
from bench._servers import TOKEN

POLL_S = 0.02
IDLE_S = 1.0
PATIENCE_S = 180.0
CLUSTERS = "/api/2.1/clusters"
SIZE = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
BODY = json.dumps({"cluster_name": "b", **SIZE, "num_workers": 1})
ALONE = {"num_workers": 0, "spark_conf": {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}}


class RefusedError(RuntimeError):
    """A call that failed."""

    def __init__(self, path: str, status: int, answer: object) -> None:
        super().__init__(f"{path} answered {status}: {answer}")
        self.status = status


def later_s(status: int, retry_after: str | None) -> float | None:
    """How long to wait before a request is repeated, as Databricks' SDK does; None if the answer is final."""
    return float(retry_after or 1) if status in (429, 503) else None


class Api:
    """A client over one kept-alive connection, so that measuring costs next to nothing."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        self._used = 0.0

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One request, repeated when the server asks for that, as every client does. Raises RefusedError."""
        data = json.dumps(body) if body is not None else None
        while True:
            if time.monotonic() - self._used > IDLE_S:  # the server closes connections that are idle for some seconds
                self._connection.close()
            self._connection.request(method, path, body=data, headers=self._headers)
            answer = self._connection.getresponse()
            content = answer.read()
            self._used = time.monotonic()
            wait_s = later_s(answer.status, answer.headers.get("Retry-After"))
            if wait_s is None:
                break
            time.sleep(wait_s)
        if answer.status >= 300:
            raise RefusedError(path, answer.status, content)
        found: dict[str, Any] = json.loads(content or b"{}")
        return found

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def post(self, path: str, /, **body: Any) -> dict[str, Any]:
        return self.call("POST", path, body)

    def until(
        self, path: str, key: str, wanted: str, refused: Sequence[str], *, every_s: float = POLL_S, patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """Polls until `key` of the answer is `wanted`. Raises RuntimeError when it is one of `refused`, or on timeout."""
        deadline = time.monotonic() + patience_s
        while True:
            found = self.get(path)
            if found[key] == wanted:
                return found
            if found[key] in refused or time.monotonic() > deadline:
                raise RuntimeError(f"{path} did not become {wanted}: {found}")
            time.sleep(every_s)

    def create(self, name: str, **spec: Any) -> str:
        """The id of a new cluster, with one worker unless `spec` says otherwise."""
        return str(self.post(f"{CLUSTERS}/create", cluster_name=name, **{"num_workers": 1, **spec})["cluster_id"])

    def running(self, cluster_id: str) -> None:
        """Waits until the cluster is RUNNING."""
        self.until(f"{CLUSTERS}/get?cluster_id={cluster_id}", "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))

    def all_running(self, lists: str = "2.0") -> None:
        """Waits until every cluster is RUNNING. `lists`: the API version whose list has no pages."""
        while any(each["state"] != "RUNNING" for each in self.get(f"/api/{lists}/clusters/list")["clusters"]):
            time.sleep(0.5)

    def end(self, cluster_id: str) -> None:
        """Terminates the cluster, and waits until it is TERMINATED."""
        self.post(f"{CLUSTERS}/delete", cluster_id=cluster_id)
        self.until(f"{CLUSTERS}/get?cluster_id={cluster_id}", "state", "TERMINATED", ())

    @contextlib.contextmanager
    def cluster(self, name: str, **spec: Any) -> Iterator[str]:
        """The id of a cluster that is RUNNING. It has ended afterwards."""
        cluster_id = self.create(name, **spec)
        try:
            self.running(cluster_id)
            yield cluster_id
        finally:
            self.end(cluster_id)

    def context(self, cluster_id: str) -> str:
        """The id of a new context that is Running."""
        context = str(self.post("/api/1.2/contexts/create", clusterId=cluster_id, language="python")["id"])
        at = f"clusterId={cluster_id}&contextId={context}"
        self.until(f"/api/1.2/contexts/status?{at}", "status", "Running", ("Error",))
        return context

    def begin(self, cluster_id: str, context: str, code: str) -> str:
        """Starts a command, and returns its id."""
        asked = {"clusterId": cluster_id, "contextId": context, "language": "python", "command": code}
        return str(self.call("POST", "/api/1.2/commands/execute", asked)["id"])

    def command(
        self, cluster_id: str, context: str, code: str, *, every_s: float = POLL_S, patience_s: float = PATIENCE_S
    ) -> str:
        """What a command printed. Raises RuntimeError if it fails."""
        ran = self.begin(cluster_id, context, code)
        path = f"/api/1.2/commands/status?clusterId={cluster_id}&contextId={context}&commandId={ran}"
        found = self.until(path, "status", "Finished", ("Error", "Cancelled"), every_s=every_s, patience_s=patience_s)["results"]
        if found["resultType"] != "text" or found.get("truncated"):
            raise RuntimeError(f"{code} failed: {found.get('cause') or found}")
        return str(found.get("data", "")).strip()

    def first_result(self, cluster_id: str, code: str) -> str:
        """What code printed as the first command of a new context."""
        return self.command(cluster_id, self.context(cluster_id), code)


# ── many callers at once ────────────────────────────────────────────────────────────────────────────────────────────────────────


def session(*, limit: int = 0, timeout_s: float = 300.0, token: str = TOKEN) -> aiohttp.ClientSession:
    """`limit`: the most connections; 0: any number."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    return aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=limit), timeout=timeout)


async def patiently(
    opened: aiohttp.ClientSession, method: str, url: str, body: str = "", *, statuses: Container[int] = (200,)
) -> None:
    """One request, repeated while it is refused for now. Raises RuntimeError unless the last answer has one of `statuses`."""
    while True:
        async with opened.request(method, url, data=body or None) as answer:
            data = await answer.read()
        wait_s = later_s(answer.status, answer.headers.get("Retry-After"))
        if wait_s is None:
            if answer.status not in statuses:
                raise RuntimeError(f"{url} answered {answer.status}: {data[:300]!r}")
            return
        await asyncio.sleep(wait_s)


async def numbers(opened: aiohttp.ClientSession, url: str, metric: str) -> Counter[str]:
    """A metric of the server, by the value of its label."""
    async with opened.get(f"{url}/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if line.startswith(f"{metric}{{")]
    return Counter({line.split('"')[1]: int(float(line.split()[-1])) for line in lines})


async def paced(rate: float, seconds: float) -> AsyncIterator[int]:
    """Numbers, so many a second, for that long."""
    began = time.monotonic()
    for number in itertools.count():
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        if time.monotonic() - began > seconds:
            return
        yield number


async def flood(urls: Sequence[str], count: int, body: str, *, width: int = 16, every_s: float = 0.2) -> None:
    """Creates so many clusters through the servers in turn, and returns once all are RUNNING."""
    left = iter(range(count))
    async with session(limit=100) as opened:

        async def create() -> None:
            for number in left:
                await patiently(opened, "POST", f"{urls[number % len(urls)]}{CLUSTERS}/create", body)

        await asyncio.gather(*(create() for _ in range(width)))
        while (states := await numbers(opened, urls[0], "brickyard_clusters"))["RUNNING"] < count:
            if states["TERMINATED"]:
                raise RuntimeError(f"clusters ended: {states}")
            await asyncio.sleep(every_s)


class Load(NamedTuple):
    """Requests per second, and the server's CPU microseconds per request."""

    rate: float
    cpu_us: float


def load(
    pid: int,
    method: str,
    url: str,
    *,
    token: str = TOKEN,
    body: str = "",
    requests: int,
    rounds: int = 5,
    width: int = 16,
    statuses: Container[int] = (200,),
) -> Load:
    """Sends `requests` requests, `width` at a time, in each of `rounds` rounds after a warm-up; the medians of the rounds."""

    async def work() -> Load:
        found = []
        async with session(limit=width, token=token) as opened:

            async def some(count: int) -> None:
                left = iter(range(count))

                async def worker() -> None:
                    for _ in left:
                        await patiently(opened, method, url, body, statuses=statuses)

                await asyncio.gather(*(worker() for _ in range(width)))

            await some(max(width, requests // 5))
            for _ in range(rounds):
                cpu, began = cpu_s(pid), time.perf_counter()
                await some(requests)
                found.append((requests / (time.perf_counter() - began), (cpu_s(pid) - cpu) * 1e6 / requests))
        return Load(*map(statistics.median, zip(*found, strict=True)))

    return asyncio.run(work())
