"""Work on the metastore's files, on another thread, with the API's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from brickyard.domain.errors import InvalidParameterValue, StorageFull, TemporarilyUnavailable, is_full_disk
from brickyard.features.catalog.model import MetastoreUnusable
from brickyard.storage.metastore import Full, Locked, Refused

T = TypeVar("T")


async def run(work: Callable[[], T]) -> T:
    """The result of the work. Raises ApiError."""

    def translating() -> T:
        try:
            return work()
        except Locked as error:
            raise TemporarilyUnavailable(f"Nothing was changed: {error}. Try again.") from error
        except Full as error:
            raise StorageFull(f"Nothing was changed: {error}.") from error
        except Refused as error:
            raise InvalidParameterValue(f"Nothing was changed: {error}.") from error
        except OSError as error:
            if is_full_disk(error):
                raise StorageFull("The workspace's disk is full. Delete files, or enlarge the disk.") from error
            raise MetastoreUnusable(f"The workspace's metastore cannot be used: {error.strerror}.") from error

    return await asyncio.to_thread(translating)
