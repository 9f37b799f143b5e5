"""Permissions and directories among 10,000 people and 10,000 clusters.

- `get` by a user who may see the cluster through a group, against an administrator, for whom nothing is looked up: what the
  decision about permissions adds.
- A page of 10 for a user who sees 10 of the clusters (5 own, 3 granted to the user, 2 to a group) against an administrator's.
- A user who joins a group of 10,000, until a call on another connection has the group's permission.
- A page of SCIM's list at its beginning and at its end.

CPU is the server's; no cluster runs. The callers take turns, so that other work on the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import functools
import json
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from bench._common import load, table
from bench._servers import NO_SAMPLES, TOKEN, Served, brickyard
from bench.pages import BATCH, NOW, SPEC
from bench.replicas import postgres
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.identity import NEVER, GroupRow, TokenRow, UserRow
from brickyard.services.digests import plain
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PEOPLE, CLUSTERS, ROUNDS = 10_000, 10_000, 7
MEMBER, STRANGER = "u000001@example.com", "u000002@example.com"
MEMBER_ID, STRANGER_ID, TEAM = "2000001", "2000002", "3000001"
MEMBER_TOKEN, STRANGER_TOKEN = "dapi" + "2" * 32, "dapi" + "3" * 32
OWN, GRANTED, OF_TEAM = range(0, 5_000, 1_000), range(5_000, 8_000, 1_000), range(8_000, 10_000, 1_000)
SHARED = f"c-{OF_TEAM[0]:06}"
GET, PAGE, SCIM = 1.15, 1.5, 1.5  # at most so many times the other's CPU
JOINING_S = 1.0
Row = tuple[str, str, str, str]


def main() -> int:
    """Prints the tables. Returns 1 if a limit is missed."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place:
        url = f"sqlite:///{Path(place) / 'people.db'}"
        missed = _database("SQLite", url)
    with postgres() as database:
        return max(missed, _database("PostgreSQL", database.new_database()))


def _database(name: str, url: str) -> int:
    fill(url)
    with brickyard(NO_SAMPLES, database_url=url) as served:
        rows = [_get(served), _page(served), _scim(served), _joining(served)]
    table(f"{PEOPLE} people and {CLUSTERS} clusters, {name}, {ROUNDS} rounds", ["what", "measured", "against", "at most"], rows)
    return int(any("✗" in row[1] for row in rows))


def fill(url: str) -> None:
    """Inserts people, clusters and grants. The group has everybody but the stranger."""
    store = Store.open(url)

    def some(start: int, tx: Tx) -> None:
        for number in range(start, start + BATCH):
            user = UserRow(user_name=f"u{number:06}@example.com", user_id=str(2_000_000 + number), created_ms=NOW + number)
            tx.users.put(user)
            owner = MEMBER if number in OWN else "u000009@example.com"
            tx.clusters.insert(_cluster(number, owner))
            tx.clusters.schedule(f"c-{number:06}", None)
        tx.groups.add(TEAM, [str(2_000_000 + number) for number in range(start, start + BATCH) if number != int(STRANGER_ID[1:])])

    def rest(tx: Tx) -> None:
        tx.groups.put(GroupRow(group_id=TEAM, display_name="team", created_ms=NOW))
        for numbers, holder in ((GRANTED, MEMBER_ID), (OF_TEAM, TEAM)):
            for number in numbers:
                tx.grants.put(Place(ObjectKind.CLUSTER, f"c-{number:06}"), [Grant(holder, Permission.CAN_ATTACH_TO)])
        for user_name, token in ((MEMBER, MEMBER_TOKEN), (STRANGER, STRANGER_TOKEN)):
            digest = plain(token).hex()  # the server replaces it by a keyed one when it starts
            row = TokenRow(token_id=token[-8:], digest=digest, user_name=user_name, comment="", created_ms=NOW, expiry_ms=NEVER)
            tx.tokens.insert(row)

    for start in range(0, PEOPLE, BATCH):
        store.write_sync(functools.partial(some, start))
    store.write_sync(rest)
    store.close()


def _cluster(number: int, owner: str) -> Cluster:
    return Cluster(
        cluster_id=f"c-{number:06}",
        creator_user_name=owner,
        created_ms=NOW + number,
        spec=SPEC,
        request=SPEC,
        target=Target.TERMINATED,
        ended=True,
        terminated_ms=NOW + number,
    )


def _get(served: Served) -> Row:
    path = f"/api/2.1/clusters/get?cluster_id={SHARED}"
    member, admin = _both(served, (path, MEMBER_TOKEN), (path, TOKEN), requests=4_000)  # CPU time comes in steps of 10 ms
    return _row("get, CPU us: a member of a group against an administrator", member, admin, GET)


def _page(served: Served) -> Row:
    path = "/api/2.1/clusters/list?page_size=10"
    assert len(call(served, path, MEMBER_TOKEN)["clusters"]) == 10
    member, admin = _both(served, (path, MEMBER_TOKEN), (path, TOKEN), requests=1_000)
    return _row("page of 10, CPU us: who sees 10 clusters against an administrator", member, admin, PAGE)


def _scim(served: Served) -> Row:
    path = "/api/2.0/preview/scim/v2/Users?count=100&startIndex="
    assert call(served, f"{path}{PEOPLE - 99}")["itemsPerPage"] == 100
    last, first = _both(served, (f"{path}{PEOPLE - 99}", TOKEN), (f"{path}1", TOKEN), requests=20)
    return _row("SCIM page of 100, CPU us: the last against the first", last, first, SCIM)


def _joining(served: Served) -> Row:
    """The longest time of several, for joining and for leaving."""
    took = []
    for _ in range(ROUNDS):
        for operation, seen in (("add", True), ("remove", False)):
            change = {"op": operation, "path": "members", "value": [{"value": STRANGER_ID}]}
            if operation == "remove":
                change = {"op": "remove", "path": f'members[value eq "{STRANGER_ID}"]'}
            began = time.monotonic()
            body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [change]}
            call(served, f"/api/2.0/preview/scim/v2/Groups/{TEAM}", body=body, method="PATCH")
            while _sees(served) is not seen:
                time.sleep(0.01)
            took.append(time.monotonic() - began)
    mark = "✓" if max(took) <= JOINING_S else "✗"
    return (f"a change of a group of {PEOPLE} in effect, s: the longest", f"{max(took):.2f} {mark}", "", f"{JOINING_S:g}")


def _sees(served: Served) -> bool:
    try:
        call(served, f"/api/2.1/clusters/get?cluster_id={SHARED}", STRANGER_TOKEN)
    except urllib.error.HTTPError as error:
        if error.code != 403:
            raise
        return False
    return True


def _both(served: Served, one: tuple[str, str], other: tuple[str, str], *, requests: int) -> tuple[float, float]:
    """The CPU us of two calls: medians of rounds, in which they take turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for (path, token), costs in zip((one, other), found, strict=True):
            url = served.url + path
            costs.append(asyncio.run(load(served.pid, "GET", url, token=token, requests=requests, rounds=1, width=4)).cpu_us)
    return statistics.median(found[0]), statistics.median(found[1])


def _row(name: str, found: float, against: float, most: float) -> Row:
    ratio = found / against
    return (name, f"{found:.0f}: {ratio:.2f} {'✓' if ratio <= most else '✗'}", f"{against:.0f}", f"{most:g}")


def call(served: Served, path: str, token: str = TOKEN, *, body: Any = None, method: str = "GET") -> dict[str, Any]:
    data = json.dumps(body).encode() if body else None
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(served.url + path, data=data, headers=headers, method=method)  # noqa: S310 - loopback
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
        found: dict[str, Any] = json.loads(answer.read() or b"{}")
        return found
