"""Looks at what jobs wait for: files below a directory of the workspace, and the newest versions of Delta tables.

Tables are looked at in the storage, below `_delta_log`: no cluster is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from brickyard.access import Authorizer
from brickyard.access.objects import of_path
from brickyard.domain.access import ObjectKind, Permission, Principal, SecurableObject
from brickyard.domain.clock import rfc3339
from brickyard.domain.errors import ApiError
from brickyard.features.jobs import triggers
from brickyard.features.jobs.model import JobSettings, TriggerSettings
from brickyard.storage.safetree import Entry, SafeTree
from brickyard.storage.schemas import MAIN
from brickyard.store.tx import Tx

MAX_FILES = 10_000
MAX_VERSIONS = 100_000  # files below _delta_log
MAX_DEPTH = 32
LOOK_S = 20.0
_VERSION = re.compile(r"(\d{20})\.json")
_HIDDEN = ("_", ".")  # what names of files begin with that Spark does not read


class CannotLook(Exception):
    """What is waited for cannot be looked at. The message says why."""


class Tables(Protocol):
    """Those who know tables (`features.catalog`)."""

    def facts(self, full_name: str) -> tuple[str, str] | None:
        """Format and location of the table with that name of three parts, in capitals and as a URL; None if there is none.
        Blocks."""
        ...


class Watches:
    """One per server. `trees`: the roots of dbfs:/ and of /Volumes, as `triggers.Place` names them."""

    def __init__(self, *, trees: Mapping[str, Path], tables: Tables, authorizer: Authorizer) -> None:
        self._trees = {name: SafeTree(root=root) for name, root in trees.items()}
        self._tables = tables
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="watches")  # a storage that hangs keeps no others
        self._authorizer = authorizer

    def require(self, tx: Tx, principal: Principal, settings: JobSettings) -> None:
        """Raises PermissionDenied unless the principal may see what the job waits for."""
        trigger = settings.trigger
        if trigger is not None and trigger.file_arrival is not None:
            where = triggers.place(trigger.file_arrival.url)
            if where.tree == "Volumes":
                permission, on = Permission.READ_VOLUME, of_path(("Volumes", *where.parts), ObjectKind.VOLUME_PATH)
            else:
                permission, on = Permission.CAN_READ, of_path(where.parts)
            self._authorizer.require(tx, principal, permission, on, to="wait for files in")
        for name in _tables(trigger):
            on = SecurableObject(ObjectKind.SCHEMA, _full(name).rpartition(".")[0])
            self._authorizer.require(tx, principal, Permission.USE_SCHEMA, on, to="wait for tables of")

    async def look(self, settings: JobSettings) -> Mapping[str, int]:
        """What is there now: tokens (`arrivals`), with the time of each. Raises CannotLook."""
        trigger = settings.trigger
        if trigger is None:
            return {}
        try:
            async with asyncio.timeout(LOOK_S):
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._seen, trigger)
        except TimeoutError:
            raise CannotLook(f"The storage has not answered within {LOOK_S:g} seconds.") from None
        except OSError as error:
            raise CannotLook(f"The storage cannot be read: {error.strerror}.") from error
        except ApiError as error:  # a schema or catalog that does not exist
            raise CannotLook(error.message) from error

    def _seen(self, trigger: TriggerSettings) -> Mapping[str, int]:
        if trigger.file_arrival is not None:
            return self._files(triggers.place(trigger.file_arrival.url))
        return self._versions(trigger)

    def _files(self, where: triggers.Place) -> Mapping[str, int]:
        tree, found = self._trees[where.tree], dict[str, int]()
        try:
            for entry in _below(tree, where.parts, MAX_DEPTH):
                if len(found) >= MAX_FILES:
                    raise CannotLook(f"There are more than {MAX_FILES} files, which is the maximum. Move some away.")
                name = "/".join(entry.parts)
                found[hashlib.blake2b(name.encode(), digest_size=8).hexdigest()] = entry.modified_ms
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CannotLook("The directory does not exist.") from error
        return found

    def _versions(self, trigger: TriggerSettings) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name in _tables(trigger):
            facts = self._tables.facts(_full(name))
            if facts is None:
                raise CannotLook(f"Table {name} does not exist.")
            kind, location = facts
            if kind != "DELTA":
                raise CannotLook(f"Table {name} is not a Delta table: only those have versions.")
            found |= self._newest(name, location)
        return found

    def _newest(self, name: str, location: str) -> dict[str, int]:
        where = _tree_of(location)
        if where is None:
            raise CannotLook(f"Table {name} is not in the workspace's files.")
        tree, versions = self._trees[where.tree], dict[int, int]()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for count, entry in enumerate(tree.list((*where.parts, "_delta_log"))):
                if count >= MAX_VERSIONS:
                    raise CannotLook(f"The log of table {name} has more than {MAX_VERSIONS} files.")
                if (match := _VERSION.fullmatch(entry.parts[-1])) is not None:
                    versions[int(match[1])] = entry.modified_ms
        if not versions:
            return {}
        newest = max(versions)
        return {f"{name}@{newest}": versions[newest]}


def references(trigger: TriggerSettings, fresh: Mapping[str, int]) -> dict[str, str]:
    """What {{job.trigger.NAME}} refers to, by NAME, in a run that these new tokens begin."""
    if trigger.file_arrival is not None:
        return {"file_arrival.location": trigger.file_arrival.url}
    found = {"table_update.updated_tables": json.dumps(sorted(map(table_of, fresh)))}
    for token, at in fresh.items():
        name, _, version = token.rpartition("@")
        found |= {f"table_update.{name}.version": version, f"table_update.{name}.commit_timestamp": rfc3339(at)}
    return found


def table_of(token: str) -> str:
    """The table that a token belongs to."""
    return token.rpartition("@")[0]


def _tables(trigger: TriggerSettings | None) -> list[str]:
    """The tables that a trigger waits for."""
    if trigger is None or trigger.table_update is None:
        return []
    return sorted(set(trigger.table_update.table_names))


def _full(name: str) -> str:
    """The name of three parts: the workspace's own catalog may be left out."""
    return name if name.count(".") == 2 else f"{MAIN}.{name}"


def _below(tree: SafeTree, parts: tuple[str, ...], depth: int) -> Iterator[Entry]:
    """The files below a directory that Spark would read."""
    for entry in tree.list(parts):
        if entry.parts[-1].startswith(_HIDDEN):
            continue
        if not entry.is_dir:
            yield entry
        elif depth:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # gone meanwhile
                yield from _below(tree, entry.parts, depth - 1)


def _tree_of(location: str) -> triggers.Place | None:
    """Where a table's location is in the workspace's files; None: elsewhere."""
    scheme, _, rest = location.partition(":")
    parts = tuple(unquote(each) for each in rest.split("/") if each)
    if scheme != "dbfs" or any(each in (".", "..") or "/" in each or "\0" in each for each in parts):
        return None
    return triggers.Place("Volumes", parts[1:]) if parts[:1] == ("Volumes",) else triggers.Place("dbfs", parts)
