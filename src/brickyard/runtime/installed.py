"""Which runtimes are installed: their places in the cache directory, and their manifests."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import RuntimeManifest

_decode_runtime_manifest = msgspec.json.Decoder(RuntimeManifest).decode


def runtime_home(environment: str, cache_dir: Path) -> Path:
    """Returns where an environment lives."""
    return cache_dir / "runtimes" / environment


def installed(environment: str, cache_dir: Path) -> RuntimeManifest | None:
    """Returns the manifest of an installed environment, or None."""
    try:
        data = (runtime_home(environment, cache_dir) / "runtime.json").read_bytes()
        return _decode_runtime_manifest(data)
    except (OSError, msgspec.MsgspecError):
        return None


def write_manifest(manifest: RuntimeManifest) -> None:
    """Writes runtime.json, whole or not at all, whatever happens: from then on, nodes use what it names. Raises OSError."""
    path = Path(manifest.home, "runtime.json")
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        # Our classes and the layers are not in it: which ones suit depends on the version of Brickyard.
        file.write(msgspec.json.encode(msgspec.structs.replace(manifest, classes="", layers={})))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
