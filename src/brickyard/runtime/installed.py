"""Which runtimes are installed: their places in the cache directory, and their manifests."""

from __future__ import annotations

from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest


def runtime_home(environment: str, cache_dir: Path) -> Path:
    """Returns where an environment lives."""
    return cache_dir / "runtimes" / environment


def installed(environment: str, cache_dir: Path) -> RuntimeManifest | None:
    """Returns the manifest of an installed environment, or None."""
    try:
        data = (runtime_home(environment, cache_dir) / "runtime.json").read_bytes()
        return msgspec.json.decode(data, type=RuntimeManifest)
    except (OSError, msgspec.MsgspecError):
        return None
