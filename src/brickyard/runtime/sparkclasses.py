"""Where a runtime keeps our classes for Spark: agents and installers must agree, or each start runs an installer again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest

# Directories below `java`, in this order; what drivers and trainings compile is elsewhere.
SOURCES = (".", "abfss", "gs", "iceberg", "iceberg35", "iceberg41", "photon", "s3a33", "scala212", "spark35", "spark4")


def classes_path(home: str, node_code: Path) -> str:
    """The path of our classes, compiled from the sources of this version, in the runtime at `home`; "" if there are no sources.
    A runtime that another version of us installed lacks them until they are compiled. Raises OSError."""
    sources = [source for place in SOURCES for source in sorted((node_code / "java" / place).glob("*.java"))]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return f"{home}/classes/{digest.hexdigest()[:16]}.jar" if sources else ""


def with_classes(manifest: RuntimeManifest, node_code: Path) -> RuntimeManifest | None:
    """The manifest with its classes, or None if they still have to be compiled. Raises OSError."""
    path = classes_path(manifest.home, node_code)
    return msgspec.structs.replace(manifest, classes=path) if not path or Path(path).is_file() else None
