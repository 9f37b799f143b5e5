"""What a deleted user has left is not the next one's of that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.errors import ApiError, PermissionDenied
from brickyard.domain.identity import USERS_ID
from brickyard.features.files import FileTree, NotebookVersions, Uploads, WorkspaceService
from brickyard.features.files.homes import FormerHomes
from brickyard.features.identity import IdentityServices
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.databases import both_databases
from tests.support.desk import ADMIN
from tests.support.people import enter

NAME = "ada@example.com"
NOTES = f"/Users/{NAME}/notes"


@both_databases
async def test_a_user_of_a_former_name_begins_with_an_empty_home(store: Store, tmp_path: Path) -> None:
    clock = ManualClock(now_ms=1_767_225_600_000)  # 2026-01-01
    tree = FileTree(root=tmp_path / "tree", uploads=Uploads(place=tmp_path / "up", clock=clock), store=store)
    versions = NotebookVersions(place=tmp_path / "versions", clock=clock)
    files = WorkspaceService(files=tree, store=store, authorizer=Authorizer(), versions=versions)
    homes = FormerHomes(tree=tree.tree, clock=clock)
    users = IdentityServices.build(store=store, clock=clock, ids=Ids(), authorizer=Authorizer(), homes=homes).users

    async def made() -> Caller:
        found = await users.create(ADMIN, {"userName": NAME})
        caller = Caller(user_name=NAME, user_id=str(found["id"]), is_admin=False, token_id="t")
        await files.status(caller, f"/Users/{NAME}")
        return caller

    def tree_of(name: str) -> Path:
        return tmp_path / "tree" / "Users" / name

    await store.write(lambda tx: enter(tx, ADMIN))
    first = await made()
    (tree_of(NAME) / "notes").write_text("mine")
    place = Place(ObjectKind.WORKSPACE_PATH, NOTES)
    await store.write(lambda tx: tx.grants.put(place, [Grant(USERS_ID, Permission.CAN_READ)]))
    with pytest.raises(ApiError):
        await users.create(ADMIN, {"userName": NAME})
    assert (tree_of(NAME) / "notes").exists(), "one who is there keeps it"
    for number in ("", ", 2"):
        await users.delete(ADMIN, first.user_id)
        first = await made()
        assert list(tree_of(NAME).iterdir()) == []
        former = f"{NAME} (until 2026-01-01{number})"
        assert (tree_of(former) / "notes").read_text() == "mine"
        with pytest.raises(PermissionDenied):
            await files.open(first, f"/Users/{former}/notes")
        assert (await files.status(ADMIN, f"/Users/{former}/notes")).kind == "FILE"
        (tree_of(NAME) / "notes").write_text("mine")
    assert await store.read(lambda tx: tx.grants.of(place)) == ()
