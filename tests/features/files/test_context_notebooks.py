"""`%run` and `dbutils.notebook.run` behind the kernel: what a context may read of the workspace."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from brickyard.access import Authorizer
from brickyard.agent.contexts import Contexts, Question
from brickyard.domain.caller import Caller
from brickyard.domain.node import AskNotebook, NotebookReply
from brickyard.features.files import FileTree, NotebookVersions, Uploads, WorkspaceService
from brickyard.features.files.contexts import ContextNotebooks
from brickyard.features.files.formats import MAX_NOTEBOOK, Format
from brickyard.features.files.notebooks import Language
from brickyard.nodes.tokens import InstanceTokens
from brickyard.storage.directory import Storage
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.desk import ADMIN, USER
from tests.support.people import ENTITLED, enter
from tests.support.room import Room

TOKENS = InstanceTokens(key=b"k" * 32)
OTHER = Caller(user_name="other@example.com", user_id="9", is_admin=False, token_id="o", entitlements=ENTITLED)
MINE = f"/Users/{USER.user_name}"


class Node:
    """An agent's contexts, and the server that it asks."""

    def __init__(self, store: Store, place: Path) -> None:
        uploads, storage = Uploads(place=place / "uploads", clock=ManualClock()), Storage(place)
        tree = FileTree(root=storage.workspace, uploads=uploads, store=store, room=Room())
        versions = NotebookVersions(place=storage.versions, clock=ManualClock())
        self.workspace = WorkspaceService(files=tree, store=store, authorizer=Authorizer(), versions=versions)
        self.server = ContextNotebooks(store=store, workspace=self.workspace, tokens=TOKENS)
        self.contexts = Contexts(instance_id="i-1", hider=self)
        store.write_sync(lambda tx: enter(tx, ADMIN, USER, OTHER))
        for context, user in (("mine", USER), ("theirs", OTHER)):
            self.contexts.made(context, user.user_name, TOKENS.ticket("i-1", context, user.user_name))

    def hide(self, secret: str, sealed: str) -> None:
        raise AssertionError("a notebook is no secret")

    async def write(self, path: str, content: bytes, language: Language | None = Language.PYTHON) -> None:
        encoded, kind = base64.b64encode(content).decode(), Format.SOURCE if language else Format.RAW
        await self.workspace.import_content(USER, path, encoded, format=kind, language=language, overwrite=True)

    async def read(self, context_id: str, path: str) -> NotebookReply:
        return await self.contexts.notebook(Question(ask=1, context_id=context_id, notebook=path), self.server.ask)


@pytest.fixture
def node(store: Store, tmp_path: Path) -> Node:
    return Node(store, tmp_path)


async def test_a_context_reads_what_its_user_may(node: Node) -> None:
    await node.write(f"{MINE}/notebook", b"print(1)\n")
    await node.write(f"{MINE}/query", b"select 1\n", Language.SQL)
    await node.write(f"{MINE}/file.py", b"# Databricks notebook source\nx = 1\n", None)
    found = await node.read("mine", f"{MINE}/notebook")
    assert (base64.b64decode(found.content), found.language) == (b"# Databricks notebook source\nprint(1)\n", "python")
    assert (await node.read("mine", f"/Workspace{MINE}/query")).language == "sql"
    file = await node.read("mine", f"{MINE}/file.py")
    assert (base64.b64decode(file.content), file.language) == (b"# Databricks notebook source\nx = 1\n", "")
    refused = await node.read("theirs", f"{MINE}/notebook")
    assert (refused.error_code, refused.content) == ("PERMISSION_DENIED", "")
    await node.write("/Shared/notebook", b"print(2)\n")
    assert (await node.read("theirs", "/Shared/notebook")).content


async def test_what_is_no_notebook_or_file_is_refused(node: Node) -> None:
    await node.write(f"{MINE}/large", b"x" * (MAX_NOTEBOOK + 1), None)
    assert (await node.read("mine", f"{MINE}/large")).error_code == "MAX_NOTEBOOK_SIZE_EXCEEDED"
    assert (await node.read("mine", f"{MINE}/missing")).error_code == "RESOURCE_DOES_NOT_EXIST"
    assert (await node.read("mine", MINE)).error_code
    assert (await node.read("mine", "dbfs:/x")).error_code == "INVALID_PARAMETER_VALUE"
    assert (await node.read("mine", "/Users/../../x")).error_code == "INVALID_PARAMETER_VALUE"


async def test_nothing_is_read_without_the_ticket_of_that_context(node: Node) -> None:
    await node.write(f"{MINE}/notebook", b"print(1)\n")
    assert (await node.read("nobodys", f"{MINE}/notebook")).error_code == "PERMISSION_DENIED"
    ticket = TOKENS.ticket("i-1", "mine", USER.user_name)
    good = AskNotebook(instance_id="i-1", context_id="mine", user=USER.user_name, ticket=ticket, path=f"{MINE}/notebook")
    assert (await node.server.ask(good)).content
    for change in ({"instance_id": "i-2"}, {"context_id": "theirs"}, {"user": ADMIN.user_name}, {"ticket": ""}):
        reply = await node.server.ask(msgspec.structs.replace(good, **change))
        assert (reply.error_code, reply.content) == ("PERMISSION_DENIED", ""), change
