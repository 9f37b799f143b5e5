"""Makes a task's wheels importable in its process and in the Python workers of its Spark jobs.

Nothing is downloaded: a wheel's requirements must be in the runtime or in another wheel of the task. Only pure Python wheels
work, because the workers import them from a zip file.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class WheelError(Exception):
    """The wheel cannot be used; the message says why."""


def add_wheel(wheel: Path, spark: Any, directory: Path) -> None:
    """Makes a wheel importable here and on the workers of `spark` (a SparkSession). Unpacks it below `directory`."""
    try:
        with zipfile.ZipFile(str(wheel)) as archive:
            _check(archive, wheel.name)
            target = directory / "wheels" / wheel.name
            archive.extractall(str(target))  # zipfile prevents names that lead outside
    except (OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel.name} cannot be used: {error}") from error
    sys.path.insert(0, str(target))
    importlib.invalidate_caches()
    # Spark recognises zip files by suffix, and knows each by name only: another task's wheel of that name is another file.
    copy = directory / f"{wheel.stem}-{directory.name}.zip"
    shutil.copyfile(str(wheel), str(copy))
    if in_jvm(spark):
        spark.sparkContext.addPyFile(str(copy))
    else:
        spark.addArtifacts(str(copy), pyfile=True)


def in_jvm(spark: Any) -> bool:
    """Whether a session is a classic one in the driver's JVM, not one of Spark Connect."""
    return "connect" not in type(spark).__module__.split(".")


def missing_requirements(metadata: str) -> list[str]:
    """Returns the packages that a wheel's METADATA requires unconditionally and that are missing here."""
    from importlib.metadata import PackageNotFoundError, version

    missing = []
    for line in metadata.splitlines():
        if not line:
            break  # the description follows
        key, _, value = line.partition(":")
        requirement, _, marker = value.partition(";")
        name = _NAME.match(requirement.strip())
        if key.strip().lower() == "requires-dist" and not marker.strip() and name is not None:
            try:
                version(name.group())
            except PackageNotFoundError:
                missing.append(name.group())
    return missing


def _check(archive: zipfile.ZipFile, name: str) -> None:
    found = {Path(each).name: each for each in archive.namelist() if each.count("/") == 1 and ".dist-info/" in each}
    if "WHEEL" not in found or "METADATA" not in found:
        raise WheelError(f"{name} is not a wheel: it has no .dist-info with WHEEL and METADATA.")
    tags = archive.read(found["WHEEL"]).decode("utf-8", "replace").lower().replace(" ", "")
    if "root-is-purelib:true" not in tags:
        raise WheelError(f"{name} contains compiled code, which a task cannot load from a wheel. Use pure Python wheels.")
    missing = missing_requirements(archive.read(found["METADATA"]).decode("utf-8", "replace"))
    if missing:
        raise WheelError(
            f"{name} requires {', '.join(missing)}, which the runtime has not. Give wheels of them before it in libraries."
        )
