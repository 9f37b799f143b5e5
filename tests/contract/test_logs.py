"""Logs over the API, on a simulated cluster whose nodes write logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound
from databricks.sdk.service.compute import ClusterLogConf, DbfsStorageInfo, S3StorageInfo, VolumesStorageInfo

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import Knobs, SimulatedProvider
from brickyard.storage.directory import Storage
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

WAIT = timedelta(seconds=30)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def machines(place: Path) -> SimulatedProvider:
    return SimulatedProvider(node_types=cloud_types(), knobs=Knobs(logs=True), storage=Storage(place))


@pytest.fixture(scope="module")
def server(place: Path, machines: SimulatedProvider) -> Iterator[Server]:
    with Server.running(place, provider="simulated", instances=machines) as running:
        yield running


@pytest.fixture(scope="module")
def w(server: Server) -> WorkspaceClient:
    return server.client()


def new_cluster(w: WorkspaceClient, **fields: Any) -> str:
    """A running cluster with one worker."""
    key = w.clusters.select_spark_version(latest=True)
    made = w.clusters.create(spark_version=key, node_type_id="i3.xlarge", num_workers=1, **fields).result(WAIT)
    assert made.cluster_id is not None
    return made.cluster_id


def logs(w: WorkspaceClient, cluster_id: str) -> dict[str, dict[str, Any]]:
    """The logs of a cluster, by role and path."""
    found = w.api_client.do("GET", "/api/2.1/clusters/logs/list", query={"cluster_id": cluster_id})
    assert found["unreachable"] == []
    return {f"{each['role']}/{each['path']}": each for each in reversed(found["files"])}


def read(w: WorkspaceClient, cluster_id: str, file: str, **query: Any) -> dict[str, Any]:
    query = {"cluster_id": cluster_id, "file": file, **query}
    answer: dict[str, Any] = w.api_client.do("GET", "/api/2.1/clusters/logs/read", query=query)
    return answer


def test_logs_are_listed_and_read_while_a_cluster_runs_and_afterwards(w: WorkspaceClient, machines: SimulatedProvider) -> None:
    cluster_id = new_cluster(w)
    found = logs(w, cluster_id)
    names = {f"{role}/{name}" for role in ("driver", "worker") for name in ("stdout", "stderr", "log4j-active.log")}
    assert set(found) == names
    file = found["driver/stdout"]["file"]
    first = read(w, cluster_id, file)
    assert first["text"] == f"stdout of the simulated driver of {cluster_id}, generation 1\n"
    assert (first["offset"], first["next_offset"], first["at_end"], first["running"]) == (0, first["size"], True, True)
    instance_id = found["driver/stdout"]["node"].rpartition("-")[0]
    machines.logs.write(instance_id, "stdout", "später €\n".encode())
    assert read(w, cluster_id, file, offset=-4)["text"] == "€\n"
    text, position = "", first["next_position"]
    while not (piece := read(w, cluster_id, file, position=position, limit=5))["at_end"]:
        text, position = text + piece["text"], piece["next_position"]
    assert text + piece["text"] == "später €\n", "characters are not torn"
    w.clusters.delete_and_wait(cluster_id, timeout=WAIT)
    after = logs(w, cluster_id)
    assert {key: each["size"] for key, each in after.items()} == {
        **{key: each["size"] for key, each in found.items()}, "driver/stdout": piece["size"],
    }  # fmt: skip
    assert not any(each["running"] for each in after.values())
    rest = read(w, cluster_id, file, position=first["next_position"])
    assert (rest["text"], rest["running"], rest["skipped"]) == ("später €\n", False, False)


def events(server: Server, cluster_id: str, file: str, *, after: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The server-sent events of a log: kind, id, data."""
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Last-Event-ID": after} if after else {})
    query = {"cluster_id": cluster_id, "file": file}
    url = f"{server.url}/api/2.1/clusters/logs/follow"
    with requests.get(url, params=query, headers=headers, stream=True, timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
        event: dict[str, str] = {}
        for line in (each.decode() for each in answer.iter_lines(chunk_size=1)):
            name, _, value = line.partition(": ")
            event[name] = value
            if not line and "event" in event:
                yield event["event"], event["id"], json.loads(event["data"])
                event = {}


def test_a_log_is_followed_until_its_node_has_ended(w: WorkspaceClient, server: Server, machines: SimulatedProvider) -> None:
    cluster_id = new_cluster(w)
    log = logs(w, cluster_id)["driver/stderr"]
    following = events(server, cluster_id, log["file"])
    kind, id, data = next(following)
    assert (kind, data["offset"], data["skipped"]) == ("text", 0, False)
    machines.logs.write(log["node"].rpartition("-")[0], "stderr", b"one\n")
    assert next(following)[2] == {"offset": len(data["text"]), "text": "one\n", "skipped": False}
    machines.logs.write(log["node"].rpartition("-")[0], "stderr", b"two\n")
    w.clusters.delete(cluster_id)
    rest = [(kind, data.get("text")) for kind, _, data in following]
    assert rest == [("text", "two\n"), ("end", None)]
    again = [(kind, data.get("text")) for kind, _, data in events(server, cluster_id, log["file"], after=id)]
    assert again == [("text", "one\ntwo\n"), ("end", None)]


def test_the_logs_of_every_start_are_there(w: WorkspaceClient) -> None:
    cluster_id = new_cluster(w)
    w.clusters.restart(cluster_id).result(WAIT)
    found = w.api_client.do("GET", "/api/2.1/clusters/logs/list", query={"cluster_id": cluster_id})["files"]
    mine = [each for each in found if each["role"] == "driver" and each["path"] == "stdout"]
    assert [each["running"] for each in mine] == [True, False]
    assert len({each["file"] for each in mine}) == 2


def test_logs_are_delivered(w: WorkspaceClient, server: Server, machines: SimulatedProvider, place: Path) -> None:
    """While the cluster runs and at its end; by a server, if the driver was killed; and beside those of the start before."""
    conf = ClusterLogConf(dbfs=DbfsStorageInfo(destination="dbfs:/cluster-logs"))
    cluster_id = new_cluster(w, cluster_log_conf=conf)
    status = w.clusters.get(cluster_id).cluster_log_status
    assert status is not None and status.last_attempted and not status.last_exception
    there = place / "dbfs" / "cluster-logs" / cluster_id
    first = f"stdout of the simulated driver of {cluster_id}, generation 1\n"
    assert (there / "driver" / "stdout").read_text() == first
    node = logs(w, cluster_id)["driver/stdout"]["node"].rpartition("-")[0]
    machines.logs.write(node, "stdout", b"no end of line")
    machines.logs.write(node, "executor/app-1/0/stderr", b"an executor\n")
    w.clusters.restart(cluster_id).result(WAIT)
    assert (there / "driver" / "stdout").read_text() == first + "no end of line"
    assert (there / "executor" / "app-1" / "0" / "stderr").read_text() == "an executor\n"
    assert [path.read_text() for path in (there / "worker").glob("*/stdout")] == [
        f"stdout of the simulated worker of {cluster_id}, generation 1\n"
    ]
    again = logs(w, cluster_id)["driver/stdout"]["node"]
    machines.logs.write(again.rpartition("-")[0], "stdout", b"last words")
    machines.kill(again.rpartition("-")[0])
    (second,) = (there / "driver").glob("stdout--*")
    assert second.read_text().endswith("generation 2\n")
    assert server.application is not None
    delivering = server.application.parts.loops.log_delivery
    assert asyncio.run(delivering.run_once()) > 0
    assert second.read_text().endswith("generation 2\nlast words")
    assert asyncio.run(delivering.run_once()) == 0
    assert (there / "driver" / "stdout").read_text() == first + "no end of line"


def test_a_destination_that_cannot_be_used_is_told(w: WorkspaceClient, golden: Golden) -> None:
    conf = ClusterLogConf(volumes=VolumesStorageInfo(destination="/Volumes/main/default/nothing/logs"))
    key = w.clusters.select_spark_version(latest=True)
    cluster_id = new_cluster(w, cluster_log_conf=conf)
    status = w.clusters.get(cluster_id).cluster_log_status
    assert status is not None and status.last_exception is not None and "main" in status.last_exception
    for wrong, *fields in (
        (ClusterLogConf(dbfs=DbfsStorageInfo(destination="/Workspace/a")), "dbfs:/"),
        (ClusterLogConf(volumes=VolumesStorageInfo(destination="dbfs:/a")), "/Volumes/"),
        (ClusterLogConf(dbfs=DbfsStorageInfo(destination="dbfs:/a/../b")), ".."),
        (ClusterLogConf(s3=S3StorageInfo(destination="s3://abc")), "region", "endpoint"),
        (ClusterLogConf(s3=S3StorageInfo(destination="s3://abc", region="r", canned_acl="private")), "canned_acl"),
    ):
        with golden.refused(InvalidParameterValue, "cluster_log_conf", *fields):
            w.clusters.create(spark_version=key, node_type_id="i3.xlarge", num_workers=1, cluster_log_conf=wrong)


def test_what_cannot_be_read_is_refused(w: WorkspaceClient, golden: Golden) -> None:
    cluster_id = new_cluster(w)
    file = logs(w, cluster_id)["driver/stdout"]["file"]
    node = file.partition("/")[0]
    for wrong in ("", "stdout", "/stdout", f"{node}/", "../x/stdout", f".{node}/stdout", "a/b"):
        with golden.refused(InvalidParameterValue, "clusters/logs/list"):
            read(w, cluster_id, wrong)
    for wrong in (f"{node}/../../agent.json", f"{node}/."):
        with golden.refused(InvalidParameterValue):
            read(w, cluster_id, wrong)
    for missing in (f"{node}/nothing", f"{node}9/stdout", "i-nobody-1/stdout", f"{node}/agent.log", f"{node}/node.log"):
        with golden.refused(NotFound):
            read(w, cluster_id, missing)
    with golden.refused(InvalidParameterValue, "position"):
        read(w, cluster_id, file, position="here")
    with golden.refused(BadRequest, "limit"):
        read(w, cluster_id, file, limit=0)
    with golden.refused(NotFound):
        logs(w, "0101-000000-nothing0")
    other = new_cluster(w)
    with golden.refused(NotFound):
        read(w, other, file)
