"""The workspace's metastore, as drivers use it: what Spark knows of databases, tables and functions.

A driver asks through its node host, and its agent answers here. So no code on a node can write the metastore's files
(storage/metastore.py): it can ask for changes of single entries, which are checked, and made whole or not at all. Agents share
the files through one lock, which they hold for a moment; nothing has to run for it, and nothing is lost when an agent or a server
is killed. Beside them is `writing/`, with the locks of drivers that write (agent/catalog/writelocks.py).

A change names the version that it was made for; if there is another by now, the answer says so, and the driver makes its change
again.
"""

from __future__ import annotations

import base64
import contextlib
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from brickyard.agent.catalog.writelocks import Lock, Unlock, WriteLocks
from brickyard.machine import files
from brickyard.storage.metastore import SUFFIX, Kind, MetastoreFiles, Refused, encoded, names_in, read, version_of

_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


MAX_TEXT = 64 << 20  # bytes of one description; a partition takes about 700
MAX_PACKED = 7 << 20  # characters of one, as it travels: two of them, and a request, fit into a line between agent and node host
MAX_ANSWER = 2 * MAX_PACKED  # characters of all descriptions in an answer
ABANDONED_S = 60.0  # who drops something removes its rows at once; later, anybody may


class _Ask(msgspec.Struct, tag_field="ask", tag=str.lower, forbid_unknown_fields=True):
    """What a driver may ask."""


class Databases(_Ask):
    pass


class Names(_Ask):
    database: str
    kind: Kind


class Look(_Ask):
    """Asks for a database and entries in it. `known`: their versions that the driver has, the database's under "". What does
    not fit into the answer is missing from it: the driver asks for it again."""

    database: str
    kind: Kind = "table"
    names: tuple[str, ...] = ()
    known: dict[str, str] = {}


class Put(_Ask):
    """Writes an entry, or with name "" the database. `version`: of what it replaces; "": there must be none."""

    database: str
    version: str
    text: str
    kind: Kind = "table"
    name: str = ""


class Rename(_Ask):
    database: str
    kind: Kind
    name: str
    to: str
    version: str


class Drop(_Ask):
    database: str
    kind: Kind
    name: str
    version: str


class DropDatabase(_Ask, tag="drop_database"):
    """Drops a database. Unless `cascade`, it must be empty."""

    database: str
    cascade: bool


class Abandoned(_Ask):
    """Asks for what was dropped a while ago by a driver that did not come to remove the rows."""


class Cleared(_Ask):
    """The rows that these files of what was dropped name are removed. The answer has the next ones."""

    id: str
    files: tuple[str, ...]


Ask = Databases | Names | Look | Put | Rename | Drop | DropDatabase | Abandoned | Cleared | Lock | Unlock
_decode_ask = msgspec.json.Decoder(Ask).decode

CONFLICT: dict[str, Any] = {"conflict": True}
_TOO_LARGE = (
    f"a description may have {MAX_TEXT >> 20} MiB, or {MAX_PACKED >> 20} MiB compressed: has the table too many partitions?"
)


class Metastore:
    """The metastore in `root`. Methods block; they may be called on any thread."""

    def __init__(self, root: Path) -> None:
        self._files = MetastoreFiles(root)
        self.write_locks = WriteLocks(root / "writing")

    def answer(self, request: bytes, *, cluster_id: str, host: object) -> dict[str, Any]:
        """Answers a driver, which asks through its node host. Never raises: an error is part of the answer, and nothing was
        changed then."""
        try:
            ask = _decode_ask(request)
            if isinstance(ask, Lock | Unlock):
                return self.write_locks.answer(ask, cluster_id=cluster_id, host=host)
            return self._answer(ask)
        except (msgspec.MsgspecError, RecursionError) as error:
            return {"error": f"the request makes no sense: {error}"}
        except Refused as error:
            return {"error": str(error)}
        except OSError as error:
            return {"error": f"the workspace's metastore cannot be used: {error.strerror or error}"}

    def _answer(self, ask: Ask) -> dict[str, Any]:
        match ask:
            case Databases():
                return {"names": self._files.databases()}
            case Names():
                return {"names": self._files.names(ask.database, ask.kind)}
            case Look():
                return self._look(ask)
            case Abandoned():
                return self._abandoned()
        with self._files.locked():
            return self._change(ask)

    def _change(self, ask: Ask) -> dict[str, Any]:
        match ask:
            case Put():
                return self._put(ask)
            case Rename():
                return self._rename(ask)
            case Drop():
                return self._drop(ask)
            case DropDatabase():
                return self._drop_database(ask)
            case Cleared():
                return self._cleared(ask)
        raise AssertionError(ask)  # `_answer` has handled the others

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, ask: Look) -> dict[str, Any]:
        paths = {"": self._files.record(ask.database)}
        paths |= {name: self._files.entry(ask.database, ask.kind, name) for name in ask.names}
        if ask.known and ask.known == {name: version_of(path) for name, path in paths.items()}:
            return {"same": True}
        found: dict[str, dict[str, str] | None] = {}
        size = 0
        for name, path in paths.items():
            held = _read(path)
            size += len(held["text"]) if held else 0
            if size > MAX_ANSWER:
                break
            found[name] = held
        return {"found": found}

    def _abandoned(self) -> dict[str, Any]:
        now = time.time()
        for name in names_in(self._files.dropped, ""):
            top = self._files.dropped / name
            with contextlib.suppress(FileNotFoundError):  # another driver clears it
                if now - top.stat().st_ctime > ABANDONED_S:
                    return {"id": name, "texts": _texts(top, _files(top))}
        return {}

    # ── changes, with the lock held ─────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, ask: Put) -> dict[str, Any]:
        path = self._files.entry(ask.database, ask.kind, ask.name) if ask.name else self._files.record(ask.database)
        version = self._files.put(path, ask.version, _inflated(ask.text), database=ask.database if ask.name else "")
        return CONFLICT if version is None else {"version": version}

    def _rename(self, ask: Rename) -> dict[str, Any]:
        path, to = (self._files.entry(ask.database, ask.kind, name) for name in (ask.name, ask.to))
        if version_of(path) != ask.version or to.exists():
            return CONFLICT
        path.rename(to)
        return {}

    def _drop(self, ask: Drop) -> dict[str, Any]:
        path = self._files.entry(ask.database, ask.kind, ask.name)
        return CONFLICT if version_of(path) != ask.version else _dropped(self._files.set_aside(path))

    def _drop_database(self, ask: DropDatabase) -> dict[str, Any]:
        top = self._files.drop_database(ask.database, cascade=ask.cascade)
        return CONFLICT if top is None else _dropped(top)

    def _cleared(self, ask: Cleared) -> dict[str, Any]:
        top = self._files.dropped / encoded(ask.id)
        left = _files(top)
        for path in left & {top / name for name in ask.files}:
            path.unlink()
            left.discard(path)
        if not left:
            files.remove_tree(top)
        return {"id": ask.id, "texts": _texts(top, left)}


def _dropped(top: Path) -> dict[str, Any]:
    """The answer about what was dropped, whose driver removes the rows."""
    return {"id": top.name, "texts": _texts(top, _files(top))}


def _read(path: Path) -> dict[str, str] | None:
    held = read(path)
    return None if held is None else {"version": held.version, "text": _deflated(held.text)}


def _files(directory: Path) -> set[Path]:
    """Returns the files of all descriptions below the directory."""
    return set(directory.rglob("*" + SUFFIX))


def _texts(top: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Returns descriptions by their files' names below `top`, as many as fit into an answer."""
    found: dict[str, str] = {}
    size = 0
    for path in sorted(paths):
        text = (_read(path) or {}).get("text", "")
        size += len(text)
        if size > MAX_ANSWER:
            break
        found[str(path.relative_to(top))] = text
    return found


def _inflated(text: str) -> bytes:
    """Returns a description, which must be a JSON object. They travel compressed: those of partitions are large and alike."""
    if len(text) > MAX_PACKED:
        raise Refused(_TOO_LARGE)
    try:
        inflater = zlib.decompressobj()
        found = inflater.decompress(base64.b64decode(text, validate=True), MAX_TEXT)
    except (ValueError, zlib.error) as error:
        raise Refused(f"the description is damaged: {error}") from error
    if not inflater.eof and len(found) < MAX_TEXT:
        raise Refused("the description is damaged: its end is missing")
    if not inflater.eof:
        raise Refused(_TOO_LARGE)
    if len(found) > MAX_PACKED and len(_deflated(found)) > MAX_PACKED:  # it would fit into no answer
        raise Refused(_TOO_LARGE)
    try:
        _decode_raw(found)
    except msgspec.MsgspecError as error:
        raise Refused(f"the description is no JSON object: {error}") from error
    return found


def _deflated(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text, 1)).decode()
