"""Files that arrive in parts, as directories that all servers of the workspace share: any server can take the next part.

```text
multipart/.lock       flock: held while beginning a session
multipart/<token>/    a session: about.json, lock, and
    table             a row of fixed size for each part: whether it has arrived, and where it is
    data              parts in their slots: part n at (n - 1) times the size of part 1
    part-<n>          a part that fits no slot, or came before the first
    in-<hex>          a part that is arriving, locked meanwhile
    whole             the file when it is complete, until it is at its path
```
Clients send parts of one size, so that `data` is the file when the last one has arrived, and completing is a rename. Methods
block.

A killed server leaves nothing half: a part's row is withdrawn before the part's bytes change and written after them, and the list
of a completed upload is recorded before `data` becomes `whole`. Once that has happened, neither being there means that the file
is at its path.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.access import Principal
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidState, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.quotas import Quota
from brickyard.features.files.parts import Named, Part, assembly, check_named, check_part, fingerprint, slot
from brickyard.features.files.uploaddirectories import arriving, beginning, forget, make, turn, write
from brickyard.machine import files, locks

SESSIONS = Quota(
    "multipart uploads in progress",
    total=400,
    share=100,
    reserve=40,
    advice="Complete or abort some, or wait: idle ones end after a day.",
)
IDLE_MS = 24 * 3_600_000  # a client whose machine slept over night goes on
DONE_MS = 10 * 60 * 1000  # how long a client that got no answer may ask again whether its upload is complete
DRAFT_MS = 10 * 60 * 1000
_TOKEN = re.compile(r"[0-9a-f]{32}")
_ROW = struct.Struct("<qq16s")  # size + 1, so that a hole is no part; offset, -1 for a file of its own; digest


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """about.json. `slot`: bytes, 0 until the first part has arrived. `completes`: the fingerprint of the list with which it is
    being completed."""

    owner: str
    parts: tuple[str, ...]
    overwrite: bool
    used_ms: int
    slot: int = 0
    completes: str = ""
    done: bool = False


_decode_session = msgspec.json.Decoder(Session).decode


class MultipartSessions:
    """One per server."""

    def __init__(self, *, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock

    def begin(self, *, owner: Principal, parts: tuple[str, ...], overwrite: bool) -> str:
        """Begins an upload to a path and returns its token. Raises QuotaExceeded."""
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)  # not before: a server must start without a free inode
        with beginning(self._place):
            owners = [session.owner for session in self._sessions() if not session.done]
            if why := SESSIONS.refusal(owner, own=owners.count(owner.user_name), total=len(owners)):
                raise QuotaExceeded(why)
            token = secrets.token_hex(16)
            now = self._clock.now_ms()
            session = Session(owner=owner.user_name, parts=parts, overwrite=overwrite, used_ms=now)
            make(self._place / token, session, "table")
            return token

    def find(self, token: str, *, owner: Principal, parts: tuple[str, ...]) -> Session:
        """The session of that user's upload to that path. Raises ResourceDoesNotExist."""
        session = self._read(token)
        if session is None or self._is_expired(session) or (session.owner, session.parts) != (owner.user_name, parts):
            raise no_session(token)
        return session

    def draft(self, token: str) -> tuple[Path, int]:
        """A new file for the content of a part, as `arriving` says. Raises ResourceDoesNotExist."""
        try:
            return arriving(self._place / token / f"in-{secrets.token_hex(16)}")
        except FileNotFoundError:
            raise no_session(token) from None

    def take(self, token: str, draft: Path, file: int, part: Part) -> None:
        """Keeps a part that has arrived in a draft. The same part again changes nothing; other content replaces what was sent
        under the number. Raises ResourceDoesNotExist, InvalidState."""
        with self._turn(token) as (directory, before), _Table(directory / "table") as table:
            if before.completes:
                raise InvalidState("The upload is being completed, or is complete: it takes no more parts.")
            known = table.get(part.number)
            if known is not None and (known.size, known.digest) == (part.size, part.digest):
                return
            first = before.slot == 0 and part.number == 1
            session = msgspec.structs.replace(before, slot=part.size) if first else before
            offset = slot(part.number, part.size, session.slot)
            table.clear(part.number)
            if offset is None:
                draft.rename(directory / f"part-{part.number}")
            elif first and not (directory / "data").stat().st_size:
                draft.rename(directory / "data")
            else:
                with (directory / "data").open("r+b", buffering=0) as data:
                    files.copy_range(file, data.fileno(), part.size, at=offset)
                (directory / f"part-{part.number}").unlink(missing_ok=True)
            self._write(directory, session)
            table.put(part._replace(offset=offset))

    def finish(self, token: str, named: Sequence[Named], settle: Callable[[Path, Session], None]) -> None:
        """Puts the file together and in place with `settle`, whose errors leave the session as it is. Has no effect where that
        has been done. Raises InvalidParameterValue, ResourceDoesNotExist, InvalidState."""
        check_named(named)
        listed = fingerprint(named)
        with self._turn(token) as (directory, before):
            if before.completes not in ("", listed):
                raise InvalidState("The upload is being completed, or is complete, with another list of parts.")
            if before.done:
                return
            whole, data = directory / "whole", directory / "data"
            session = msgspec.structs.replace(before, completes=listed)
            if _exists(data) and not _exists(whole):
                with _Table(directory / "table") as table:
                    parts = [check_part(each, table.get(each.number)) for each in named]
                self._write(directory, session)
                self._assemble(directory, parts)
            if _exists(whole):
                data.unlink(missing_ok=True)
                if whole.lstat().st_nlink == 1:  # else it is in place, and a server was killed before it removed this name
                    settle(whole, session)
                whole.unlink(missing_ok=True)
            self._write(directory, msgspec.structs.replace(session, done=True))
            _remove_all(directory, but=("about.json", "lock"))

    def abort(self, token: str) -> None:
        """Ends a session with what has arrived. A file that is in place stays."""
        with contextlib.suppress(ResourceDoesNotExist), self._turn(token) as (directory, session):
            if not session.done:
                forget(directory)

    def sweep(self) -> None:
        """Removes abandoned sessions and drafts. Other servers may do the same concurrently."""
        if not self._place.exists():
            return
        for path in list(self._place.iterdir()):
            with contextlib.suppress(OSError):
                if _TOKEN.fullmatch(path.name):
                    self._sweep_session(path)
                elif path.name != ".lock" and self._is_old(path):
                    files.remove_tree(path)

    def _sweep_session(self, directory: Path) -> None:
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not locks.take(lock):
                return
            arriving = False
            for draft in list(directory.glob("in-*")):
                if locks.is_taken(draft):
                    arriving = True
                elif self._is_old(draft):
                    draft.unlink(missing_ok=True)
            session = self._read(directory.name)
            if not arriving and (session is None or self._is_expired(session)):
                forget(directory)
        finally:
            os.close(lock)

    def _assemble(self, directory: Path, parts: Sequence[Part]) -> None:
        """Makes `whole` of the parts. Can be repeated until it exists."""
        plan, whole, data = assembly(parts), directory / "whole", directory / "data"
        target = data if plan.in_place else directory / f"in-{secrets.token_hex(16)}"
        with data.open("rb") as slots, os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as out:
            for part, at in plan.parts:
                if part.offset is None:
                    with (directory / f"part-{part.number}").open("rb") as own:
                        files.copy_range(own.fileno(), out.fileno(), part.size, at=at)
                elif not plan.in_place:
                    files.copy_range(slots.fileno(), out.fileno(), part.size, start=part.offset, at=at)
            os.truncate(out.fileno(), plan.size)
        target.rename(whole)

    @contextlib.contextmanager
    def _turn(self, token: str) -> Iterator[tuple[Path, Session]]:
        """Exclusive access to a session, among all servers. Raises ResourceDoesNotExist."""
        directory = self._place / token
        with turn(directory, no_session(token)):
            session = self._read(token)
            if session is None:
                raise no_session(token)
            yield directory, session

    def _write(self, directory: Path, session: Session) -> None:
        write(directory, msgspec.structs.replace(session, used_ms=self._clock.now_ms()))

    def _read(self, token: str) -> Session | None:
        if not _TOKEN.fullmatch(token):
            return None
        try:
            return _decode_session((self._place / token / "about.json").read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError):  # the latter after a power failure
            return None

    def _sessions(self) -> list[Session]:
        names = os.listdir(self._place)  # noqa: PTH208 - only names are needed
        return [session for name in names if (session := self._read(name)) is not None and not self._is_expired(session)]

    def _is_expired(self, session: Session) -> bool:
        return session.used_ms < self._clock.now_ms() - (DONE_MS if session.done else IDLE_MS)

    def _is_old(self, path: Path) -> bool:
        return path.lstat().st_mtime * 1000 < self._clock.now_ms() - DRAFT_MS


class _Table:
    """The rows of a session's parts, while it is locked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Table:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def get(self, number: int) -> Part | None:
        """The part with that number; None unless it has arrived."""
        row = os.pread(self._file, _ROW.size, (number - 1) * _ROW.size)
        if len(row) < _ROW.size:
            return None
        size, offset, digest = _ROW.unpack(row)
        return Part(number, size - 1, digest, None if offset < 0 else offset) if size else None

    def put(self, part: Part) -> None:
        """Records that a part is there."""
        self._at(part.number, _ROW.pack(part.size + 1, -1 if part.offset is None else part.offset, part.digest))

    def clear(self, number: int) -> None:
        """Records that a part is not there."""
        self._at(number, bytes(_ROW.size))

    def _at(self, number: int, row: bytes) -> None:
        os.pwrite(self._file, row, (number - 1) * _ROW.size)  # 32 bytes, aligned: a kill does not divide them


def no_session(token: str) -> ResourceDoesNotExist:
    """The error for a token without an upload to that path."""
    return ResourceDoesNotExist(
        f"No upload to this path has the session_token {token[:40]!r}: it was aborted, was idle for a day, or belongs to someone "
        "else. Begin again with initiate-upload."
    )


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _remove_all(directory: Path, *, but: Sequence[str]) -> None:
    """Removes what a session no longer needs; what cannot be removed now goes with the session."""
    for path in list(directory.iterdir()):
        if path.name not in but:
            with contextlib.suppress(OSError):
                path.unlink()
