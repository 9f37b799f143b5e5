"""The workspace's notebooks, files and directories: what clients see at `/Users/...` and nodes at `/Workspace/Users/...`.

Everything is a file or a directory of one tree. A file is a notebook if it begins with a notebook's header (`notebooks.py`),
however it came there, unless it was imported as a file (`labels.py`): so nothing beside the tree has to agree with it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import HOMES, of_workspace_path, path_of
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import Aborted, InvalidParameterValue, ResourceAlreadyExists, ResourceDoesNotExist
from brickyard.features.files import notebooks
from brickyard.features.files.arguments import field, flag, parts_of
from brickyard.features.files.errors import MISSING_OBJECT, AlreadyExists, DirectoryNotEmpty
from brickyard.features.files.formats import MAX_NOTEBOOK, Exported, Format, exported, exported_content, language_in, prepare
from brickyard.features.files.homes import home_of
from brickyard.features.files.notebooks import Language
from brickyard.features.files.objectids import ObjectIds, object_id
from brickyard.features.files.tree import Draft, FileTree, OpenFile, receive_form
from brickyard.features.files.versions import Kept, NotebookVersions, Version, etag_of
from brickyard.storage.labels import Label, created_ms, label_of, put_label
from brickyard.storage.safetree import Entry
from brickyard.store.store import Store
from brickyard.store.tx import Tx

E = TypeVar("E", bound=StrEnum)
_TOP = "Workspace"
_FORM = ("path", "format", "language", "overwrite")


_REFUSED = {
    Format.HTML: "notebooks are kept without their results",
    Format.DBC: "archives are not supported; import or export each notebook by itself",
    Format.R_MARKDOWN: "R Markdown is not supported",
}


class WorkspaceObject(NamedTuple):
    """A notebook (with its language), a file or a directory. `path` is as the client writes it. `export_format`: the one in which
    a notebook came."""

    path: str
    object_id: int
    entry: Entry
    created_ms: int
    language: Language | None = None
    export_format: Format = Format.SOURCE

    @property
    def kind(self) -> str:
        return "DIRECTORY" if self.entry.is_dir else "NOTEBOOK" if self.language else "FILE"

    @property
    def parts(self) -> tuple[str, ...]:
        return self.entry.parts


class Written(NamedTuple):
    """What an import has written. `etag`: of its content; "" for a file."""

    object_id: int
    etag: str = ""


class _Replaced(NamedTuple):
    """What an import replaces. `content`: of a notebook."""

    created_ms: int
    modified_ms: int
    label: Label
    language: Language | None = None
    content: bytes = b""

    def as_version(self) -> Version:
        """What a version says of a notebook's content. A program on a node that writes into the file
        leaves the label as it was."""
        assert self.language is not None  # noqa: S101 - see above
        by = self.label.saved_by if self.label.saved_ms == self.modified_ms else ""
        return Version(
            saved_ms=self.modified_ms, saved_by=by, created_ms=self.created_ms, language=self.language, size=len(self.content)
        )


class WorkspaceService:
    """One per server. Paths are `/Users/...` or `/Workspace/Users/...`. Methods raise ApiError."""

    def __init__(self, *, files: FileTree, store: Store, authorizer: Authorizer, versions: NotebookVersions) -> None:
        self._files = files
        self._versions = versions
        files.missing = MISSING_OBJECT
        self._store = store
        self._authorizer = authorizer
        self._homes: set[tuple[str, str]] = set()  # name and id: a later user of the name has a new one
        self._ids = ObjectIds(files)

    async def status(self, caller: Caller, path: str) -> WorkspaceObject:
        """What is at a path."""
        parts = await self._may(caller, Permission.CAN_READ, path, to="see")
        found = await self._files.run(path, lambda: self._object(path, self._files.tree.stat(parts)))
        self._ids.saw(parts)
        return found

    async def find(self, object_id: int) -> WorkspaceObject | None:
        """The object with this id; None if there is none. Checks no permission."""
        parts = await self._ids.find(object_id)
        if parts is None:
            return None
        path = path_of(parts)
        try:
            return await self._files.run(path, lambda: self._object(path, self._files.tree.stat(parts)))
        except ResourceDoesNotExist:
            return None

    def id_of(self, parts: tuple[str, ...]) -> int:
        """The id of what is at a path, whether it exists or not."""
        return object_id(parts)

    async def list(self, caller: Caller, path: str, *, modified_after_ms: int = 0) -> list[WorkspaceObject]:
        """The objects of a directory, or the object itself. `modified_after_ms` leaves out older notebooks."""
        parts = await self._may(caller, Permission.CAN_READ, path, to="list")

        def find() -> list[WorkspaceObject]:
            if not self._files.tree.stat(parts).is_dir:
                return [self._object(path, self._files.tree.stat(parts))]
            top = _prefix(path)
            found = []
            for entry in self._files.tree.list(parts):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    found.append(self._object("/".join((top, *entry.parts)), entry))
            return found

        found = await self._files.run(path, find)
        if parts in ((), (HOMES,)):  # what everybody may list, but not all that is there
            found = await self._store.read(
                lambda tx: self._authorizer.shown(
                    tx, caller, ObjectKind.WORKSPACE_PATH, found, lambda each: of_workspace_path(each.entry.parts)
                )
            )
        for each in found:
            self._ids.saw(each.entry.parts)
        return [each for each in found if each.language is None or each.entry.modified_ms >= modified_after_ms]

    async def mkdirs(self, caller: Caller, path: str) -> None:
        """Creates a directory and its missing parents."""
        parts = await self._may(caller, Permission.CAN_EDIT, path, to="make")

        def make() -> None:
            with contextlib.suppress(FileNotFoundError):
                if not self._files.tree.stat(parts).is_dir:
                    raise FileExistsError
            self._files.check_room(caller)
            self._files.tree.make_directories(parts)

        await self._files.change(path, make)

    async def make_home(self, caller: Caller, user_id: str) -> None:
        """Creates the home of the user with that SCIM id, unless it exists."""
        home = await self._store.read(lambda tx: _home(tx, user_id))
        await self._may(caller, Permission.CAN_MANAGE, path_of(home), to="make")
        await self._files.change(path_of(home), lambda: self._files.tree.make_directories(home))

    async def delete(self, caller: Caller, path: str, *, recursive: bool) -> None:
        """Removes an object; a directory with contents only if `recursive`."""
        parts = await self._may(caller, Permission.CAN_MANAGE, path, to="delete")
        if parts in ((), (HOMES,), ("Shared",)):
            raise InvalidParameterValue(f"{path} belongs to the workspace and cannot be deleted. Delete its contents.")

        def check() -> None:
            if self._files.tree.stat(parts).is_dir and not recursive and self._files.tree.page(parts, after="", limit=1)[0]:
                raise DirectoryNotEmpty(f"Folder ({path}) is not empty. Pass recursive=true to delete its contents.")

        def remove() -> None:
            check()
            self._files.tree.remove(parts, recursive=recursive)
            with contextlib.suppress(OSError):  # a notebook that is made at the path later does not have them anyway
                self._versions.forget(parts)

        await self._files.run(path, check)
        # First: after a kill in between, what is left can be reached by fewer people, not by those who could reach what it was.
        await self._store.write(lambda tx: tx.grants.remove_below(ObjectKind.WORKSPACE_PATH, path_of(parts)))
        await self._files.change(path, remove)
        self._homes.clear()  # one of them may be gone

    # ── content ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def import_content(
        self,
        caller: Caller,
        path: str,
        content: str,
        *,
        format: Format,
        language: Language | None,
        overwrite: bool,
        expected_etag: str = "",
    ) -> Written:
        """Writes a notebook or a file from base64. Raises Aborted unless the notebook has the content that `expected_etag` names,
        or the new one already."""
        if expected_etag and not overwrite:
            raise InvalidParameterValue("expected_etag needs overwrite=true: it names the content that is replaced.")
        try:
            data = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidParameterValue(f"content is not valid base64: {str(error).lower()}.") from error
        parts = await self._may(caller, Permission.CAN_EDIT, path, to="write")
        async with self._files.draft(caller) as draft:
            await self._files.add(draft, data)
            return await self._place(
                path, parts, draft, format=format, language=language, overwrite=overwrite, expected_etag=expected_etag
            )

    async def import_form(self, caller: Caller, form: AsyncIterator[tuple[str, bytes]]) -> Written:
        """Writes a notebook or a file that arrives as a form: `path`, `format`, `language`, `overwrite`, and the content."""
        async with self._files.draft(caller) as draft:
            fields = await receive_form(self._files, draft, form, fields=_FORM)
            path = field(fields, "path")
            parts = await self._may(caller, Permission.CAN_EDIT, path, to="write")
            return await self._place(
                path, parts, draft,
                format=_member(Format, fields, "format") or Format.SOURCE,
                language=_member(Language, fields, "language"),
                overwrite=flag(field(fields, "overwrite")) if "overwrite" in fields else False,
            )  # fmt: skip

    async def import_file(
        self, caller: Caller, path: str, pieces: AsyncIterable[bytes], *, overwrite: bool, announced: bool = False
    ) -> Written:
        """Writes a file of any size; it becomes a notebook if format AUTO makes it one. `announced`: the request says that it has
        content. Raises AlreadyExists."""
        parts = await self._may(caller, Permission.CAN_EDIT, path, to="write")
        async with self._files.draft(caller) as draft:
            draft.announced = announced
            await self._files.receive(draft, pieces)
            try:
                return await self._place(path, parts, draft, format=Format.AUTO, language=None, overwrite=overwrite)
            except ResourceAlreadyExists as error:
                raise AlreadyExists(error.message) from error

    async def open(self, caller: Caller, path: str) -> OpenFile:
        """Opens a file as it is on disk."""
        parts = await self._may(caller, Permission.CAN_READ, path, to="read")
        return await self._files.open(path, parts)

    async def export(self, caller: Caller, path: str, *, format: Format) -> Exported:
        """The content of a notebook or file. Close what is open."""
        if why := _REFUSED.get(format):
            raise InvalidParameterValue(f"Format {format} cannot be exported: {why}. Use SOURCE, JUPYTER or AUTO.")
        opened = await self.open(caller, path)
        try:
            found = await self._files.run(path, lambda: exported(path, opened, format))
        except BaseException:
            opened.close()
            raise
        if found.content is not opened:
            opened.close()
        return found

    async def versions(self, caller: Caller, path: str) -> Sequence[Kept]:
        """The earlier contents of a notebook, newest first."""
        parts, created = await self._notebook(caller, path)
        return await self._files.run(path, lambda: self._versions.of(parts, created))

    async def version(self, caller: Caller, path: str, version_id: str) -> Exported:
        """An earlier content of a notebook, as export returns its present one."""
        parts, created = await self._notebook(caller, path)
        version, content = await self._files.run(path, lambda: self._versions.read(parts, created, version_id))
        return exported_content(path, content, version.language)

    async def _notebook(self, caller: Caller, path: str) -> tuple[tuple[str, ...], int]:
        """The names of a notebook's path, and when it was created."""
        parts = await self._may(caller, Permission.CAN_READ, path, to="read")
        found = await self._files.run(path, lambda: self._object(path, self._files.tree.stat(parts)))
        if found.language is None:
            raise InvalidParameterValue(f"{path} is not a notebook. Only notebooks have versions.")
        return parts, found.created_ms

    async def _place(
        self,
        path: str,
        parts: tuple[str, ...],
        draft: Draft,
        *,
        format: Format,
        language: Language | None,
        overwrite: bool,
        expected_etag: str = "",
    ) -> Written:
        if why := _REFUSED.get(format):
            raise InvalidParameterValue(f"Format {format} cannot be imported: {why}. Use SOURCE, JUPYTER, AUTO or RAW.")
        if not parts:
            raise InvalidParameterValue(f"{path} is a directory; give the path of a notebook or file.")

        def work() -> tuple[tuple[str, ...], str]:
            target, label = prepare(parts, draft, format=format, language=language)
            content = _notebook_in(draft.file) if language_in(draft.file) or expected_etag else b""
            with self._versions.turn(target):
                self._replace(path, target, draft, label, content, overwrite=overwrite, expected_etag=expected_etag)
            return target, etag_of(content) if content else ""

        target, etag = await self._files.change(path, work)
        return Written(self._ids.saw(target), etag)

    def _replace(
        self,
        path: str,
        target: tuple[str, ...],
        draft: Draft,
        label: Label,
        content: bytes,
        *,
        overwrite: bool,
        expected_etag: str,
    ) -> None:
        """Puts a draft in place, after what it replaces has become a version. `content`: of a notebook. Blocks; call it within
        the target's turn."""
        replaced, by = self._replaced(target), draft.owner.user_name
        if expected_etag:
            if replaced is None:
                raise FileNotFoundError
            if replaced.language is None or etag_of(replaced.content) not in (expected_etag, etag_of(content)):
                raise Aborted(
                    f"The notebook {path} has changed since: its content is not that of expected_etag any more. Export it again, "
                    "and repeat your changes."
                )
            label = msgspec.structs.replace(label, jupyter=replaced.label.jupyter)  # it is edited, not replaced by another one
        label = msgspec.structs.replace(label, created_ms=replaced.created_ms if replaced else 0)
        if content:
            label = msgspec.structs.replace(label, saved_by=by, saved_ms=_modified_ms(draft.file))
        put_label(draft.file, label)
        if replaced and replaced.language and overwrite and replaced.content != content and not draft.is_lost:
            self._versions.keep(target, replaced.content, replaced.as_version(), by=by)
        try:
            self._files.place_draft(draft, target, overwrite=overwrite, existing=len(target) - 1)
        except FileExistsError as error:
            raise ResourceAlreadyExists(f"Path ({path}) already exists. Pass overwrite=true to replace it.") from error
        except FileNotFoundError as error:
            parent = "/".join((_prefix(path), *target[:-1]))
            raise ResourceDoesNotExist(f"The parent folder ({parent}) does not exist. Create it with mkdirs.") from error

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _object(self, path: str, entry: Entry) -> WorkspaceObject:
        """Blocks; raises OSError."""
        shown, created = "/".join((_prefix(path), *entry.parts)) or "/", entry.modified_ms
        if entry.is_dir:
            with contextlib.suppress(OSError), self._files.tree.opened(entry) as directory:
                created = created_ms(directory)
            return WorkspaceObject(shown, object_id(entry.parts), entry, created)
        with self._files.tree.opened(entry) as file:
            export = Format.JUPYTER if label_of(file).jupyter else Format.SOURCE
            return WorkspaceObject(shown, object_id(entry.parts), entry, created_ms(file), language_in(file), export)

    def _replaced(self, target: tuple[str, ...]) -> _Replaced | None:
        """What is at a path; None if nothing is, or a directory. Blocks."""
        with contextlib.suppress(OSError), self._files.tree.opened(entry := self._files.tree.stat(target)) as file:
            if entry.is_dir:
                return None
            language = language_in(file) if entry.size <= MAX_NOTEBOOK else None
            content = _notebook_in(file) if language else b""
            return _Replaced(created_ms(file), entry.modified_ms, label_of(file), language, content)
        return None

    async def _may(self, caller: Caller, permission: Permission, path: str, *, to: str) -> tuple[str, ...]:
        """The names of a path below /Workspace, for a caller who may do that there."""
        parts = parts_of(path)
        if path.startswith("dbfs:"):
            raise InvalidParameterValue(f"{path[:100]!r} is not in the workspace. Give a path such as /Users/me/notebook.")
        parts = parts[1:] if parts[:1] == (_TOP,) else parts
        on = of_workspace_path(parts)
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, permission, on, to=to))
        if (caller.user_name, caller.user_id) not in self._homes:
            await self._files.run(path, lambda: self._make_home(caller))
        return parts

    def _make_home(self, caller: Caller) -> None:
        for parts in (("Shared",), home_of(caller.user_name)):
            with contextlib.suppress(OSError):  # a full disk must not keep anybody from reading
                if parts is not None:
                    self._files.tree.make_directories(parts)
        self._homes.add((caller.user_name, caller.user_id))


def _notebook_in(file: int) -> bytes:
    """The content of a notebook on disk. Blocks."""
    return os.pread(file, MAX_NOTEBOOK + notebooks.LONGEST_HEADER, 0)


def _modified_ms(file: int) -> int:
    return os.fstat(file).st_mtime_ns // 1_000_000


def _home(tx: Tx, user_id: str) -> tuple[str, ...]:
    """Raises ResourceDoesNotExist."""
    user = tx.users.by_id(user_id)
    if user is None or (home := home_of(user.user_name)) is None:
        raise ResourceDoesNotExist(f"No user with the id {user_id[:100]} has a home folder.")
    return home


def _prefix(path: str) -> str:
    """What precedes the names in the paths of an answer: clients compare them with the path that they sent."""
    return f"/{_TOP}" if parts_of(path)[:1] == (_TOP,) else ""


def _member(kind: type[E], fields: dict[str, bytes], name: str) -> E | None:
    """The member that a form's field names."""
    if not fields.get(name):
        return None
    text = field(fields, name)
    try:
        return kind(text)
    except ValueError as error:
        allowed = ", ".join(member.value for member in kind)
        raise InvalidParameterValue(f"field '{name}': {text[:100]!r} is not an allowed value. Allowed: {allowed}.") from error
