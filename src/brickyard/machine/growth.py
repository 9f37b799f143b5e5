"""Finds the processes that go on adding to files whose room is used up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LOOKS = 2  # times in a row that a file must have grown: a write that began when there was room may end later


class OpenFile(NamedTuple):
    """A file that a process has open for writing."""

    pid: int
    device: int
    inode: int


class Growth:
    """Call `look` at each check, or `forget` while there is room."""

    def __init__(self) -> None:
        self._sizes: Mapping[OpenFile, int] = {}
        self._sent: Mapping[int, int] = {}
        self._grown: dict[OpenFile, int] = {}

    def forget(self) -> None:
        self._sizes, self._sent, self._grown = {}, {}, {}

    def look(self, sizes: Mapping[OpenFile, int], sent: Mapping[int, int]) -> set[int]:
        """Takes in the sizes of all files that are open for writing, and how many bytes each process has written so far.
        Returns the processes that are to be ended.

        Children inherit open files: of several processes that have a grown file open, those count that have written so much."""
        more = {file: size - self._sizes.get(file, size) for file, size in sizes.items()}
        grown = {file for file in sizes if more[file] > 0}
        wrote = {file for file in grown if 2 * (sent.get(file.pid, 0) - self._sent.get(file.pid, 0)) >= more[file]}
        known = {(file.device, file.inode) for file in wrote}  # of others nobody knows: what is mapped into memory is not written
        writers = wrote | {file for file in grown if (file.device, file.inode) not in known}
        self._grown = {file: self._grown.get(file, 0) + 1 for file in writers}
        self._sizes, self._sent = dict(sizes), dict(sent)
        return {file.pid for file, looks in self._grown.items() if looks >= LOOKS}
