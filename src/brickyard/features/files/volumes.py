"""Volumes and the files in them: `/Volumes/<catalog>/<schema>/<volume>/...`.

A volume is a directory at the third level of its tree, and nothing else records it. storage/schemas.py says which catalogs and
schemas there are above it; their directories come and go with their volumes.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator

import structlog

from brickyard.access import Authorizer
from brickyard.access.objects import of_path
from brickyard.domain.access import Grant, ObjectKind, Permission, Place, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.errors import (
    ApiError,
    DatabaseTrouble,
    DatabaseUnsure,
    InvalidParameterValue,
    PermissionDenied,
    RequestLimitExceeded,
    ResourceAlreadyExists,
    ResourceDoesNotExist,
)
from brickyard.features.files.arguments import VOLUMES
from brickyard.features.files.errors import AlreadyExists, IsADirectory, VolumeDirectoryNotEmpty
from brickyard.features.files.tree import FileTree, OpenFile
from brickyard.features.files.volumenames import LEVELS, Volume, names_of
from brickyard.features.files.volumepaths import file_names, path_names, volume_names
from brickyard.storage.labels import MAX_COMMENT, Label, label_of
from brickyard.storage.safetree import Entry
from brickyard.storage.schemas import Schemas
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PAGE = 1000
_log = structlog.get_logger(__name__)


class VolumeService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, files: FileTree, schemas: Schemas, store: Store, authorizer: Authorizer) -> None:
        self._files = files
        self._schemas = schemas
        self._store = store
        self._authorizer = authorizer

    # ── volumes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, caller: Caller, catalog: str, schema: str, name: str, *, comment: str = "") -> Volume:
        """Makes a volume in a schema that exists."""
        parts, label = names_of(".".join((catalog, schema, name))), _label(comment)
        on = SecurableObject(ObjectKind.SCHEMA, f"{catalog}.{schema}")
        await self._require(caller, Permission.CREATE_VOLUME, on, to="create a volume in")

        def make() -> Volume:
            self._schemas.require_place(catalog, schema)
            with contextlib.suppress(FileNotFoundError):
                self._files.tree.stat(parts)
                raise ResourceAlreadyExists(f"Volume '{'.'.join(parts)}' already exists.")
            self._files.check_room(caller)
            self._files.tree.make_directory(parts)
            try:
                self._files.tree.label(parts, label)
            except BaseException:
                self._files.tree.remove(parts, recursive=False)
                raise
            return self._volume(parts)

        made = await self._files.change(_shown(parts), make)
        # Afterwards: after a kill in between, administrators manage the volume. Replaces what an earlier one of the name had.
        async with self._undoing(lambda: self._files.tree.remove(parts, recursive=False)):
            await self._store.write(lambda tx: tx.grants.put(_place(made), [Grant(caller.user_id, Permission.MANAGE)]))
        return made

    async def read(self, caller: Caller, full_name: str) -> Volume:
        """The volume with that name of three parts."""
        parts = await self._known(caller, full_name, Permission.READ_VOLUME, to="see")
        return await self._files.run(_shown(parts), lambda: self._volume(parts))

    async def of_schema(self, caller: Caller, catalog: str, schema: str) -> list[Volume]:
        """The volumes of a schema."""
        parts = names_of(f"{catalog}.{schema}", levels=2)

        def find() -> list[Volume]:
            entries = self._schemas.volumes(catalog, self._schemas.schema(catalog, schema))
            return [found for entry in entries if (found := self._volume_at(entry)) is not None]

        found = await self._files.run(_shown(parts), find)
        return await self._store.read(
            lambda tx: self._authorizer.shown(
                tx, caller, ObjectKind.VOLUME, found, lambda each: SecurableObject(ObjectKind.VOLUME, each.full_name)
            )
        )

    async def remove_schema(self, caller: Caller, catalog: str, schema: str, *, force: bool) -> bool:
        """Removes the directories of a schema, with `force` after its volumes, if the caller may delete each of them. Returns
        whether the schema has none any more: files that are in no volume keep theirs."""
        for volume in (volumes := await self.of_schema(caller, catalog, schema) if force else []):
            await self._known(caller, volume.full_name, Permission.MANAGE, to="delete")
        for volume in volumes:
            await self.delete(caller, volume.full_name)
        return await self._files.change(_shown((catalog, schema)), lambda: self._schemas.remove_empty(catalog, schema))

    async def update(self, caller: Caller, full_name: str, *, new_name: str, comment: str | None) -> Volume:
        """Gives a volume another name in its schema, another comment, or both: what is given."""
        parts = await self._known(caller, full_name, Permission.MANAGE, to="change")
        if comment is not None:
            label = _label(comment)
            await self._files.change(_shown(parts), lambda: self._relabel(parts, label))
        return await self._rename(caller, parts, new_name) if new_name else await self.read(caller, full_name)

    def _relabel(self, parts: tuple[str, ...], label: Label) -> None:
        self._volume(parts)
        self._files.tree.label(parts, label)

    async def _rename(self, caller: Caller, parts: tuple[str, ...], new_name: str) -> Volume:
        full_name, target = ".".join(parts), names_of(".".join((*parts[:-1], new_name)))

        def move() -> Volume:
            self._volume(parts)
            try:
                self._files.tree.move(parts, target, replace=False)
            except FileExistsError as error:
                raise ResourceAlreadyExists(f"Volume '{'.'.join(target)}' already exists.") from error
            return self._volume(target)

        if target == parts:
            return await self.read(caller, full_name)
        moved = await self._files.change(_shown(parts), move)

        def follow(tx: Tx) -> None:
            before = Place(ObjectKind.VOLUME, full_name)
            tx.grants.put(_place(moved), tx.grants.of(before))
            tx.grants.put(before, [])

        async with self._undoing(lambda: self._files.tree.move(target, parts, replace=False)):
            await self._store.write(follow)
        return moved

    async def delete(self, caller: Caller, full_name: str) -> None:
        """Removes a volume with its files."""
        parts = await self._known(caller, full_name, Permission.MANAGE, to="delete")

        def remove() -> None:
            self._volume(parts)
            self._files.tree.remove(parts, recursive=True)
            self._schemas.prune(parts[:2])

        await self._files.change(_shown(parts), remove)
        try:
            await self._store.write(lambda tx: tx.grants.put(Place(ObjectKind.VOLUME, full_name), []))
        except (DatabaseTrouble, RequestLimitExceeded) as error:  # the volume is gone; the next one of the name replaces them
            _log.warning("grants_of_a_deleted_volume_left", volume=full_name, why=error.message)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self, caller: Caller, path: str) -> OpenFile:
        """Opens a file for reading. A directory is none, so that clients go on to look whether it is one."""
        parts = path_names(path)
        await self._may(caller, Permission.READ_VOLUME, parts, to="read")
        if len(parts) <= LEVELS:
            raise ResourceDoesNotExist(f"No file exists on path {path}: catalogs, schemas and volumes are directories.")
        with _missing(parts), _no_file(path):
            return await self._files.open(path, parts)

    async def upload(
        self, caller: Caller, path: str, pieces: AsyncIterable[bytes], *, overwrite: bool, announced: bool = False
    ) -> None:
        """Writes a file, which appears at its path once all of it has arrived. Of several uploads to one path the last counts.
        `announced`: the request says that it has content."""
        parts = file_names(path)
        await self._writable(caller, path, parts, overwrite=overwrite)
        async with self._files.draft(caller) as draft:
            draft.announced = announced
            await self._files.receive(draft, pieces)
            with _missing(parts), _existing():
                await self._files.change(
                    path, lambda: self._files.place_draft(draft, parts, overwrite=overwrite, existing=LEVELS)
                )

    async def writable(self, caller: Caller, path: str, *, overwrite: bool) -> tuple[str, ...]:
        """The names of a file that the caller could begin to write now."""
        parts = file_names(path)
        await self._writable(caller, path, parts, overwrite=overwrite)
        return parts

    async def allowed(self, caller: Caller, path: str, permission: Permission, *, to: str) -> tuple[str, ...]:
        """The names of a file, which need not exist, for a caller who has that permission there."""
        parts = file_names(path)
        await self._may(caller, permission, parts, to=to)
        return parts

    async def change(self, path: str, parts: tuple[str, ...], work: Callable[[], None]) -> None:
        """Does file system work that changes that file of a volume."""
        with _missing(parts), _existing():
            await self._files.change(path, work)

    async def delete_file(self, caller: Caller, path: str) -> None:
        """Removes a file."""
        parts = file_names(path)
        await self._may(caller, Permission.WRITE_VOLUME, parts, to="delete")

        def remove() -> None:
            if self._files.tree.stat(parts).is_dir:
                raise IsADirectoryError
            self._files.tree.remove(parts, recursive=False)

        with _no_file(path):
            await self._files.change(path, remove)

    async def make_directory(self, caller: Caller, path: str) -> None:
        """Creates a directory of a volume with its parents."""
        parts = volume_names(path)
        await self._may(caller, Permission.WRITE_VOLUME, parts, to="make")
        with _missing(parts), _existing():
            await self._files.change(path, lambda: self._files.tree.make_directories(parts, existing=LEVELS))

    async def delete_directory(self, caller: Caller, path: str) -> None:
        """Removes an empty directory of a volume."""
        parts = file_names(path)
        await self._may(caller, Permission.WRITE_VOLUME, parts, to="delete")

        def remove() -> None:
            if not self._files.tree.stat(parts).is_dir:
                raise ResourceDoesNotExist(f"{path} is a file; give the path of a directory.")
            if self._files.tree.page(parts, after="", limit=1)[0]:
                raise VolumeDirectoryNotEmpty(f"The directory {path} is not empty. Delete its contents first.")
            self._files.tree.remove(parts, recursive=False)

        await self._files.change(path, remove)

    async def list_directory(self, caller: Caller, path: str, *, after: str, limit: int) -> tuple[list[Entry], str]:
        """A page of a directory's entries: see `SafeTree.page`. Catalogs and schemas can be listed as well, also before they have
        a directory."""
        parts = path_names(path)
        await self._may(caller, Permission.READ_VOLUME, parts, to="list")
        with _missing(parts):
            return await self._files.run(path, lambda: self._schemas.page(parts, after=after, limit=limit))

    @contextlib.asynccontextmanager
    async def _undoing(self, undo: Callable[[], None]) -> AsyncIterator[None]:
        """Undoes a change of the tree whose second half, in the database, has failed."""
        try:
            yield
        except (DatabaseTrouble, RequestLimitExceeded) as error:
            if not isinstance(error, DatabaseUnsure):
                with contextlib.suppress(ApiError):
                    await self._files.run("/", undo)
            raise

    async def _writable(self, caller: Caller, path: str, parts: tuple[str, ...], *, overwrite: bool) -> None:
        await self._may(caller, Permission.WRITE_VOLUME, parts, to="write")

        def check() -> None:
            self._files.check_room(caller)
            self._files.tree.stat(parts[:LEVELS])
            self._files.check_target(parts, overwrite=overwrite)

        with _missing(parts), _existing():
            await self._files.run(path, check)

    def _volume(self, parts: tuple[str, ...]) -> Volume:
        with contextlib.suppress(FileNotFoundError):
            if (found := self._volume_at(self._files.tree.stat(parts))) is not None:
                return found
        raise _no_volume(parts)

    def _volume_at(self, entry: Entry) -> Volume | None:
        """The volume of an entry; None if it is none, or gone meanwhile. Blocks."""
        if entry.is_dir:
            with contextlib.suppress(FileNotFoundError), self._files.tree.opened(entry) as directory:
                return Volume(entry.parts, entry.modified_ms, label_of(directory).comment)
        return None

    async def _known(self, caller: Caller, full_name: str, permission: Permission, *, to: str) -> tuple[str, ...]:
        parts = names_of(full_name)
        try:
            await self._require(caller, permission, SecurableObject(ObjectKind.VOLUME, full_name), to=to)
        except PermissionDenied:  # everybody may know which volumes there are
            await self._files.run(_shown(parts), lambda: self._volume(parts))
            raise
        return parts

    async def _may(self, caller: Caller, permission: Permission, parts: tuple[str, ...], *, to: str) -> None:
        await self._require(caller, permission, of_path((VOLUMES, *parts), ObjectKind.VOLUME_PATH), to=to)

    async def _require(self, caller: Caller, permission: Permission, on: SecurableObject, *, to: str) -> None:
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, permission, on, to=to))


def _label(comment: str) -> Label:
    if len(comment) > MAX_COMMENT:
        raise InvalidParameterValue(f"comment has {len(comment)} characters; at most {MAX_COMMENT} are allowed.")
    return Label(comment=comment)


def _place(volume: Volume) -> Place:
    return Place(ObjectKind.VOLUME, volume.full_name)


@contextlib.contextmanager
def _missing(parts: tuple[str, ...]) -> Iterator[None]:
    """Says that the path may need its volume to be made first."""
    try:
        yield
    except ResourceDoesNotExist as error:
        if len(parts) < LEVELS:
            raise
        raise ResourceDoesNotExist(
            f"{error.message} If the volume '{'.'.join(parts[:LEVELS])}' is missing, create it first (unity-catalog/volumes)."
        ) from error


@contextlib.contextmanager
def _no_file(path: str) -> Iterator[None]:
    """Says of a directory that no file is there."""
    try:
        yield
    except IsADirectory as error:
        raise ResourceDoesNotExist(f"No file exists on path {path}: it is a directory.") from error


@contextlib.contextmanager
def _existing() -> Iterator[None]:
    """Converts the error to the one of the Files API."""
    try:
        yield
    except ResourceAlreadyExists as error:
        raise AlreadyExists(error.message) from error


def _no_volume(parts: tuple[str, ...]) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"Volume '{'.'.join(parts)}' does not exist. Create it first (unity-catalog/volumes).")


def _shown(parts: tuple[str, ...]) -> str:
    return "/".join(("", VOLUMES, *parts))
