"""Ids of workspace objects: a hash of the path, so that nothing beside the tree has to remember them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterator

from brickyard.features.files.tree import FileTree

MAX_KNOWN = 100_000
_PAGE = 1_000
Parts = tuple[str, ...]


def object_id(parts: Parts) -> int:
    """Always the same for a path; 0 for the root, as on Databricks. It has 53 bits, so that JavaScript can hold it."""
    if not parts:
        return 0
    return int.from_bytes(hashlib.blake2b("/".join(parts).encode(), digest_size=8).digest()) >> 11


class ObjectIds:
    """Finds the path of an id: among those that were shown lately, else by a walk through the tree. For one event loop."""

    def __init__(self, files: FileTree) -> None:
        self._files = files
        self._known: OrderedDict[int, Parts] = OrderedDict([(object_id(()), ())])
        self._walking = asyncio.Lock()

    def saw(self, parts: Parts) -> int:
        """The id of a path that exists; `find` is quick for it from now on."""
        number = object_id(parts)
        self._known[number] = parts
        self._known.move_to_end(number)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return number

    async def find(self, number: int) -> Parts | None:
        """The path with this id. It may have been removed meanwhile. None if there is none."""
        if (known := self._known.get(number)) is not None:
            return known
        async with self._walking:  # one at a time: whoever asks for ids that do not exist waits for others who do
            if (known := self._known.get(number)) is not None:
                return known
            found = await self._files.run("/", lambda: self._walk(number))
        if found is not None:
            self.saw(found)
        return found

    def _walk(self, wanted: int) -> Parts | None:
        """Blocks. Directories that vanish meanwhile, and those that cannot be read, are passed over."""
        waiting: list[Parts] = [()]
        while waiting:
            for parts, is_dir in self._entries(waiting.pop()):
                if object_id(parts) == wanted:
                    return parts
                if is_dir:
                    waiting.append(parts)
        return None

    def _entries(self, directory: Parts) -> Iterator[tuple[Parts, bool]]:
        after = ""
        while True:
            try:
                entries, after = self._files.tree.page(directory, after=after, limit=_PAGE)
            except OSError:
                return
            yield from ((entry.parts, entry.is_dir) for entry in entries)
            if not after:
                return
