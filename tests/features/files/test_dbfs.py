"""The workspace's files: what the service promises, hostile trees, and the SDK's own way to use them."""

from __future__ import annotations

import asyncio
import base64
import errno
import io
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, NotFound
from databricks.sdk.errors.base import DatabricksError
from hypothesis import given
from hypothesis import strategies as st

from brickyard.access import Authorizer
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    ApiError,
    InvalidParameterValue,
    QuotaExceeded,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
    StorageFull,
)
from brickyard.features.files import DbfsService, FileTree, Uploads, uploads
from brickyard.features.files.arguments import MAX_BLOCK
from brickyard.features.files.errors import MaxBlockSizeExceeded, PartialDelete
from brickyard.features.files.uploads import HANDLE_IDLE_MS, HANDLES
from brickyard.machine import files
from brickyard.storage import safetree
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.clock import ManualClock
from tests.support.edge import USER, edge, sdk
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.room import Room
from tests.support.trees import deep

T = TypeVar("T")
ADMIN = Caller(user_name="admin@example.com", user_id="1", is_admin=True, token_id="a")
OTHER = Caller(user_name="other@example.com", user_id="8", is_admin=False, token_id="o")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Desk:
    def __init__(self, root: Path, database: Store) -> None:
        self.root = root
        self.store = database
        self.clock = ManualClock()
        self.spool = root.parent / "uploads"
        self.room = Room()
        self.service = self.restarted()

    def restarted(self) -> DbfsService:
        """The service of a new server."""
        self.uploads = Uploads(place=self.spool, clock=self.clock)
        files = FileTree(root=self.root, uploads=self.uploads, store=self.store, room=self.room)
        volumes = safetree.SafeTree(root=self.root.parent)
        return DbfsService(files=files, volumes=volumes, store=self.store, authorizer=Authorizer())

    def waiting(self) -> list[str]:
        """What is on its way."""
        return [entry.name for entry in self.spool.iterdir() if entry.name not in (".lock", ".servers")]

    async def put(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        await self.service.put(USER, path, b64(data), overwrite=overwrite)

    async def names(self, path: str) -> list[str]:
        return ["/" + "/".join(entry.parts) for entry in await self.service.list(USER, path)]


@pytest.fixture
def desk(tmp_path: Path, database: Store) -> Iterator[Desk]:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    made = Desk(tmp_path / "dbfs", database)
    yield made
    for place in (made.root, made.spool):  # whatever became of the test: pytest's own cleaning fails at deep trees
        files.remove_tree(place)


async def test_a_file_is_there_once_its_upload_is_closed(desk: Desk) -> None:
    handle = await desk.service.create(USER, "/a/b", overwrite=False)
    await desk.service.add_block(USER, handle, b64(b"one"))
    await desk.service.add_block(USER, handle, b64(b"two"))
    with pytest.raises(ResourceDoesNotExist):
        await desk.service.status(USER, "/a/b")
    assert await desk.names("/") == ["/a"]
    await desk.service.close(USER, handle)
    assert await desk.service.read(USER, "dbfs:/a/b", offset=2, length=100) == b"etwo"
    assert await desk.service.read(USER, "/a/b", offset=100, length=10) == b""
    with pytest.raises(ResourceDoesNotExist):
        await desk.service.close(USER, handle)


async def test_overwriting_is_asked_for(desk: Desk) -> None:
    await desk.put("/f", b"1")
    with pytest.raises(ResourceAlreadyExists):
        await desk.put("/f", b"2")
    await desk.put("/f", b"3", overwrite=True)
    assert (desk.root / "f").read_bytes() == b"3"
    await desk.service.mkdirs(USER, "/d")
    with pytest.raises(InvalidParameterValue):
        await desk.put("/d", b"4", overwrite=True)


async def test_of_two_uploads_to_one_path_the_second_to_close_is_refused(desk: Desk) -> None:
    first, second = [await desk.service.create(USER, "/f", overwrite=False) for _ in range(2)]
    await desk.service.close(USER, first)
    with pytest.raises(ResourceAlreadyExists):
        await desk.service.close(USER, second)
    assert desk.waiting() == []


async def test_handles_are_bounded_expire_and_belong_to_their_user(desk: Desk) -> None:
    handles = [await desk.service.create(USER, f"/{n}", overwrite=False) for n in range(HANDLES.share)]
    with pytest.raises(QuotaExceeded):
        await desk.service.create(USER, "/more", overwrite=False)
    with pytest.raises(ResourceDoesNotExist):
        await desk.service.add_block(OTHER, handles[0], b64(b"x"))
    desk.clock.advance(ms=HANDLE_IDLE_MS + 1)
    with pytest.raises(ResourceDoesNotExist):
        await desk.service.add_block(USER, handles[0], b64(b"x"))
    await desk.service.create(USER, "/more", overwrite=False)
    assert len(desk.waiting()) == 1


def test_a_new_server_forgets_what_nobody_goes_on_with(desk: Desk) -> None:
    asyncio.run(desk.service.create(USER, "/f", overwrite=False))
    for name in ("left", ".new-left"):
        deep(desk.spool / name)
        os.utime(desk.spool / name, (1, 1))
    (desk.spool / "form-left").write_bytes(b"a killed server received this")
    os.utime(desk.spool / "form-left", (1, 1))
    (desk.spool / "form-new").write_bytes(b"another server may still receive this")
    desk.clock.advance(ms=HANDLE_IDLE_MS + 1)
    desk.restarted()
    assert desk.waiting() == ["form-new"]


async def test_an_upload_goes_on_at_another_server_and_after_a_restart(desk: Desk) -> None:
    first, second = desk.service, desk.restarted()
    handle = await first.create(USER, "/f", overwrite=False)
    await first.add_block(USER, handle, b64(b"one "))
    await second.add_block(USER, handle, b64(b"two "))
    await first.add_block(USER, handle, b64(b"three "))
    first._uploads.close()
    second._uploads.close()
    torn = await second.create(USER, "/torn", overwrite=False)
    (desk.spool / str(torn) / "about.json").write_bytes(b"\0" * 40)  # the machine lost its power
    third = desk.restarted()
    with pytest.raises(ResourceDoesNotExist):
        await third.add_block(USER, torn, b64(b"x"))
    assert desk.waiting() == [str(handle)]
    await third.add_block(USER, handle, b64(b"four"))
    with pytest.raises(ResourceDoesNotExist):
        await third.add_block(OTHER, handle, b64(b"five"))
    await third.close(USER, handle)
    assert (desk.root / "f").read_bytes() == b"one two three four"
    for service in (first, second, third):
        with pytest.raises(ResourceDoesNotExist):
            await service.close(USER, handle)


async def test_nobody_can_take_every_upload(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "HANDLES", HANDLES._replace(total=4, share=2, reserve=1))

    async def create(user: Caller, name: str) -> None:
        await desk.service.create(user, f"/{name}", overwrite=False)

    for user, allowed in ((USER, 2), (OTHER, 1), (ADMIN, 1)):
        for number in range(allowed):
            await create(user, f"{user.user_name}{number}")
        with pytest.raises(QuotaExceeded):
            await create(user, "more")


async def test_the_limit_of_uploads_is_that_of_all_servers(desk: Desk) -> None:
    servers = [desk.service, desk.restarted()]
    for number in range(HANDLES.share - 1):
        await servers[number % 2].create(USER, f"/{number}", overwrite=False)
    begun = await asyncio.gather(
        *(servers[n % 2].create(USER, f"/more{n}", overwrite=False) for n in range(6)), return_exceptions=True
    )
    assert sum(isinstance(each, int) for each in begun) == 1
    assert {type(each) for each in begun} == {int, QuotaExceeded}


async def test_two_servers_take_the_blocks_of_one_upload_in_turns(desk: Desk) -> None:
    servers = [desk.service, desk.restarted()]
    handle = await servers[0].create(USER, "/f", overwrite=False)
    blocks = [bytes([number]) * 10_000 for number in range(40)]
    await asyncio.gather(*(servers[n % 2].add_block(USER, handle, b64(block)) for n, block in enumerate(blocks)))
    await servers[1].close(USER, handle)
    found = (desk.root / "f").read_bytes()
    assert sorted(found[at : at + 10_000] for at in range(0, len(found), 10_000)) == blocks


async def test_a_block_that_may_have_been_taken_twice_ends_its_upload(desk: Desk, golden: Golden) -> None:
    """The SDK repeats a request whose connection broke. Behind a proxy the repetition arrives at another server."""

    first, second = desk.service, desk.restarted()
    same, other = [await first.create(USER, f"/{name}", overwrite=False) for name in ("same", "other")]
    for handle in (same, other):
        await first.add_block(USER, handle, b64(b"x"))
        await second.add_block(USER, handle, b64(b"x"))  # two servers that live: it is another one that looks the same
    second._uploads.close()
    await first.add_block(USER, other, b64(b"y"))
    with golden.refused(ResourceDoesNotExist):
        await first.add_block(USER, same, b64(b"x"))
    with pytest.raises(ResourceDoesNotExist):
        await first.close(USER, same)
    await first.close(USER, other)
    assert (desk.root / "other").read_bytes() == b"xxy"


async def test_what_a_killed_server_did_to_an_upload_is_finished_or_written_over(desk: Desk) -> None:
    half, placed, linked = [await desk.service.create(USER, f"/{n}", overwrite=False) for n in ("half", "placed", "linked")]
    for handle in (half, placed, linked):
        await desk.service.add_block(USER, handle, b64(b"whole"))
    with (desk.spool / str(half) / "data").open("ab") as data:
        data.write(b"torn")  # killed in the middle of a block
    (desk.spool / str(placed) / "data").rename(desk.root / "placed")  # killed before it forgot the uploads
    os.link(desk.spool / str(linked) / "data", desk.root / "linked")
    other = desk.restarted()
    for handle in (placed, linked):
        with pytest.raises(ResourceDoesNotExist):
            await other.add_block(USER, handle, b64(b"more"))
        await other.close(USER, handle)  # its client was not answered, and asks again
    await other.close(USER, half)
    assert {(desk.root / name).read_bytes() for name in ("half", "placed", "linked")} == {b"whole"}
    assert desk.waiting() == []


async def test_blocks_are_bounded_and_must_be_base64(desk: Desk) -> None:
    await desk.put("/full", bytes(MAX_BLOCK))
    with pytest.raises(MaxBlockSizeExceeded):
        await desk.put("/more", bytes(MAX_BLOCK + 1))
    assert await desk.names("/") == ["/full"]


@pytest.mark.parametrize(
    "data", ["a", "!!!", "%%%%", "aGk*====", "aGk", "aGk==", "aGk=aGk=", "aGk=\n", "aG-_", "aGl=", " aGk=", "é"]
)
async def test_what_is_not_base64_is_refused_whole(desk: Desk, data: str, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue):
        await desk.service.put(USER, "/bad", data, overwrite=False)
    handle = await desk.service.create(USER, "/f", overwrite=False)
    with golden.refused(InvalidParameterValue):
        await desk.service.add_block(USER, handle, data)
    await desk.service.add_block(USER, handle, b64(b"whole"))
    await desk.service.close(USER, handle)
    assert await desk.names("/") == ["/f"]
    assert (desk.root / "f").read_bytes() == b"whole"


async def test_directories(desk: Desk, golden: Golden) -> None:
    await desk.service.mkdirs(USER, "/x/y")
    await desk.service.mkdirs(USER, "/x/y")
    await desk.put("/x/y/f", b"1")
    with golden.refused(ApiError) as error:
        await desk.service.delete(USER, "/x", recursive=False)
    assert error.value.error_code == "IO_ERROR"
    await desk.service.move(USER, "/x/y", "/z/w")
    assert await desk.names("/z/w") == ["/z/w/f"] and await desk.names("/x") == []
    assert await desk.names("/z/w/f") == ["/z/w/f"]
    with pytest.raises(ResourceAlreadyExists):
        await desk.service.move(USER, "/z/w", "/x")
    with pytest.raises(InvalidParameterValue):
        await desk.service.move(USER, "/z", "/z/w/inside")
    with pytest.raises(ResourceAlreadyExists):
        await desk.service.mkdirs(USER, "/z/w/f/deeper")
    with pytest.raises(ResourceDoesNotExist):
        await desk.service.status(USER, "/z/w/f/deeper")
    for _ in range(2):  # nothing there is no error
        await desk.service.delete(USER, "/z", recursive=True)
    with pytest.raises(InvalidParameterValue):
        await desk.service.delete(USER, "/", recursive=True)


@pytest.mark.parametrize(
    "path",
    ["", "a", "/..", "/a/../../b", "dbfs:a", "/a\x00b", "file:/etc/passwd", "/Volumes/c/s/v/f", "/Workspace/f", "/" + "é" * 128],
)
def test_paths_that_are_refused(desk: Desk, path: str) -> None:
    with pytest.raises(InvalidParameterValue):
        asyncio.run(desk.put(path, b"x"))


@given(st.text(max_size=40))
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, database: Store, path: str) -> None:
    desk = Desk(tmp_path_factory.mktemp("any") / "dbfs", database)
    try:
        asyncio.run(desk.put("/" + path, b"x"))
    except ApiError:
        return
    assert sorted(entry.name for entry in desk.root.parent.iterdir()) == ["dbfs", "uploads"]
    assert desk.waiting() == []


class HeldStore(Store):
    """A store of which one read, once `hold` is set, is answered when it is cleared."""

    def __init__(self, of: Store) -> None:
        self.__dict__ = {**of.__dict__}
        self.hold, self.go_on, self.held = False, asyncio.Event(), asyncio.Event()

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        found = await super().read(work, background=background)
        if self.hold:
            self.hold = False
            self.held.set()
            await self.go_on.wait()
        return found


async def test_a_block_that_comes_as_its_upload_ends_is_written_nowhere(desk: Desk) -> None:
    """Two uploads begin after the end of the first one: one of them has its descriptor's number."""

    desk.store = store = HeldStore(desk.store)
    service = desk.restarted()
    ended = await service.create(USER, "/ended", overwrite=False)
    store.hold = True
    block = asyncio.create_task(service.add_block(USER, ended, b64(b"late")))
    await asyncio.wait_for(store.held.wait(), PATIENCE_S)
    await service.close(USER, ended)
    others = [await service.create(USER, f"/other{n}", overwrite=False) for n in range(2)]
    store.go_on.set()
    with pytest.raises(ResourceDoesNotExist):
        await block
    for other in others:
        await service.close(USER, other)
    for path in ("/ended", "/other0", "/other1"):
        assert await service.read(USER, path, offset=0, length=10) == b""


async def test_links_and_special_files_are_not_there(desk: Desk) -> None:
    outside = desk.root.parent / "outside"
    (desk.root / "dir").symlink_to(outside)
    (desk.root / "file").symlink_to(outside / "secret")
    os.mkfifo(desk.root / "fifo")

    for path in ("/dir", "/dir/secret", "/file", "/fifo"):
        for attempt in (
            desk.service.read(USER, path, offset=0, length=10),
            desk.service.status(USER, path),
            desk.service.list(USER, path),
            desk.service.move(USER, path, "/stolen"),
        ):
            with pytest.raises(ResourceDoesNotExist):
                await attempt
        await desk.service.delete(USER, path, recursive=True)  # of nothing
    assert {entry.name for entry in desk.root.iterdir()} == {"dir", "file", "fifo"}
    for write in (desk.put("/dir/new", b"x", overwrite=True), desk.service.mkdirs(USER, "/dir/new")):
        with pytest.raises(ResourceAlreadyExists):
            await write
    await desk.put("/file", b"mine", overwrite=True)  # replaces the link, not what it points to
    assert await desk.names("/") == ["/file"]
    assert (outside / "secret").read_text() == "secret"
    assert [entry.name for entry in outside.iterdir()] == ["secret"]


@pytest.mark.parametrize("planted", ["file", "link", "tree"])
def test_nothing_in_the_tree_is_in_the_way_of_uploads_or_of_a_start(desk: Desk, planted: str) -> None:
    """Earlier, uploads were in `/.brickyard`, where clusters could put what they liked."""
    place = desk.root / ".brickyard"
    if planted == "file":
        place.write_text("mine")
    elif planted == "link":
        place.symlink_to(desk.root.parent / "outside")
    else:
        deep(place)
    desk.service = desk.restarted()
    asyncio.run(desk.put("/f", b"x"))
    assert (desk.root / "f").read_bytes() == b"x"
    assert [entry.name for entry in (desk.root.parent / "outside").iterdir()] == ["secret"]
    if planted != "link":
        asyncio.run(desk.service.delete(USER, "/.brickyard", recursive=True))
        assert asyncio.run(desk.names("/")) == ["/f"]


def test_a_tree_of_any_depth_and_any_names_is_deleted(desk: Desk) -> None:
    top = desk.root / "hostile"
    deep(top)
    os.mkfifo(top / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(top / "socket"))
    os.close(os.open(os.fsencode(top) + b"/\xff\xfe", os.O_CREAT))
    (top / "link").symlink_to(desk.root.parent / "outside")
    (top / "locked").mkdir()
    (top / "locked" / "f").touch()
    (top / "locked").chmod(0)
    assert asyncio.run(desk.names("/hostile")) == ["/hostile/d", "/hostile/locked"]
    asyncio.run(desk.service.delete(USER, "/hostile", recursive=True))
    assert asyncio.run(desk.names("/")) == []
    assert (desk.root.parent / "outside" / "secret").exists()


def test_a_tree_that_is_too_large_for_one_call_is_gone_after_several(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    deep(desk.root / "large")
    monkeypatch.setattr(safetree, "REMOVE_S", 0.0)
    with golden.refused(PartialDelete):
        asyncio.run(desk.service.delete(USER, "/large", recursive=True))
    monkeypatch.undo()
    asyncio.run(desk.service.delete(USER, "/large", recursive=True))
    assert asyncio.run(desk.names("/")) == []


async def test_files_on_a_disk_of_their_own_are_copied_there(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(settle: Any) -> Any:
        def one_disk_only(source: str, target: str, origin: int | None, parent: int, *, replace: bool) -> None:
            if origin is None:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            settle(source, target, origin, parent, replace=replace)

        return one_disk_only

    monkeypatch.setattr(safetree, "_settle", elsewhere(safetree._settle))

    await desk.put("/a/f", b"1")
    with pytest.raises(ResourceAlreadyExists):
        await desk.put("/a/f", b"2")
    await desk.put("/a/f", b"3", overwrite=True)
    assert await desk.names("/a") == ["/a/f"]
    assert (desk.root / "a" / "f").read_bytes() == b"3"
    assert desk.waiting() == []


# ── through the SDK ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def url(desk: Desk) -> Iterator[str]:
    with edge(dbfs=desk.service) as address:
        yield address


@pytest.fixture
def workspace(url: str) -> WorkspaceClient:
    return sdk(url)


def test_upload_download_exists_list_of_the_sdk(workspace: WorkspaceClient) -> None:
    data = os.urandom(2 * MAX_BLOCK + 12345)
    workspace.dbfs.upload("/data/big.bin", io.BytesIO(data))
    with workspace.dbfs.download("/data/big.bin") as stream:
        assert stream.read() == data
    assert workspace.dbfs.exists("/data/big.bin") and not workspace.dbfs.exists("/data/none")
    assert [entry.path for entry in workspace.dbfs.list("/data")] == ["/data/big.bin"]
    status = workspace.dbfs.get_status("dbfs:/data/big.bin")
    assert (status.file_size, status.is_dir) == (len(data), False)
    workspace.dbfs.upload("/data/empty", io.BytesIO(b""))
    assert workspace.dbfs.read("/data/empty").bytes_read == 0
    workspace.dbfs.move("/data", "/moved")
    workspace.dbfs.delete("/moved", recursive=True)
    assert list(workspace.dbfs.list("/")) == []


def test_errors_of_the_sdk(workspace: WorkspaceClient) -> None:
    with pytest.raises(NotFound):
        workspace.dbfs.get_status("/none")
    workspace.dbfs.put("/f", contents=b64(b"1"))
    with pytest.raises(DatabricksError) as error:
        workspace.dbfs.put("/f", contents=b64(b"1"))
    assert error.value.error_code == "RESOURCE_ALREADY_EXISTS"
    with pytest.raises(BadRequest) as bad:
        workspace.dbfs.put("/g", contents=b64(bytes(MAX_BLOCK + 1)))
    assert bad.value.error_code == "MAX_BLOCK_SIZE_EXCEEDED"


@pytest.mark.parametrize("part", ["contents", "content", "file"])  # the documentation, its examples, the older CLI
def test_a_form_may_carry_the_contents(url: str, desk: Desk, part: str) -> None:
    data = bytes(range(256)) + b"\r\n--x"
    answer = requests.post(
        f"{url}/api/2.0/dbfs/put",
        headers={"Authorization": "Bearer secret"},
        data={"path": "/form", "overwrite": "true"},
        files={part: data},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text
    assert (desk.root / "form").read_bytes() == data


def test_a_form_may_carry_a_large_file_before_its_path(url: str, desk: Desk) -> None:
    data = os.urandom(5 * MAX_BLOCK + 1) + b"\r\n--"
    for overwrite, status in (("false", 200), ("false", 400), ("true", 200)):
        answer = requests.post(
            f"{url}/api/2.0/dbfs/put",
            headers={"Authorization": "Bearer secret"},
            files=[("contents", data), ("path", (None, "/made/for/it")), ("overwrite", (None, overwrite))],
            timeout=PATIENCE_S,
        )
        assert answer.status_code == status, answer.text
    assert (desk.root / "made" / "for" / "it").read_bytes() == data
    assert desk.waiting() == []


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": "/f", "overwrite": "perhaps"},
        {"path": "/../f"},
        {"path": "/" + "x" * 9000},
    ],
)
def test_a_form_that_cannot_be_placed_leaves_nothing(url: str, desk: Desk, fields: dict[str, str], golden: Golden) -> None:
    answer = requests.post(
        f"{url}/api/2.0/dbfs/put",
        headers={"Authorization": "Bearer secret"},
        data=fields,
        files={"contents": b"1" * 100_000},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 400
    golden(answer.json()["message"])
    assert desk.waiting() == []


def test_a_form_that_is_cut_short_leaves_nothing(url: str, desk: Desk, golden: Golden) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n/f\r\n--b\r\n'
    body += b'Content-Disposition: form-data; name="contents"\r\n\r\n' + b"1" * 1000
    answer = requests.post(
        f"{url}/api/2.0/dbfs/put",
        headers={"Authorization": "Bearer secret", "Content-Type": "multipart/form-data; boundary=b"},
        data=body,
        timeout=PATIENCE_S,
    )
    golden(answer.json()["message"])
    assert not (desk.root / "f").exists()
    assert desk.waiting() == []


def test_a_form_with_two_files_is_refused(url: str, desk: Desk) -> None:
    answer = requests.post(
        f"{url}/api/2.0/dbfs/put",
        headers={"Authorization": "Bearer secret"},
        data={"path": "/form"},
        files={"contents": b"1", "other": b"2"},
        timeout=PATIENCE_S,
    )
    assert answer.json()["error_code"] == "INVALID_PARAMETER_VALUE"
    assert not (desk.root / "form").exists()


async def test_nothing_is_added_while_room_is_short_and_everything_else_works(desk: Desk) -> None:
    await desk.put("/kept", b"one")
    handle = await desk.service.create(USER, "/begun", overwrite=False)
    desk.room.why = "The workspace's disk is full."
    for attempt in (
        desk.put("/new", b"x"),
        desk.service.create(USER, "/new", overwrite=False),
        desk.service.add_block(USER, handle, b64(b"x")),
    ):  # fmt: skip
        with pytest.raises(StorageFull) as raised:
            await attempt
        assert (raised.value.http_status, str(raised.value)) == (507, desk.room.why)
    assert await desk.service.read(USER, "/kept", offset=0, length=10) == b"one"
    await desk.service.move(USER, "/kept", "/moved")
    await desk.service.delete(USER, "/moved", recursive=False)
    desk.room.why = ""
    await desk.service.add_block(USER, handle, b64(b"x"))
    await desk.service.close(USER, handle)
    assert await desk.names("/") == ["/begun"]
