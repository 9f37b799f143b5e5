"""Removes uploads that nobody goes on with."""

from __future__ import annotations

import asyncio

from brickyard.domain.periodic import Periodic
from brickyard.features.files.multipart import MultipartSessions
from brickyard.features.files.uploads import Uploads

EVERY_S = 10 * 60.0


class UploadSweep(Periodic):
    """What a killed server or client left would otherwise stay until somebody else begins an upload."""

    def __init__(self, *, uploads: Uploads, multipart: MultipartSessions) -> None:
        super().__init__(every_s=EVERY_S, later=True)
        self._uploads = uploads
        self._multipart = multipart

    async def run_once(self) -> None:
        await asyncio.to_thread(self._uploads.sweep)
        await asyncio.to_thread(self._multipart.sweep)
