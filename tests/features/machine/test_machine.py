"""Runtimes of the server's machine: an installation's progress, its failure, and its end with the server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from brickyard.access import Authorizer
from brickyard.domain.errors import InvalidState, PermissionDenied, ResourceDoesNotExist
from brickyard.features.runtimes.service import RuntimeService, RuntimeStanding
from brickyard.runtime import catalogue
from brickyard.runtime.installed import runtime_home
from brickyard.runtime.inuse import RuntimeUse
from brickyard.runtime.progress import Board, Report
from brickyard.store.store import Store
from tests.support.databases import empty_sqlite
from tests.support.desk import ADMIN, USER
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

KEY = catalogue.default().key
ENVIRONMENT = catalogue.default().environment


def service(place: Path, program: str) -> RuntimeService:
    """Its installer is this program."""
    empty_sqlite(place / "brickyard.db")
    store = Store.open(f"sqlite:///{place / 'brickyard.db'}")
    return RuntimeService(
        store=store, authorizer=Authorizer(), cache_dir=place / "cache", command=(sys.executable, "-c", program)
    )


async def standing(of: RuntimeService) -> RuntimeStanding:
    return next(each for each in (await of.list(ADMIN)).runtimes if each.key == KEY)


async def settled(of: RuntimeService) -> RuntimeStanding:
    async with asyncio.timeout(PATIENCE_S):
        while (found := await standing(of)).installing is not None:
            await asyncio.sleep(0.02)
    return found


async def test_only_administrators(tmp_path: Path) -> None:
    of = service(tmp_path, "")
    for call in (of.list(USER), of.install(USER, KEY), of.remove(USER, KEY)):
        with pytest.raises(PermissionDenied):
            await call


async def test_a_failure_says_why_and_is_forgotten_by_the_next_try(tmp_path: Path) -> None:
    why = "the index does not answer"
    of = service(tmp_path, f"import sys; sys.exit({why!r})")
    await of.install(ADMIN, KEY)
    assert (await standing(of)).installing is not None
    assert (await settled(of)).failure == why
    await of.remove(ADMIN, KEY)
    assert (await standing(of)).failure == ""


async def test_progress_is_that_of_whoever_installs_it(tmp_path: Path, golden: Golden) -> None:
    of = service(tmp_path, "")
    (tmp_path / "cache" / "locks").mkdir(parents=True)
    Board(ENVIRONMENT, tmp_path / "cache").write(Report(subject="Spark 4", step=2, share=0.25, left_s=60))
    progress = (await standing(of)).installing
    assert progress is not None
    assert (progress.share, progress.left_s) == (0.25, 60)
    golden(progress.message)


async def test_an_installation_ends_with_the_server(tmp_path: Path, golden: Golden) -> None:
    of = service(tmp_path, "import time; time.sleep(3600)")
    await of.install(ADMIN, KEY)
    await of.install(ADMIN, KEY)  # the same one
    with golden.refused(InvalidState):
        await of.remove(ADMIN, KEY)
    async with asyncio.timeout(PATIENCE_S):
        await of.close()
    assert (await standing(of)).installing is None


async def test_what_is_in_use_or_unknown_is_refused(tmp_path: Path, golden: Golden) -> None:
    of = service(tmp_path, "")
    with golden.refused(ResourceDoesNotExist):
        await of.install(ADMIN, "nonsense")
    runtime_home(ENVIRONMENT, tmp_path / "cache").mkdir(parents=True)
    use = RuntimeUse(tmp_path / "cache")
    use.begin(ENVIRONMENT)
    with golden.refused(InvalidState):
        await of.remove(ADMIN, KEY)
    use.end()
    await of.remove(ADMIN, KEY)
    assert not runtime_home(ENVIRONMENT, tmp_path / "cache").exists()
