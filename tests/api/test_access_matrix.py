"""Every operation, over HTTP, for everybody who may call it and for those who may not: what `Need` declares is what holds."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import pytest

from brickyard.access.objects import of_workspace_path
from brickyard.api.app import build_app
from brickyard.api.edge.authentication import Authenticator
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import PERMISSIONS, Grant, ObjectKind, Permission, Place, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.identity import USERS_ID, GroupRow
from brickyard.domain.secrets import fold
from brickyard.plan.access import for_everybody
from tests.api.test_permissions import EXAMPLES, FOR_USERS, OPERATIONS, World, named, objects
from tests.support.people import enter, lock_out

NESTED, OUTER = "5001", "5002"  # the member is in the first group, which is in the second
OWNED = {ObjectKind.CLUSTER, ObjectKind.INSTANCE_POOL, ObjectKind.RUN, ObjectKind.JOB}


class People(NamedTuple):
    """Their tokens."""

    admin: str
    stranger: str
    member: str
    locked_out: str


class Site:
    """A workspace with people, and its API."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = itertools.count(1)  # each from another address: refused ones would slow the next down
        self.names = {"stranger": "71", "member": "72", "locked_out": "73"}
        context = world.context
        self.app = build_app(
            context, authenticator=Authenticator(tokens=context.services.tokens, links=context.services.ui_links)
        )

    async def people(self) -> People:
        callers = [
            Caller(user_name=f"{name}@example.com", user_id=user_id, is_admin=False, token_id="")
            for name, user_id in self.names.items()
        ]
        root = Caller(user_name="root@example.com", user_id="70", is_admin=True, token_id="")
        everybody = frozenset({"workspace-access"})
        await self.world.store.write(
            lambda tx: enter(tx, root, *(msgspec.structs.replace(each, entitlements=everybody) for each in callers))
        )
        everybody_has_tokens = [Grant(USERS_ID, Permission.CAN_USE)]  # an example has replaced it
        await self.world.store.write(lambda tx: tx.grants.put(Place(ObjectKind.TOKENS, ""), everybody_has_tokens))
        tokens = [(await self.world.context.services.tokens.create(each))[0] for each in (root, *callers)]

        def groups(tx: Any) -> None:
            for group_id in (NESTED, OUTER):
                tx.groups.put(GroupRow(group_id=group_id, display_name=f"group {group_id}"))
            tx.groups.add(NESTED, [self.names["member"]])
            tx.groups.add(OUTER, [NESTED])
            lock_out(tx, callers[2])

        await self.world.store.write(groups)
        return People(*tokens)

    async def status(self, operation: Operation, request: msgspec.Struct, token: str) -> int:
        """The status of the answer. A stream is left as soon as it begins."""
        path, query, body = wire(operation, request)
        begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        headers = [(b"authorization", f"Bearer {token}".encode()), (b"host", b"h"), (b"content-length", b"%d" % len(body))]
        scope = {
            "type": "http",
            "method": operation.method,
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query,
            "headers": headers,
            "client": (f"10.0.0.{next(self.calls)}", 1),
            "scheme": "http",
            "http_version": "1.1",
            "server": ("h", 80),
        }
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop(0)
            await begun
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start" and not begun.done():
                begun.set_result(message["status"])

        async def call() -> None:
            await self.app(scope, receive, send)

        task = asyncio.create_task(call())
        task.add_done_callback(lambda done: None if begun.done() else begun.set_exception(done.exception() or EOFError()))
        status = await begun
        if "event-stream" in operation.content_type:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return status


def wire(operation: Operation, request: msgspec.Struct) -> tuple[str, bytes, bytes]:
    """Path, query and body of a request."""
    given = {key: value for key, value in msgspec.to_builtins(request).items() if value not in (None, "")}
    path = operation.paths[0]
    for name in re.findall(r"\{(\w+)(?::path)?\}", path):
        value = str(given.pop(name))
        path = re.sub(r"/\{" + name + r":path\}", lambda _: "/" + value.lstrip("/"), path)  # noqa: B023 - used at once
        path = path.replace("{" + name + "}", value)
    if operation.reads_body:
        return path, b"", msgspec.json.encode(given[operation.document] if operation.document else given)
    flat = {key: str(value).lower() if isinstance(value, bool) else value for key, value in given.items()}
    return path, urlencode(flat).encode(), b""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = World(tmp_path_factory.mktemp("matrix"))
    yield Site(world)
    world.store.close()


def secured(need: Need, id: str) -> SecurableObject:
    if need.kind is ObjectKind.WORKSPACE_PATH:
        return of_workspace_path(tuple(part for part in id.split("/") if part))
    return SecurableObject(need.kind, id)


def reaches(need: Need, held: Permission | None, id: str) -> bool:
    """Whether whoever was granted this may do it, as far as this need goes."""
    levels = PERMISSIONS[need.kind]
    if need.permission is Permission.ADMIN:
        return False
    if need.of == EVERY:
        return True
    if need.kind is ObjectKind.WORKSPACE:
        return need.permission is Permission.WORKSPACE_ACCESS or held is need.permission
    everybody = for_everybody(secured(need, id))
    have = [levels.index(each) for each in (held, everybody) if each is not None and each is not Permission.ADMIN]
    if need.kind is ObjectKind.TOKENS:
        have.append(levels.index(Permission.CAN_USE))
    return max(have, default=-1) >= levels.index(need.permission)


async def grant(site: Site, need: Need, id: str, held: Permission | None, holder: str) -> None:
    """Grants exactly this on the object; of the workspace, this entitlement."""
    if need.kind is ObjectKind.WORKSPACE:
        entitlements = ("workspace-access", *([held.value] if held else []))
        group = GroupRow(group_id=OUTER, display_name=f"group {OUTER}", entitlements=entitlements)
        await site.world.store.write(lambda tx: tx.groups.put(group))
        return
    if need.of == EVERY or held is Permission.ADMIN or need.kind is ObjectKind.TOKENS:
        return
    kind, place_id = need.kind, fold(id) if need.kind is ObjectKind.SECRET_SCOPE else id
    if kind is ObjectKind.RUN:
        run = await site.world.store.read(lambda tx: tx.runs.get(int(id)))
        assert run is not None
        kind, place_id = ObjectKind.JOB, str(run.job_id)
    if kind is ObjectKind.WAREHOUSE:
        kind = ObjectKind.CLUSTER
    grants = [Grant(holder, held)] if held else []
    await site.world.store.write(lambda tx: tx.grants.put(Place(kind, place_id), grants))


def below(need: Need) -> Permission | None:
    """The level under the one that is needed."""
    levels = PERMISSIONS[need.kind]
    at = levels.index(need.permission)
    return levels[at - 1] if at and need.kind is not ObjectKind.WORKSPACE else None


# Clients send those paths in several forms (tests/features/files/); who may use them: tests/api/test_permissions.py.
OVER_HTTP = [name for name in FOR_USERS if not name.startswith("workspace_files.")]


@pytest.mark.parametrize("name", OVER_HTTP)
async def test_who_may_call_it(site: Site, name: str) -> None:
    operation = OPERATIONS[name]

    async def attempt(token: str, *, lacking: Need | None = None, level: Permission | None = None, bare: bool = False) -> None:
        """Calls with all that is needed granted to the member's group, but for `lacking`, of which `level` is; or without any of
        it (`bare`). Asserts that the answer is as declared."""
        request = await EXAMPLES[name](site.world)
        needed = [need for need in operation.needs if not (need.unless and named(request, need.unless))]
        allowed = True
        for need in needed:
            held = None if bare else level if need is lacking else need.permission
            for id in await objects(need, request, site.world):
                highest = held if need is lacking or bare else max_of(needed, need, held)
                await grant(site, need, id, highest, OUTER)
                allowed = allowed and reaches(need, highest, id)
        status = await site.status(operation, request, token)
        assert (status != 403) == allowed, (name, lacking, level, status)
        assert status != 401

    def max_of(needed: list[Need], need: Need, held: Permission | None) -> Permission | None:
        """Several needs may be about one object."""
        levels = PERMISSIONS[need.kind]
        return max((each.permission for each in needed if each.kind is need.kind), key=levels.index) if held else None

    people = await site.people()
    request = await EXAMPLES[name](site.world)
    assert await site.status(operation, request, people.locked_out) == 401
    await attempt(people.stranger, bare=True)
    await attempt(people.member)
    for need in operation.needs:
        if len([each for each in operation.needs if each.kind is need.kind]) == 1:
            await attempt(people.member, lacking=need, level=below(need))
    status = await site.status(operation, await EXAMPLES[name](site.world), people.admin)
    assert status not in (401, 403), status


OF_ONE = [
    name
    for name in FOR_USERS
    if len(OPERATIONS[name].needs) == 1 and OPERATIONS[name].needs[0].kind in OWNED and OPERATIONS[name].needs[0].of != EVERY
]


@pytest.mark.parametrize("name", OF_ONE)
async def test_an_owner_may_do_all_that_can_be_granted(site: Site, name: str) -> None:
    operation = OPERATIONS[name]
    need = operation.needs[0]

    people = await site.people()
    request = await EXAMPLES[name](site.world)
    ids = await objects(need, request, site.world)
    for id in ids:
        await site.world.give(need.kind, id, "stranger@example.com")
    status = await site.status(operation, request, people.stranger)
    assert (status == 403) == (need.permission is Permission.ADMIN), status
    assert status != 401
