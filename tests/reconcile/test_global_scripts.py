"""Global init scripts: a cluster's nodes run those of its start, whenever they join; only administrators change them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from brickyard.access import Authorizer
from brickyard.domain.clock import Ids
from brickyard.domain.errors import PermissionDenied, QuotaExceeded
from brickyard.domain.scripts import MAX_GLOBAL_SCRIPTS, CreateGlobalInitScript, UpdateGlobalInitScript
from brickyard.domain.states import State
from brickyard.features.scripts.service import GlobalScriptService
from brickyard.store.store import Store
from tests.reconcile.world import CLOCK, World, provider
from tests.support.desk import ADMIN, USER
from tests.support.golden import Golden


def _script(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _service(store: Store) -> GlobalScriptService:
    return GlobalScriptService(store=store, clock=CLOCK, ids=Ids(), authorizer=Authorizer())


async def _ran(world: World, name: str) -> set[str]:
    """The contents that the cluster's nodes are given; rows have none."""
    found = set()
    for node in (await world.look(name))[1]:
        assert node.assignment is not None
        assert [script.content for script in node.assignment.init_scripts] == [""]
        delivered = (await world.agents.assignment(node.instance_id, -1, 0)).assignment
        assert delivered is not None
        found |= {base64.b64decode(script.content).decode() for script in delivered.init_scripts}
    return found


async def test_nodes_run_the_scripts_of_the_clusters_start(store: Store) -> None:
    scripts = _service(store)
    first = await scripts.create(ADMIN, CreateGlobalInitScript(name="first", script=_script("echo 1"), enabled=True))
    await scripts.create(ADMIN, CreateGlobalInitScript(name="off", script=_script("echo off")))
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        assert await _ran(world, "c") == {"echo 1"}
        await scripts.update(ADMIN, UpdateGlobalInitScript(script_id=first, script=_script("echo 2")))
        await world.resize("c", 2)
        await world.wait("c", State.RUNNING)
        assert len((await world.look("c"))[1]) == 3
        assert await _ran(world, "c") == {"echo 1"}, "a running cluster keeps what it started with"
        await world.start("c")
        await world.wait("c", State.RUNNING)
        assert await _ran(world, "c") == {"echo 2"}
    await scripts.update(ADMIN, UpdateGlobalInitScript(script_id=first, enabled=False))
    kept = await store.read(lambda tx: tx.scripts.contents([each.digest for each in tx.scripts.all()]))
    assert {base64.b64decode(content).decode() for content in kept.values()} == {"echo 2", "echo off"}
    await scripts.delete(ADMIN, first)
    assert [each.name for each in (await scripts.list(ADMIN)).scripts] == ["off"]


async def test_contents_that_nobody_names_are_forgotten(store: Store) -> None:
    scripts = _service(store)
    made = await scripts.create(ADMIN, CreateGlobalInitScript(name="a", script=_script("echo 1"), enabled=True))
    (before,) = await store.read(lambda tx: tx.scripts.enabled())
    await scripts.update(ADMIN, UpdateGlobalInitScript(script_id=made, script=_script("echo 2")))
    assert await store.read(lambda tx: tx.scripts.contents([before.digest])) == {}
    (now,) = await store.read(lambda tx: tx.scripts.enabled())
    assert (await scripts.get(ADMIN, made)).script == _script("echo 2")
    await scripts.delete(ADMIN, made)
    assert await store.read(lambda tx: tx.scripts.contents([now.digest])) == {}


async def test_only_administrators_and_not_too_many(store: Store, golden: Golden) -> None:
    scripts = _service(store)
    request = CreateGlobalInitScript(name="a", script=_script("x"))
    made = await scripts.create(ADMIN, request)
    calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: scripts.list(USER),
        lambda: scripts.get(USER, made),
        lambda: scripts.create(USER, request),
        lambda: scripts.update(USER, UpdateGlobalInitScript(script_id=made, name="b")),
        lambda: scripts.delete(USER, made),
    ]
    for call in calls:
        with pytest.raises(PermissionDenied, match="only administrators can"):
            await call()
    while (left := MAX_GLOBAL_SCRIPTS - len((await scripts.list(ADMIN)).scripts)) > 0:
        # They take turns, and a busy machine lets none wait for all the others.
        await asyncio.gather(*(scripts.create(ADMIN, request) for _ in range(min(left, 10))))
    listed = (await scripts.list(ADMIN)).scripts
    assert [each.position for each in listed] == list(range(MAX_GLOBAL_SCRIPTS))
    with golden.refused(QuotaExceeded, str(MAX_GLOBAL_SCRIPTS)):
        await scripts.create(ADMIN, request)
