"""Permissions and directories among 10,000 people and 10,000 clusters.

- `get` by a user who may see the cluster through a group, against an administrator, for whom nothing is looked up: what the
  decision about permissions adds.
- A page of 10 for a user who sees 10 of the clusters (5 own, 3 granted to the user, 2 to a group) against an administrator's.
- A user who joins a group of 10,000, until a call on another connection has the group's permission.
- A page of SCIM's list at its beginning and at its end.

CPU is the server's; no cluster runs. The callers take turns, so that other work on the machine affects all of them.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from bench._client import Api, Load, RefusedError, load
from bench._harness import Row, judged, limited, medians, table, turns
from bench._servers import NO_SAMPLES, TOKEN, Served, brickyard, postgres, sqlite
from bench.pages import BATCH, NOW, terminated
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.identity import NEVER, GroupRow, TokenRow, UserRow
from brickyard.features.credentials.digests import plain
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


def main() -> int:
    with sqlite() as url:
        missed = _database("SQLite", url)
    with postgres() as database:
        return max(missed, _database("PostgreSQL", database.new_database()))


def _database(name: str, url: str) -> int:
    fill(url)
    with brickyard(NO_SAMPLES, database_url=url) as served:
        rows = [_get(served), _page(served), _scim(served), _joining(served)]
    return table(
        f"{PEOPLE} people and {CLUSTERS} clusters, {name}, {ROUNDS} rounds", ["what", "measured", "against", "at most"], rows
    )


def fill(url: str) -> None:
    """Inserts people, clusters and grants. The group has everybody but the stranger."""
    store = Store.open(url)

    def some(start: int, tx: Tx) -> None:
        for number in range(start, start + BATCH):
            user = UserRow(user_name=f"u{number:06}@example.com", user_id=str(2_000_000 + number), created_ms=NOW + number)
            tx.users.put(user)
            owner = MEMBER if number in OWN else "u000009@example.com"
            tx.clusters.insert(terminated(number, owner))
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


def _get(served: Served) -> Row:
    path = f"/api/2.1/clusters/get?cluster_id={SHARED}"
    calls = ((path, MEMBER_TOKEN), (path, TOKEN))  # CPU time comes in steps of 10 ms
    return _compared(served, "get, CPU us: a member of a group against an administrator", *calls, requests=4_000, most=GET)


def _page(served: Served) -> Row:
    path = "/api/2.1/clusters/list?page_size=10"
    assert len(Api(served.url, MEMBER_TOKEN).get(path)["clusters"]) == 10
    what = "page of 10, CPU us: who sees 10 clusters against an administrator"
    return _compared(served, what, (path, MEMBER_TOKEN), (path, TOKEN), requests=1_000, most=PAGE)


def _scim(served: Served) -> Row:
    path = "/api/2.0/preview/scim/v2/Users?count=100&startIndex="
    last = f"{path}{PEOPLE - 99}"
    assert Api(served.url).get(last)["itemsPerPage"] == 100
    what = "SCIM page of 100, CPU us: the last against the first"
    return _compared(served, what, (last, TOKEN), (f"{path}1", TOKEN), requests=20, most=SCIM)


def _joining(served: Served) -> Row:
    """The longest time of several, for joining and for leaving."""
    admin, stranger = Api(served.url), Api(served.url, STRANGER_TOKEN)
    changes: tuple[tuple[dict[str, Any], bool], ...] = (
        ({"op": "add", "path": "members", "value": [{"value": STRANGER_ID}]}, True),
        ({"op": "remove", "path": f'members[value eq "{STRANGER_ID}"]'}, False),
    )
    took = []
    for _ in range(ROUNDS):
        for change, seen in changes:
            began = time.monotonic()
            body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [change]}
            admin.call("PATCH", f"/api/2.0/preview/scim/v2/Groups/{TEAM}", body)
            while _sees(stranger) is not seen:
                time.sleep(0.01)
            took.append(time.monotonic() - began)
    return (
        f"a change of a group of {PEOPLE} in effect, s: the longest",
        judged(max(took), max(took) <= JOINING_S),
        "",
        JOINING_S,
    )


def _sees(stranger: Api) -> bool:
    try:
        stranger.get(f"/api/2.1/clusters/get?cluster_id={SHARED}")
    except RefusedError as error:
        if error.status != 403:
            raise
        return False
    return True


def _compared(served: Served, what: str, *calls: tuple[str, str], requests: int, most: float) -> Row:
    """The CPU us of two calls, each a path with a token, and their ratio: medians of rounds, in which they take turns."""

    def one(path: str, token: str) -> Load:
        return load(served.pid, "GET", served.url + path, token=token, requests=requests, rounds=1, width=4)

    works = {f"{number}": functools.partial(one, *each) for number, each in enumerate(calls)}
    found, against = (medians(Load, each).cpu_us for each in turns(ROUNDS, works).values())
    shown, limit = limited(found / against, most, f"{found:.0f}: {found / against:.2f}")
    return (what, shown, f"{against:.0f}", limit)
