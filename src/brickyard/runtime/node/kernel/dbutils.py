"""`dbutils` as far as a cluster can offer it: notebook exit, restarting Python, widgets, files, secrets."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from ..trees import PREFIXES, local_path, roots
from ..wire import EXIT_MIME, RESTART_MIME
from .dbsecrets import Line, Secrets
from .widgets import Widgets


class Publish(Protocol):
    """Shows something as output of the running command."""

    def __call__(self, bundle: dict[str, Any], /) -> None:
        """`bundle`: MIME type -> content."""
        ...


class NotebookExit(BaseException):
    """Ends the command. The user's `except Exception` does not catch it."""


class FileInfo(NamedTuple):
    """One entry of `dbutils.fs.ls`: size in bytes, time in epoch milliseconds."""

    path: str
    name: str
    size: int
    modificationTime: int


class Notebook:
    def __init__(self, *, publish: Publish) -> None:
        self._publish = publish

    def exit(self, value: Any = "") -> NoReturn:
        """Ends the command with `value` as its result."""
        text = str(value)
        self._publish({EXIT_MIME: {"value": text}, "text/plain": text})
        raise NotebookExit(text)

    def __getattr__(self, name: str) -> NoReturn:
        raise _not_offered(f"notebook.{name}")


class Library:
    def __init__(self, *, publish: Publish) -> None:
        self._publish = publish

    def restartPython(self) -> NoReturn:
        """Ends the command and replaces the Python process: its variables and modules are gone, what %pip installed stays."""
        self._publish({RESTART_MIME: {}})
        raise NotebookExit("Python is restarted")

    def __getattr__(self, name: str) -> NoReturn:
        raise _not_offered(f"library.{name}")


class Files:
    """`dbutils.fs` over the workspace's files (dbfs:/..., /Volumes/..., /Workspace/...) and this node's (file:/...)."""

    def __init__(self, *, dbfs: Path, **trees: Path) -> None:
        """`trees`: the other names at the top of paths, and their directories."""
        self._roots = {**trees, "dbfs": dbfs}

    def ls(self, path: str) -> list[FileInfo]:
        """Returns the entries of a directory, or the file itself."""
        local = self._local(path)
        entries = sorted(local.iterdir()) if local.is_dir() else [local]
        return [self._info(entry) for entry in entries]

    def head(self, file: str, max_bytes: int = 65536) -> str:
        """Returns the beginning of a file as text."""
        with self._local(file).open("rb") as stream:
            return stream.read(max_bytes).decode("utf-8", "replace")

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:
        """Writes a text file. Raises FileExistsError unless `overwrite`."""
        local = self._local(file)
        local.parent.mkdir(parents=True, exist_ok=True)
        with local.open("w" if overwrite else "x", encoding="utf-8") as stream:
            stream.write(contents)
        return True

    def mkdirs(self, dir: str) -> bool:
        """Makes a directory and its parents."""
        self._local(dir).mkdir(parents=True, exist_ok=True)
        return True

    def rm(self, dir: str, recurse: bool = False) -> bool:
        """Removes a file or directory; False if there is none."""
        local = self._local(dir)
        if local.is_dir() and not local.is_symlink():
            shutil.rmtree(str(local)) if recurse else local.rmdir()
        elif local.exists() or local.is_symlink():
            local.unlink()
        else:
            return False
        return True

    def cp(self, source: str, dest: str, recurse: bool = False) -> bool:
        """Copies a file, or a directory with `recurse`."""
        origin, target = self._local(source), self._local(dest)
        if origin.is_dir():
            if not recurse:
                raise IsADirectoryError(f"{source} is a directory. Pass recurse=True to copy it with its contents.")
            shutil.copytree(str(origin), str(target))
        else:
            target = target / origin.name if target.is_dir() else target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(origin), str(target))
        return True

    def mv(self, source: str, dest: str, recurse: bool = False) -> bool:
        """Moves a file, or a directory with `recurse`."""
        origin, target = self._local(source), self._local(dest)
        if origin.is_dir() and not recurse:
            raise IsADirectoryError(f"{source} is a directory. Pass recurse=True to move it with its contents.")
        (target if target.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
        shutil.move(str(origin), str(target))
        return True

    def _local(self, path: str) -> Path:
        scheme = next((scheme for scheme in ("file:", "dbfs:") if path.startswith(scheme)), "")
        inner = path[len(scheme) :].lstrip("/")
        if scheme == "file:" and inner.partition("/")[0] not in self._roots:
            return Path(f"/{inner}")
        return Path(local_path(inner, self._roots))

    def _info(self, local: Path) -> FileInfo:
        tops = [("file:", Path("/")), *((PREFIXES[name], root) for name, root in self._roots.items())]
        prefix, top = next(each for each in reversed(tops) if local.is_relative_to(each[1]))
        shown = f"{prefix}/{local.relative_to(top)}".removesuffix("/.")
        info = local.lstat()
        slash = "/" if local.is_dir() else ""
        return FileInfo(shown + slash, local.name + slash, 0 if slash else info.st_size, info.st_mtime_ns // 1_000_000)

    def __getattr__(self, name: str) -> NoReturn:
        raise _not_offered(f"fs.{name}")


class DBUtils:
    """The object that users know as `dbutils`."""

    def __init__(self, *, publish: Publish, files: Files, line: Line) -> None:
        self.notebook = Notebook(publish=publish)
        self.library = Library(publish=publish)
        self.fs = files
        self.widgets = Widgets()
        self.secrets = Secrets(line)

    def __getattr__(self, name: str) -> NoReturn:
        raise _not_offered(name)


def _not_offered(what: str) -> AttributeError:
    return AttributeError(
        f"dbutils.{what} is not offered on this cluster. Available: dbutils.fs (ls, head, put, mkdirs, rm, cp, mv),"
        " dbutils.library.restartPython, dbutils.notebook.exit, dbutils.secrets, dbutils.widgets."
    )


def make_dbutils(publish: Publish, line: Line) -> DBUtils:
    """Makes `dbutils` over the workspace's files where the node shows them. `line` leads to the node host."""
    files = Files(**{name: Path(root) for name, root in roots(os.environ).items()})
    return DBUtils(publish=publish, files=files, line=line)
