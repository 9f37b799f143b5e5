"""`%pip`: Python packages for one context, in a virtual environment of its own over the node's.

The environment lies in the context's directory, survives `dbutils.library.restartPython()`, and ends with the context. What it
holds comes first on `sys.path`. The Python functions of the context's Spark jobs get a copy through Spark itself, so that it is
the same on any number of workers, and for this context only:

    in the driver's JVM    one archive of the whole environment; a variable gives the context Python workers of its own
    Spark Connect          an archive of each package: sessions have files, and Python workers, of their own
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import site
import sys
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .task import TaskFailed
from .wheels import in_jvm

DIRECTORY = "CONTEXT_PACKAGES"  # variable: where the environment is, or will be
CONTEXT = "PYTHON_CONTEXT"  # variable of Python workers
_CHAIN = "_brickyard.pth"
_CHANGING = ("install", "uninstall")
NOTE = "Note: modules that are imported already stay as they are until dbutils.library.restartPython()."


class PipFailed(Exception):
    """pip has said why."""


class Packages:
    """The environment of a kernel's context."""

    def __init__(self, shell: Any, spark: Any) -> None:
        self._shell = shell
        self._spark = spark
        self._top = Path(os.environ[DIRECTORY])
        self._site = self._top / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self._sent: dict[str, tuple[int, ...]] = {}  # top-level names, as they were sent to the workers
        self._archive = ""

    def resume(self) -> None:
        """Uses what an earlier process of this context has installed."""
        if self._site.is_dir():
            self._use()
            self._send()

    def pip(self, line: str) -> None:
        """Runs pip. Raises TaskFailed with what is wrong."""
        if not self._site.is_dir():
            self._make()
        before = self._found()
        words = line.split()
        self._shell.system(f"{shlex.quote(str(self._top / 'bin' / 'python'))} -m pip {line}")
        code = self._shell.user_ns.get("_exit_code", 0)
        self._use()
        if words and words[0] in _CHANGING and self._found() != before:
            self._send()
            print(NOTE)
        if code:
            error = PipFailed(f"%pip {line} ended with exit code {code}")
            raise TaskFailed(error, text=f"PipFailed: {error}")

    def _make(self) -> None:
        """Makes the environment, empty, over the node's own."""
        node = Path(sys.prefix)
        below = node / self._site.relative_to(self._top)
        draft = self._top.with_name(f"{self._top.name}.new")
        shutil.rmtree(str(draft), ignore_errors=True)
        packages = draft / self._site.relative_to(self._top)
        packages.mkdir(parents=True)
        (draft / "bin").mkdir()
        (draft / "bin" / "python").symlink_to(node / "bin" / "python")
        shutil.copyfile(str(node / "pyvenv.cfg"), str(draft / "pyvenv.cfg"))
        (packages / _CHAIN).write_text(f"import site; site.addsitedir({str(below)!r})\n")
        draft.rename(self._top)

    def _use(self) -> None:
        """Puts the environment first among the directories with packages."""
        own = str(self._site)
        if own not in sys.path:
            before = list(sys.path)
            site.addsitedir(own)
            new = [path for path in sys.path if path not in before]
            below = str(Path(sys.prefix) / self._site.relative_to(self._top))
            place = before.index(below) if below in before else len(before)
            sys.path[:] = before[:place] + new + before[place:]
            os.environ["PATH"] = f"{self._top / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        importlib.invalidate_caches()

    # ── to the workers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _found(self) -> dict[str, tuple[int, ...]]:
        """Returns the top-level names, each with what changes when its content does."""
        found: dict[str, tuple[int, ...]] = {}
        for path in self._site.iterdir():
            if path.name not in (_CHAIN, "__pycache__"):
                record = path / "RECORD"
                info = (record if record.is_file() else path).stat()
                found[path.name] = (info.st_mtime_ns, info.st_size)
        return found

    def _send(self) -> None:
        found = self._found()
        if in_jvm(self._spark):
            self._send_whole()
        else:
            self._send_each(found)
            self._sent = {**found, **self._sent}

    def _send_whole(self) -> None:
        """Sends the environment as one archive, which replaces the last one for all functions from now on."""
        context, name = self._spark.sparkContext, f"environment-{uuid.uuid4().hex}"
        archive = self._pack(name, self._site)
        context.addArchive(f"{archive}#{name}")
        includes = context._python_includes
        if self._archive in includes:
            includes.remove(self._archive)
        includes.append(name)
        context.environment[CONTEXT] = self._archive = name  # other Python workers: theirs have imported other versions

    def _send_each(self, found: dict[str, tuple[int, ...]]) -> None:
        """Sends what is new. A session keeps what it has: no file of it can be replaced."""
        kept = sorted(name for name in self._sent if found.get(name) != self._sent[name] and not name.endswith(".dist-info"))
        for name in sorted(set(found) - set(self._sent)):
            path = self._site / name
            if path.is_dir():
                self._spark.addArtifacts(f"{self._pack(name, path)}#{name}", archive=True)
            elif path.suffix == ".py":
                self._spark.addArtifacts(str(path), pyfile=True)
            elif path.suffix != ".pth":
                self._spark.addArtifacts(str(path), file=True)
        if kept:
            print(f"Spark's workers keep what they have of {', '.join(kept)} until dbutils.library.restartPython().")

    def _pack(self, name: str, top: Path) -> Path:
        """Makes an archive of what lies below a directory, which Spark unpacks as `name`."""
        archive = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"{name}.zip"
        with zipfile.ZipFile(str(archive), "w") as packed:
            for path in _files(top):
                packed.write(str(path), str(path.relative_to(top)))
        return archive


def _files(top: Path) -> Iterator[Path]:
    for directory, names, found in os.walk(str(top)):
        names[:] = [name for name in names if name != "__pycache__"]
        yield from (Path(directory, name) for name in found if name != _CHAIN)
