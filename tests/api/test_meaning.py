"""What changes the meaning of a call is refused by every operation that changes something."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.api.test_outcomes import CHANGES, ask, served, state
from tests.api.test_permissions import ALWAYS_REFUSED, EXAMPLES, OPERATIONS, World

HEADERS = ("content-range", "content-encoding", "if-match", "if-none-match", "x-http-method-override")


@pytest.mark.parametrize("group", sorted({name.partition(".")[0] for name in CHANGES}))
def test_what_is_not_understood_changes_nothing(tmp_path: Path, group: str) -> None:
    async def scenario(world: World) -> None:
        app = served(world)
        for name in (each for each in CHANGES if each.partition(".")[0] == group):
            operation, request = OPERATIONS[name], await EXAMPLES[name](world)
            before = state(world)
            for query in ({"part_number": "2"}, {"version": "3", "dry_run": "true"}):
                status, answer = await ask(app, operation, request, more=query)
                assert (status, next(iter(query)) in str(answer)) == (400, True), f"{name} {answer}"
            for header in HEADERS:
                status, answer = await ask(app, operation, request, headers={header: "x"})
                assert (status, header.title() in str(answer)) == (400, True), f"{name} {answer}"
            assert state(world) == before, name
            if operation.paths[0].startswith("/api"):  # the /v1 API takes nothing that it does not know
                status, answer = await ask(app, operation, request, headers={"content-encoding": "identity"}, more={"o": "1234"})
                assert status < 400 or answer["error_code"] == "INVALID_STATE" or name in ALWAYS_REFUSED, f"{name} {answer}"

    world = World(tmp_path)
    try:
        asyncio.run(scenario(world))
    finally:
        world.store.close()


async def test_what_only_reads_ignores_what_it_does_not_know(tmp_path: Path) -> None:
    world = World(tmp_path)

    served_once = served(world)
    try:
        for name in ("clusters.list", "jobs.runs_list", "tokens.list"):
            request = await EXAMPLES[name](world)
            status, answer = await ask(served_once, OPERATIONS[name], request, more={"include_something": "true"})
            assert status == 200, answer
    finally:
        world.store.close()
