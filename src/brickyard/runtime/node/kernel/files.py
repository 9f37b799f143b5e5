"""`dbutils.fs`: the workspace's files and this node's."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..trees import PREFIXES, local_path
from .described import Described


class FileInfo(NamedTuple):
    """One entry of `dbutils.fs.ls`: size in bytes, time in epoch milliseconds."""

    path: str
    name: str
    size: int
    modificationTime: int


class MountInfo(NamedTuple):
    """One entry of `dbutils.fs.mounts`."""

    mountPoint: str
    source: str
    encryptionType: str


class Files(Described):
    """`dbutils.fs` over the workspace's files (dbfs:/..., /Volumes/..., /Workspace/...) and this node's (file:/...)."""

    _part = "fs"

    def __init__(self, *, dbfs: Path, **trees: Path) -> None:
        """`trees`: the other names at the top of paths, and their directories."""
        self._roots = {**trees, "dbfs": dbfs}

    def ls(self, path: str) -> list[FileInfo]:
        """Returns the entries of a directory, or the file itself."""
        with _naming(path):
            local = self._local(path)
            entries = sorted(local.iterdir()) if local.is_dir() else [local]
            return [self._info(entry) for entry in entries]

    def head(self, file: str, max_bytes: int = 65536) -> str:
        """Returns the beginning of a file as text."""
        with _naming(file), self._local(file).open("rb") as stream:
            return stream.read(max_bytes).decode("utf-8", "replace")

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:
        """Writes a text file. Raises FileExistsError unless `overwrite`."""
        local = self._local(file)
        local.parent.mkdir(parents=True, exist_ok=True)
        with _naming(file), local.open("w" if overwrite else "x", encoding="utf-8") as stream:
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
            _check(origin, source)
            target = target / origin.name if target.is_dir() else target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(origin), str(target))
        return True

    def mv(self, source: str, dest: str, recurse: bool = False) -> bool:
        """Moves a file, or a directory with `recurse`."""
        origin, target = self._local(source), self._local(dest)
        if origin.is_dir() and not recurse:
            raise IsADirectoryError(f"{source} is a directory. Pass recurse=True to move it with its contents.")
        _check(origin, source)
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

    def mounts(self) -> list[MountInfo]:
        """Returns the mount points: there are none."""
        return []

    def refreshMounts(self) -> bool:
        """Does nothing, since there are no mount points."""
        return True


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors name the path as the user gave it, and Java's exception, by which programs know them on Databricks."""
    try:
        yield
    except FileNotFoundError:
        raise _missing(path) from None
    except FileExistsError:
        raise FileExistsError(f"java.io.IOException: {path} already exists. Pass overwrite=True to replace it.") from None


def _check(origin: Path, source: str) -> None:
    if not origin.exists() and not origin.is_symlink():
        raise _missing(source)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"java.io.FileNotFoundException: No such file or directory {path}")
