"""The stream of changes, as a browser reads it from a whole server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from databricks.sdk.service.compute import ClusterSpec
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask

from brickyard.features.changes import service as changes
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

PATH = "/api/2.1/changes"


@contextlib.contextmanager
def opened(server: Server, *, after: str = "", token: str = TOKEN, kinds: str = "") -> Iterator[requests.Response]:
    headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": after}
    with requests.get(server.url + PATH, headers=headers, params={"kinds": kinds}, stream=True, timeout=PATIENCE_S) as answer:
        yield answer


def blocks(answer: requests.Response) -> Iterator[dict[str, str]]:
    """Fields of each block; a comment's field is "".."""
    block: dict[str, str] = {}
    for raw in answer.iter_lines(chunk_size=1):
        if raw:
            name, _, value = raw.decode().partition(":")
            block[name] = value.strip()
        elif block:
            yield block
            block = {}


def objects(block: dict[str, str]) -> list[tuple[str, str]]:
    """Kinds and ids."""
    found = json.loads(block["data"])["objects"] if block.get("event") == "changed" else []
    return [(each["kind"], each["id"]) for each in found]


def create(server: Server) -> str:
    made = server.client().clusters.create("17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    assert made.cluster_id
    return made.cluster_id


def test_a_change_is_heard_of_and_the_stream_goes_on_where_it_was_left(server: Server) -> None:
    with opened(server) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"]
        heard = blocks(answer)
        assert next(heard) == {"retry": "1000"}
        first = next(heard)
        assert (first["event"], first["data"]) == ("reset", "{}")
        made = create(server)
        changed = next(each for each in heard if each.get("event") == "changed")
        (found,) = json.loads(changed["data"])["objects"]
        assert (found["kind"], found["id"], "deleted" in found) == ("cluster", made, False)
        server.client().clusters.permanent_delete(made)
        while not found.get("deleted"):
            changed = next(each for each in heard if each.get("event") == "changed")
            found = next(each for each in json.loads(changed["data"])["objects"] if each["id"] == made)
    another = create(server)
    with opened(server, after=changed["id"]) as answer:
        heard = blocks(answer)
        event = next(each for each in heard if "event" in each)
        assert event["event"] == "changed", "nothing was missed, so not everything must be read again"
        assert another in event["data"]


def test_policies_pools_and_runs_are_told_too_and_kinds_can_be_chosen(server: Server, golden: Golden) -> None:
    client = server.client()
    with opened(server) as answer, opened(server, kinds="run") as runs:
        everything, of_runs = blocks(answer), blocks(runs)
        for heard in (everything, of_runs):
            assert [next(heard), next(heard)["event"]] == [{"retry": "1000"}, "reset"]
        pool = client.instance_pools.create("pool", node_type_id="i3.xlarge")
        policy = client.cluster_policies.create(name="policy", definition="{}")
        create(server)
        where = ClusterSpec(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
        client.jobs.submit(tasks=[SubmitTask("t", new_cluster=where, spark_python_task=SparkPythonTask("dbfs:/x.py"))])
        found: list[tuple[str, str]] = []
        while not {("instance-pool", pool.instance_pool_id), ("cluster-policy", policy.policy_id)} <= set(found):
            found += objects(next(everything))
        found = []
        while not found:
            found = objects(next(of_runs))
        assert {kind for kind, _ in found} == {"run"}
    with opened(server, kinds="run,secret") as answer:
        assert answer.status_code == 400
        golden(answer.json()["message"], "kinds", "secret")


def test_there_is_a_sign_of_life(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "IDLE_S", 0.05)
    with opened(server) as answer:
        assert any(each == {"": ""} for each in blocks(answer))


def test_strangers_hear_nothing(server: Server) -> None:
    with opened(server, token="dapi" + "9" * 32) as answer:
        assert answer.status_code == 401
        assert answer.json()["error_code"] == "UNAUTHENTICATED"
    head = requests.head(server.url + PATH, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream")


def test_who_has_gone_takes_no_place(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "WATCHERS", changes.WATCHERS._replace(share=1, admin_share=1))

    def status() -> int:
        with opened(server) as answer:
            return answer.status_code

    until(lambda: status() == 200, "those of other tests are gone")
    with opened(server) as answer:
        if answer.status_code == 200:  # not the one of a moment ago
            assert status() == 400
    until(lambda: status() == 200, "its place is free")


def test_it_ends_in_order_when_the_server_stops(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with Server.running(tmp_path, provider="simulated") as server:
            answer = stack.enter_context(opened(server))
            heard = blocks(answer)
            assert next(heard) == {"retry": "1000"}
        assert all("event" in each for each in heard), "no error: the answer was complete"
