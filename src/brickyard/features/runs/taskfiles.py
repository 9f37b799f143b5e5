"""The Python files that tasks run: the workspace's, and those below one directory of the server's machine (file:/)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from brickyard.domain.errors import InvalidParameterValue
from brickyard.plan.submit import TaskFile
from brickyard.storage.safetree import SafeTree

MAX_FILE = 4 * 1024 * 1024


class UnreadableFile(Exception):
    """A task's file cannot be read; the message says why."""


class TaskFiles:
    """`dbfs` is the root of the workspace's files at dbfs:/, except for `others`: names at the top of a path, and their roots.
    `machine` is the directory of this machine whose files may run, or None."""

    def __init__(self, *, dbfs: Path, others: Mapping[str, Path] | None = None, machine: Path | None) -> None:
        self._dbfs = SafeTree(root=dbfs)
        self._others = {name: SafeTree(root=root) for name, root in (others or {}).items()}
        self._machine = machine
        self._machine_tree = SafeTree(root=machine) if machine is not None else None

    def check(self, file: TaskFile) -> None:
        """Raises InvalidParameterValue unless files there may run. The file's existence is checked when the task begins."""
        if file.place == "file":
            self._below(file.path)

    async def read(self, file: TaskFile) -> str:
        """The file's current text. Raises UnreadableFile."""
        try:
            return await asyncio.to_thread(self._read, file)
        except InvalidParameterValue as error:
            raise UnreadableFile(error.message) from error
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"{file.place}:{file.path} is not UTF-8: {error.reason} at byte {error.start}.") from error
        except OSError as error:
            raise UnreadableFile(f"{file.place}:{file.path} cannot be read: {error.strerror}.") from error

    def _read(self, file: TaskFile) -> str:
        if file.place == "dbfs":
            tree, parts = self._dbfs, _parts(file.path)
            if parts and parts[0] in self._others:
                tree, parts = self._others[parts[0]], parts[1:]
        else:
            parts = self._below(file.path)
            tree = self._machine_tree or self._dbfs
        size = tree.stat(parts).size
        if size > MAX_FILE:
            raise UnreadableFile(f"{file.place}:{file.path} has {size} bytes; a task's file has at most {MAX_FILE}.")
        return tree.read(parts, 0, MAX_FILE).decode("utf-8-sig")

    def _below(self, path: str) -> tuple[str, ...]:
        root = self._machine
        if root is None or not Path(path).is_relative_to(root):
            where = (
                f"files of this machine must be below {root}"
                if root is not None
                else "files of this machine are not allowed (see the setting task_files_dir)"
            )
            raise InvalidParameterValue(
                f"python_file file:{path[:140]} cannot be run: {where}. Upload it with dbfs/put and give dbfs:/path/to/file.py."
            )
        return _parts(str(Path(path).relative_to(root)))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
