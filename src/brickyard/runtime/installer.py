"""Installs a runtime: its own environment in the cache directory, either complete or absent.

The environment is built in its final place (virtual environments cannot be moved) under a lock, and `runtime.json` is written
last. A directory without it is left from a killed installer, and the next installer removes it. What makes starts faster comes
later (`training.py`).
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.runtime import NODE_CODE
from brickyard.runtime.classes import compile_classes
from brickyard.runtime.installation import Installation, InstallError
from brickyard.runtime.installed import installed, runtime_home, write_manifest
from brickyard.runtime.inuse import unused
from brickyard.runtime.layers import KIND as LAYERS
from brickyard.runtime.layers import NEEDED
from brickyard.runtime.lock import TRAINER, end_work, locked
from brickyard.runtime.packages import KIND as PACKAGES
from brickyard.runtime.progress import Progress
from brickyard.runtime.python import PythonMissing
from brickyard.runtime.sparkclasses import with_classes
from brickyard.runtime.watch import CommandFailed

__all__ = ["InstallError", "install", "remove"]

NEEDED_MB = 1_500


def install(runtime: Runtime, *, cache_dir: Path, progress: Progress) -> RuntimeManifest:
    """Installs the runtime unless it is installed. Raises InstallError. Safe against concurrent installers and against being
    killed."""
    if (manifest := installed(runtime.environment, cache_dir)) and (whole := with_classes(manifest, NODE_CODE)):
        return whole
    try:
        with locked(runtime.environment, cache_dir, progress) as board:
            if manifest := installed(runtime.environment, cache_dir):
                return compile_classes(manifest)  # another version of Brickyard installed it
            home = runtime_home(runtime.environment, cache_dir)
            _check_disk(cache_dir)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            manifest = Installation(runtime, home, board=board, progress=progress).run()
            write_manifest(manifest)
            return manifest
    except (CommandFailed, PythonMissing) as error:
        raise InstallError(str(error)) from error
    except OSError as error:
        raise InstallError(
            f"cannot write the runtime to {cache_dir}: {error.strerror or error}. Free space there, or choose another cache_dir."
        ) from error


def remove(environment: str, *, cache_dir: Path) -> bool:
    """Removes an installed environment; returns whether there was one. Raises RuntimeInUse."""
    home = runtime_home(environment, cache_dir)
    with locked(environment, cache_dir, lambda _: None), unused(cache_dir, environment):
        for kind in (TRAINER, PACKAGES, LAYERS, NEEDED):
            end_work(environment, cache_dir, kind)
        there = home.exists()
        with contextlib.suppress(FileNotFoundError):
            (home / "runtime.json").unlink()  # removed first: from here on the environment does not count as installed
        shutil.rmtree(home, ignore_errors=True)
        return there


def _check_disk(cache_dir: Path) -> None:
    free = shutil.disk_usage(cache_dir).free // 2**20
    if free < NEEDED_MB:
        raise InstallError(
            f"a runtime needs {NEEDED_MB} MB and {free} MB are free in {cache_dir}. Free space there, or choose another "
            "cache_dir."
        )
