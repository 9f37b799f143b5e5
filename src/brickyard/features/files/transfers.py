"""Large files of volumes: in parts to them, and both ways through URLs that carry their permission."""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import AsyncIterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.features.files.arguments import VOLUMES, shown
from brickyard.features.files.multipart import MultipartSessions, Session
from brickyard.features.files.parts import MOST_PARTS, Named, Part
from brickyard.features.files.presigned import Grant, PresignedUrls
from brickyard.features.files.tree import Draft, FileTree, OpenFile
from brickyard.features.files.uploaddirectories import end_arriving
from brickyard.features.files.volumenames import LEVELS
from brickyard.features.files.volumepaths import file_names
from brickyard.features.files.volumes import VolumeService

PRESIGNED = "/api/2.0/fs/presigned"
MOST_URLS = 1_000


class PartUrl(NamedTuple):
    """Where the part with that number goes."""

    number: int
    url: str


class VolumeTransfers:
    """One per server. Methods raise ApiError. `signature` is of a presigned URL; other methods take the caller."""

    def __init__(self, *, volumes: VolumeService, files: FileTree, sessions: MultipartSessions, urls: PresignedUrls) -> None:
        """`files` are the volumes' tree."""
        self._volumes = volumes
        self._files = files
        self._sessions = sessions
        self._urls = urls
        # Parts of one upload wait here for each other, so that they do not occupy threads.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def begin(self, caller: Caller, path: str, *, overwrite: bool) -> str:
        """Begins an upload in parts, and returns its session's token."""
        parts = await self._volumes.writable(caller, path, overwrite=overwrite)
        token = ""

        def work() -> None:
            nonlocal token
            token = self._sessions.begin(owner=caller, parts=parts, overwrite=overwrite)

        await self._volumes.change(path, parts, work)
        return token

    async def part_urls(
        self, caller: Caller, path: str, token: str, *, start: int, count: int, expire_time: str, base_url: str
    ) -> list[PartUrl]:
        """URLs for the parts from `start` on: `count` of them, or fewer where there can be no more parts."""
        if not 1 <= start <= MOST_PARTS:
            raise InvalidParameterValue(f"field 'start_part_number': it is {start}; a part has a number from 1 to {MOST_PARTS}.")
        if not 1 <= count <= MOST_URLS:
            raise InvalidParameterValue(f"field 'count': it is {count}; it must be between 1 and {MOST_URLS}.")
        place = await self._session(caller, path, token)
        until_ms = self._urls.until_ms(expire_time)
        return [
            PartUrl(number, self._url(caller, base_url, Grant("PUT", place, token, number), until_ms))
            for number in range(start, min(start + count, MOST_PARTS + 1))
        ]

    async def abort_url(self, caller: Caller, path: str, token: str, *, expire_time: str, base_url: str) -> str:
        """A URL that aborts an upload."""
        place = await self._session(caller, path, token)
        return self._url(caller, base_url, Grant("DELETE", place, token), self._urls.until_ms(expire_time))

    async def download_url(self, caller: Caller, path: str, *, expire_time: str, base_url: str) -> str:
        """A URL from which a file that exists can be read."""
        (await self._volumes.open(caller, path)).close()
        return self._url(caller, base_url, Grant("GET", _normal(path)), self._urls.until_ms(expire_time))

    async def open(self, path: str, signature: str) -> OpenFile:
        """Opens a file for reading."""
        caller = await self._urls.caller(signature, Grant("GET", _normal(path)))
        return await self._volumes.open(caller, path)

    async def put_part(self, path: str, token: str, number: int, signature: str, pieces: AsyncIterable[bytes]) -> str:
        """Takes a part, once all of it has arrived, and returns its ETag. The same part may be sent again."""
        caller = await self._urls.caller(signature, Grant("PUT", _normal(path), token, number))
        await self._session(caller, path, token)
        own, file = await self._files.run(path, lambda: self._sessions.draft(token))
        try:
            draft = Draft(owner=caller, path=own, file=file, digest=hashlib.blake2b(digest_size=16))
            await self._files.receive(draft, pieces)
            assert draft.digest is not None  # noqa: S101 - given above
            part = Part(number, draft.size, draft.digest.digest(), None)
            async with self._turn(token):
                await self._files.run(path, lambda: self._sessions.take(token, own, file, part))
        finally:
            end_arriving(own, file)
        return part.etag

    async def complete(self, caller: Caller, path: str, token: str, named: Sequence[Named]) -> None:
        """Puts the file in place: readers see what was there, or all of the new one. Has no effect where that has been done."""
        await self._session(caller, path, token)
        parts = file_names(path)

        def settle(whole: Path, session: Session) -> None:
            self._files.check_room(caller)
            self._files.place(whole, session.parts, overwrite=session.overwrite, existing=LEVELS)

        async with self._turn(token):
            await self._volumes.change(path, parts, lambda: self._sessions.finish(token, named, settle))

    async def abort(self, caller: Caller, path: str, token: str) -> None:
        """Ends an upload with what has arrived of it."""
        await self._session(caller, path, token)
        async with self._turn(token):
            await self._files.run(path, lambda: self._sessions.abort(token))

    async def abort_presigned(self, path: str, token: str, signature: str) -> None:
        """The same through a URL."""
        await self.abort(await self._urls.caller(signature, Grant("DELETE", _normal(path), token)), path, token)

    async def _session(self, caller: Caller, path: str, token: str) -> str:
        """The path of an upload that the caller has begun, and may continue."""
        parts = await self._volumes.allowed(caller, path, Permission.WRITE_VOLUME, to="write")
        await self._files.run(path, lambda: self._sessions.find(token, owner=caller, parts=parts))
        return shown((VOLUMES, *parts))

    def _url(self, caller: Caller, base_url: str, grant: Grant, until_ms: int) -> str:
        query: dict[str, str | int] = {"session_token": grant.session} if grant.session else {}
        query |= {"part_number": grant.part} if grant.part else {}
        query |= {"signature": self._urls.sign(caller, grant, until_ms=until_ms)}
        return f"{base_url}{PRESIGNED}{quote(grant.path)}?{urlencode(query)}"

    def _turn(self, token: str) -> asyncio.Lock:
        return self._turns.setdefault(token, asyncio.Lock())


def _normal(path: str) -> str:
    """One spelling of a file's path."""
    return shown((VOLUMES, *file_names(path)))
