"""People who use a workspace of several servers: each has clusters and runs of their own, and knows what they must look like.

A call goes to any server. One that a server's end cut off may or may not have been done: creating and submitting carry an
idempotency token and are asked again, everything else is asked again until it is seen.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from tests.support.patience import PATIENCE_S

KEY = "17.3.x-scala2.13"
NODE = "m5.large"


def seeded(seed: float) -> random.Random:
    """The same choices for the same seed."""
    return random.Random(seed)  # noqa: S311 - choices of a test, not secrets


class Refused(Exception):
    """An API error that is no trouble of a server."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.code = code


class Caller:
    """Calls any server; `urls` are those that serve now. `steps` counts what was answered."""

    def __init__(self, urls: Callable[[], list[str]], token: str, chance: random.Random) -> None:
        self._urls = urls
        self._chance = chance
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"}, timeout=aiohttp.ClientTimeout(total=30, sock_connect=2)
        )
        self.steps = 0
        self.retried = 0
        self.trouble_s = 0.0  # the longest time for which one call was not answered by anybody

    async def close(self) -> None:
        await self._session.close()

    async def call(self, method: str, path: str, /, **body: Any) -> dict[str, Any]:
        """Ask until somebody answers. Raises Refused."""
        began = time.monotonic()
        while True:
            urls = self._urls()
            url = self._chance.choice(urls) if urls else None
            try:
                if url is not None:
                    answer = await self.once(url, method, path, body)
                    self.trouble_s = max(self.trouble_s, time.monotonic() - began)
                    return answer
            except (aiohttp.ClientError, TimeoutError, Unavailable):
                self.retried += 1
            assert time.monotonic() - began < PATIENCE_S, f"nobody answers {method} {path}"
            await asyncio.sleep(0.05)

    async def once(self, url: str, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask that server. Raises Refused, Unavailable, aiohttp.ClientError, TimeoutError."""
        sent: dict[str, Any] = {"params": body} if method == "GET" else {"json": body}
        async with self._session.request(method, f"{url}/api/{path}", **sent) as response:
            answer: dict[str, Any] = await response.json(content_type=None)
            if response.status in (429, 503):
                raise Unavailable(str(answer))
            if response.status >= 400:
                raise Refused(response.status, answer.get("error_code", ""), str(answer.get("message")))
            self.steps += 1
            return answer


class Unavailable(Exception):
    """Ask again."""


async def eventually(check: Callable[[], Any], what: str) -> Any:
    """The first true answer of an asynchronous check."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := await check()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s"
        await asyncio.sleep(0.05)
    return answer


class Person:
    """One who does one thing after the other. `live` maps each cluster to the number of its workers (None: terminated)."""

    def __init__(self, name: str, caller: Caller, chance: random.Random) -> None:
        self.name = name
        self.caller = caller
        self.chance = chance
        self.live: dict[str, int | None] = {}
        self.nodes: dict[str, frozenset[str]] = {}  # of each cluster that runs, as first seen
        self.runs: dict[int, str] = {}  # run -> the command that it must have run once
        self._made = 0

    async def step(self) -> None:
        """One random thing."""
        running = [key for key, size in self.live.items() if size is not None]
        stopped = [key for key, size in self.live.items() if size is None]
        doings: list[Callable[[], Any]] = [self.submit]
        if len(self.live) < 4:
            doings.append(self.create)
        if running:
            key = self.chance.choice(running)
            doings += [lambda: self.look(key)] * 4
            doings += [lambda: self.resize(key), lambda: self.stop(key), lambda: self.restart(key)]
        if stopped:
            again = self.chance.choice(stopped)
            doings += [lambda: self.start(again), lambda: self.remove(again), lambda: self.look(again)]
        await self.chance.choice(doings)()

    async def create(self) -> None:
        self._made += 1
        size = self.chance.randint(0, 3)
        token = f"{self.name}-{self._made}"
        spec = {
            "cluster_name": token,
            "spark_version": KEY,
            "node_type_id": NODE,
            "num_workers": size,
        }
        if size == 0:
            spec |= {"is_single_node": True, "kind": "CLASSIC_PREVIEW"}
        made = await self.caller.call("POST", "2.1/clusters/create", idempotency_token=token, **spec)
        self.live[made["cluster_id"]] = size
        await self.settled(made["cluster_id"])

    async def look(self, key: str) -> None:
        """Nothing has changed by itself."""
        await self.settled(key)

    async def resize(self, key: str) -> None:
        if not self.live[key]:
            return  # a single node stays one
        size = self.chance.randint(1, 4)
        await self._ask("resize", key, num_workers=size)
        self.live[key] = size
        self.nodes.pop(key, None)
        await self.settled(key)

    async def stop(self, key: str) -> None:
        await self._ask("delete", key)
        self.live[key] = None
        self.nodes.pop(key, None)
        await self.settled(key)

    async def start(self, key: str) -> None:
        shown = await self.caller.call("GET", "2.1/clusters/get", cluster_id=key)
        await self._ask("start", key)
        self.live[key] = shown["num_workers"]
        await self.settled(key)

    async def restart(self, key: str) -> None:
        await self._ask("restart", key)
        self.nodes.pop(key, None)
        await self.settled(key)

    async def remove(self, key: str) -> None:
        await self._ask("permanent-delete", key)
        del self.live[key]
        self.nodes.pop(key, None)

    async def submit(self) -> None:
        """A run on a cluster of its own, which must succeed and have run its command once."""
        self._made += 1
        token = f"{self.name}-run-{self._made}"
        made = await self.caller.call(
            "POST",
            "2.1/jobs/runs/submit",
            run_name=token,
            idempotency_token=token,
            tasks=[
                {
                    "task_key": "only",
                    "new_cluster": {"spark_version": KEY, "node_type_id": NODE, "num_workers": 1},
                    "spark_python_task": {"python_file": "dbfs:/task.py"},
                }
            ],
        )
        self.runs[made["run_id"]] = token

    async def settled(self, key: str) -> None:
        """The cluster has become what was asked for. Its nodes are the ones that it had, unless it was asked to change them."""
        size = self.live[key]
        wanted = "TERMINATED" if size is None else "RUNNING"

        async def there() -> dict[str, Any] | None:
            shown = await self.caller.call("GET", "2.1/clusters/get", cluster_id=key)
            same = shown["state"] == wanted and (size is None or len(shown.get("executors", ())) == size)
            return shown if same else None

        shown = await eventually(there, f"{key} is {wanted} with {size} workers")
        if size is not None:
            nodes = nodes_of(shown)
            before = self.nodes.setdefault(key, nodes)
            assert nodes == before, f"{key} has other nodes than before: {sorted(before)} -> {sorted(nodes)}"

    async def finished(self) -> None:
        """Every run has ended well."""
        for run_id, name in self.runs.items():

            async def over(run_id: int = run_id) -> dict[str, Any] | None:
                shown = await self.caller.call("GET", "2.1/jobs/runs/get", run_id=run_id)
                return shown if "result_state" in shown["state"] else None

            shown = await eventually(over, f"run {name}")
            assert shown["state"]["result_state"] == "SUCCESS", shown["state"]

    async def _ask(self, verb: str, key: str, **body: Any) -> None:
        """Ask for a change of a cluster. When the first call was cut off and yet done, the second is refused."""
        before = self.caller.retried
        try:
            await self.caller.call("POST", f"2.1/clusters/{verb}", cluster_id=key, **body)
        except Refused as refused:
            if self.caller.retried == before:
                raise
            assert refused.code in ("INVALID_STATE", "RESOURCE_DOES_NOT_EXIST"), refused


def nodes_of(shown: dict[str, Any]) -> frozenset[str]:
    """The instances of a cluster that runs."""
    every = [shown["driver"], *shown.get("executors", ())]
    return frozenset(each["instance_id"] for each in every)
