"""Nonsense for every operation of /v1: refused with an error of the dialect, and nothing of the workspace's state changes.

Each request has one thing that is wrong; the rest of it is good and would change something.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import pytest
import requests

from brickyard.api.app import all_operations
from brickyard.api.edge.registry import Operation
from tests.clusters.v1.conftest import Api
from tests.support.patience import PATIENCE_S, until
from tests.support.server import Server

OPERATIONS = {each.name: each for each in all_operations() if each.paths[0].startswith("/v1/")}
# What changes by itself while nodes and servers live.
TICKING = {"servers", "heard", "samples", "charges", "audit", "alembic_version", "meta", "tokens"}
BODIES = (b"{", b"[]", b'"x"', b"7", b"\xff\xfe{}", b"[" * 100_000, b'{"a": 1, "a": 2, "nonsense": 3}')
VALUES: tuple[Any, ...] = ({"nonsense": []}, [[["x"]]], -7.5)
FREE = ("gpu_type", "search")  # parameters that may be any text
NAMES = ("none-such", "x" * 3000, "%00", "%2e%2e", "a%20b", "ü")
PORTS: tuple[dict[str, Any], ...] = (
    {"internal_port": 80}, {"internal_port": 70_000}, {"internal_port": 9100, "protocol": "udp"},
    {"internal_port": 9100, "protocol": "tcp", "external_port": 22}, {"internal_port": 9100, "external_port": 9100},
    {"internal_port": 9100, "protocol": "tcp", "bind_address": "203.0.113.1"},
    {"internal_port": 9100, "description": "x" * 10_000},
)  # fmt: skip
LISTS = (
    *([{"internal_port": 9200}, each] for each in PORTS),
    [{"internal_port": 9200}, {"internal_port": 9200}],
    [{"internal_port": 9200}, {"id": "none-such", "remove": True}],
    [{"internal_port": port} for port in range(9200, 9240)],
)
LIMITS: tuple[dict[str, Any], ...] = (
    {"idle_minutes": 1}, {"idle_minutes": 20, "at": "yesterday"}, {"idle_minutes": 20, "at": "2001-01-01T00:00:00Z"},
    {"idle_minutes": 20, "max_cost": -1}, {"idle_minutes": 20, "max_runtime_minutes": 0}, {"idle_minutes": 20, "max_cost": 1e400},
)  # fmt: skip
NAMED_WRONG = ({"": "x"}, {"A=B": "x"}, {"A": "x\0"}, {"A": "1" * 200_000})
START = {
    "environment_updates": {"CHANGED": "1"},
    "auto_terminate_updates": {"idle_minutes": 33},
    "port_mapping_updates": [{"internal_port": 9001}],
    "update_configuration": {"cpu_cores": 8},
}
STARTS: dict[str, tuple[Any, ...]] = {
    "timeout_minutes": (0, 5, 99),
    "restore_from_snapshot": ("none-such", "", "../.."),
    "update_configuration": ({"cpu_cores": 10**6}, {"cpu_cores": 8, "storage_gb": 0}, {"gpu_count": -1}, {"memory_gb": 0}),
    "environment_updates": NAMED_WRONG,
    "auto_terminate_updates": LIMITS,
    "port_mapping_updates": LISTS,
}


class Good(NamedTuple):
    """A request that would change something, and by field, what it may not have."""

    cluster: str = "stopped"
    body: dict[str, Any] = {}
    wrong: dict[str, tuple[Any, ...]] = {}


SCHEDULE = {"action": "start", "cron": "0 6 * * *"}
SCHEDULES: dict[str, tuple[Any, ...]] = {
    "cron": ("", "* * * * *", "0 6 * *", "61 6 * * *", "0 6 31 2 *", "0 6 * * *; true"),
    "timezone": ("Mars/Olympus", "../../etc/passwd", ""),
    "action": ("explode",),
    "missed": ("maybe",),
    "start": (
        {"wait_for_ready": True},
        {"environment_updates": {"": "x"}},
        {"auto_terminate_updates": {"at": "2030-01-01T00:00Z"}},
    ),
}
REQUESTS: dict[str, Good] = {
    "gpu_clusters.create": Good(
        body={"name": "nonsense", "cpu_cores": 4, "auto_start": False},
        wrong={
            "name": ("", "x", "a b", "x" * 65, "ü" * 5), "gpu_count": (9, -1), "gpu_type": ("none-such",),
            "cpu_cores": (0, 10**6),
            "memory_gb": (0, 1e9, 1e400), "storage_gb": (0, -1, 10**9),
            "region": ("x",), "docker_image": ("x",), "ssh_enabled": (True,),
            "environment_variables": NAMED_WRONG, "port_mappings": LISTS, "auto_terminate": LIMITS, "tags": ({"": "x" * 10_000},),
        },
    ),
    "gpu_clusters.start": Good(body=START, wrong=STARTS),
    "gpu_clusters.restart": Good("running", START, STARTS),
    "gpu_clusters.stop": Good(
        "running",
        {"stop_reason": "nonsense"},
        {"timeout_minutes": (0, 5, 61), "force": ("maybe",), "grace_period_minutes": (-1, 31), "snapshot_name": ("x" * 10_000,)},
    ),
    "gpu_clusters.delete": Good(
        body={"confirm_deletion": "DELETE"},
        wrong={"confirm_deletion": ("", "delete", "yes"), "force": ("maybe",), "delete_snapshots": ("maybe",)},
    ),
    "gpu_ports.set": Good(body={"port_mappings": [{"internal_port": 9001}]}, wrong={"port_mappings": LISTS}),
    "gpu_ports.add": Good(body={"internal_port": 9001}, wrong={"internal_port": (0, 80, 70_000), "external_port": (22,)}),
    "gpu_ports.change": Good(body={"description": "changed"}, wrong={"internal_port": (80,), "protocol": ("udp",)}),
    "gpu_schedules.create": Good(body=SCHEDULE, wrong=SCHEDULES),
    "gpu_schedules.update": Good(body={"paused": True}, wrong=SCHEDULES),
    "gpu_snapshots.create": Good(body={"name": "nonsense"}, wrong={"name": ("", "a\nb", "x" * 10_000)}),
}  # fmt: skip


@pytest.fixture(scope="module")
def known(server: Server, api: Api) -> Iterator[dict[str, dict[str, str]]]:
    """Two clusters, a stopped and a running one, each with a port, a schedule and a snapshot."""
    found = {}
    for name, made in (("stopped", api.stopped()), ("running", api.running())):
        snapshot = api.data("POST", f"/{made}/snapshots", {"name": "kept"}, expect=202)["id"]
        found[name] = {
            "cluster_id": made,
            "port_id": api.data("POST", f"/{made}/proxy/ports", {"internal_port": 9000})["id"],
            "schedule_id": api.data("POST", f"/{made}/schedules", {**SCHEDULE, "paused": True})["id"],
            "snapshot_id": snapshot,
            "operation_id": "start-1",
        }
        until(lambda of=made: api.data("GET", f"/{of}/snapshots")["snapshots"][0]["status"] == "available", "a snapshot")  # type: ignore[misc]
    yield found
    for each in found.values():
        api.call("DELETE", f"/{each['cluster_id']}", confirm_deletion="DELETE", force="true", delete_snapshots="true")


def state(server: Server) -> dict[str, Any]:
    """All rows of all tables, but those that tick, and the files of all clusters and snapshots."""
    with closing(sqlite3.connect(f"file:{server.data_dir}/brickyard.db?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows: dict[str, Any] = {
            name: sorted(map(repr, database.execute(f"SELECT * FROM {name}")))  # noqa: S608 - the database's own names
            for name in names
            if name not in TICKING and not name.startswith("sqlite_")
        }
    assert {"clusters", "events", "ports", "schedules", "snapshots", "instances", "grants"} <= rows.keys()
    tops = (server.data_dir / "workspaces", server.data_dir / "snapshots")
    rows["files"] = sorted(str(path) for top in tops for path in top.rglob("*"))
    return rows


def settled(server: Server) -> dict[str, Any]:
    """The state once nothing that was asked for before is being done any more."""

    def same() -> dict[str, Any] | None:
        first = state(server)
        time.sleep(0.5)
        return first if state(server) == first else None

    return until(same, "the workspace is at rest")


def fields_of(operation: Operation) -> list[str]:
    inside = {part[1:-1] for part in operation.paths[0].split("/") if part.startswith("{")} | {"idempotency_key"}
    return [each.encode_name for each in msgspec.structs.fields(operation.request) if each.encode_name not in inside]


def nonsense(operation: Operation, good: Good, ids: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths with the options of requests, each with one thing that is wrong."""
    path = operation.paths[0].format(**ids)
    where = "json" if operation.reads_body else "params"
    for part in (part[1:-1] for part in operation.paths[0].split("/") if part.startswith("{")):
        for name in NAMES:
            yield operation.paths[0].format(**{**ids, part: name}), {where: good.body}
    yield path, {where: {**good.body, "nonsense": "1"}}
    for field in fields_of(operation):
        if not operation.reads_body and field in FREE:
            continue
        values = (*VALUES, *good.wrong.get(field, ())) if operation.reads_body else ("\0", "-7.5", *good.wrong.get(field, ()))
        for value in values:
            yield path, {where: {**good.body, field: value}}
    if operation.reads_body:
        for body in BODIES:
            yield path, {"data": body, "headers": {"Content-Type": "application/json"}}


def prepared(options: dict[str, Any]) -> dict[str, Any]:
    """With numbers that are too large for JSON as some clients send them."""
    if "json" not in options:
        return options
    return {"data": json.dumps(options["json"]).encode(), "headers": {"Content-Type": "application/json"}}


def test_every_operation_that_changes_something_is_tried() -> None:
    changing = {name for name, each in OPERATIONS.items() if each.changes}
    without_a_body = {"gpu_ports.remove", "gpu_schedules.delete", "gpu_snapshots.delete"}
    assert changing == REQUESTS.keys() | without_a_body
    assert {field for name, good in REQUESTS.items() for field in good.wrong if field not in fields_of(OPERATIONS[name])} == set()


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_nothing_changes(server: Server, api: Api, known: dict[str, dict[str, str]], name: str) -> None:
    operation = OPERATIONS[name]
    good = REQUESTS.get(name, Good())
    before, tried = settled(server), 0
    with requests.Session() as session:
        session.headers.update(api.headers)
        for path, options in nonsense(operation, good, known[good.cluster]):
            shown = f"{operation.method} {path[:200]} {str(options)[:300]}"
            answer = session.request(operation.method, f"{api.url}{path}", timeout=PATIENCE_S, **prepared(options))
            assert answer.status_code in (400, 404, 409, 413, 422), f"{shown}: {answer.status_code} {answer.text[:300]}"
            said = answer.json()
            assert said.keys() == {"error", "message", "code", "details", "request_id", "timestamp"}, f"{shown}: {said}"
            assert 0 < len(said["message"]) < 4000, f"{shown}: {said['message'][:300]}"
            tried += 1
    after = settled(server)
    assert {table: rows for table, rows in after.items() if rows != before[table]} == {}
    assert tried > len(fields_of(operation))
