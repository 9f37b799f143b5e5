"""The guide's code examples and what they need around them: host and token, one known cluster, and what earlier examples left.

The files in `examples/` are the guide's code blocks, byte for byte, in its order.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import time
import types
from pathlib import Path
from typing import Any

import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute
from databricks.sdk.service.compute import State

from brickyard.domain.clock import Ids
from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import PATIENCE_S, SOON
from tests.support.server import TOKEN, Server

EXAMPLES = Path(__file__).parent / "examples"
CLUSTER_ID = "1234-567890-abc123"  # the cluster that the guide's examples speak of
RUNTIME, NODE_TYPE = "13.3.x-scala2.12", "i3.xlarge"
FASTER = 100  # what the examples wait for takes half a minute in a cloud, and milliseconds here


class GuideIds(Ids):
    """Gives the first cluster the guide's id."""

    def __init__(self) -> None:
        self._given = False

    def cluster_id(self, now_ms: int) -> str:
        if self._given:
            return super().cluster_id(now_ms)
        self._given = True
        return CLUSTER_ID


class Guide:
    """A workspace in which the guide's cluster exists. Its machines are simulated: `machines.knobs` makes them slow."""

    def __init__(self, server: Server, machines: SimulatedProvider) -> None:
        self.server = server
        self.machines = machines
        self.w = server.client()
        made = self.w.clusters.create(
            cluster_name="guide", spark_version=RUNTIME, node_type_id=NODE_TYPE, num_workers=2, autotermination_minutes=0
        ).result(timeout=SOON)
        assert made.cluster_id == CLUSTER_ID

    def bring_to(self, state: State) -> None:
        """Have the guide's cluster RUNNING with two workers, or TERMINATED."""
        found = self.w.clusters.get(CLUSTER_ID).state
        if state is State.TERMINATED:
            self.w.clusters.delete(CLUSTER_ID).result(timeout=SOON)
            return
        if found in (State.TERMINATED, State.TERMINATING):
            self.w.clusters.wait_get_cluster_terminated(CLUSTER_ID, timeout=SOON)
            self.w.clusters.start(CLUSTER_ID)
        self.w.clusters.wait_get_cluster_running(CLUSTER_ID, timeout=SOON)
        if self.w.clusters.get(CLUSTER_ID).num_workers != 2:
            self.w.clusters.resize(CLUSTER_ID, num_workers=2).result(timeout=SOON)

    def reset(self) -> None:
        """Undo what an example changed of the guide's cluster."""
        self.bring_to(State.RUNNING)
        self.w.clusters.edit(CLUSTER_ID, RUNTIME, cluster_name="guide", node_type_id=NODE_TYPE, num_workers=2)
        self.w.clusters.wait_get_cluster_running(CLUSTER_ID, timeout=SOON)

    def run(self, name: str, *replacements: tuple[str, str], **names: Any) -> tuple[str, dict[str, Any]]:
        """Run an example; returns what it printed and the names it left. `replacements` are for those that misuse the SDK."""
        source = read(name)
        for wrong, right in (*self._host_and_token(source), *replacements):
            assert wrong in source
            source = source.replace(wrong, right)
        hurry = _Hurry()
        namespace = self._left_by_earlier_examples() | {"time": hurry, "__builtins__": _hurried_builtins(hurry)} | names
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, name, "exec"), namespace)  # noqa: S102 - the examples are ours to run
        return printed.getvalue(), namespace

    def call(self, method: str, verb: str, *, body: str = "", **query: str) -> tuple[int, dict[str, Any]]:
        """Status and body of one call as the guide describes it; `body` is sent as it is."""
        url = f"{self.server.url}/api/2.0/clusters/{verb}"
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        response = requests.request(method, url, headers=headers, params=query, data=body or None, timeout=PATIENCE_S)
        return response.status_code, response.json()

    def _host_and_token(self, source: str) -> list[tuple[str, str]]:
        places = (('"https://<workspace>.cloud.databricks.com"', self.server.url), ('"dapi..."', TOKEN))
        return [(place, repr(value)) for place, value in places if place in source]

    def _left_by_earlier_examples(self) -> dict[str, Any]:
        """Examples build on each other: headers, imports and the client are in the first ones only."""
        namespace: dict[str, Any] = {"token": TOKEN}
        exec(compile(read("01_authentication.py"), "01_authentication.py", "exec"), namespace)  # noqa: S102 - as above
        return namespace | {
            "requests": requests,
            "WorkspaceClient": WorkspaceClient,
            "client": self.w,
            "compute": compute,
            "DATABRICKS_HOST": self.server.url,
            "DATABRICKS_TOKEN": TOKEN,
        }


def read(name: str) -> str:
    return (EXAMPLES / name).read_text()


def body(name: str) -> Any:
    """An example that is JSON."""
    return json.loads(read(name))


class _Hurry(types.ModuleType):
    """`time` for an example: from now on its clock runs FASTER, and so do its sleeps."""

    def __init__(self) -> None:
        super().__init__("time")
        self._began = time.time()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return self._began + (time.time() - self._began) * FASTER

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / FASTER)


def _hurried_builtins(hurry: _Hurry) -> dict[str, Any]:
    """Builtins whose `import time` gives the hurried one: to the example alone, and not to the SDK or the server."""

    def importer(name: str, *rest: Any) -> Any:
        return hurry if name == "time" else __import__(name, *rest)

    return {**vars(builtins), "__import__": importer}
