"""Layers of a runtime: JARs, with a Python package where one belongs to them. What is declared, and what is installed.

A runtime works without them. They are installed after it (`layerwork.py`), while clusters run, into the runtime's home; a node
that starts afterwards has them. Each lies in a directory that is named after its declaration in `data/layers.toml`: another
version of Brickyard with other JARs has another beside it.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from brickyard.domain.decoding import converter
from brickyard.domain.runtimes import RuntimeManifest, is_photon
from brickyard.runtime import NODE_CODE
from brickyard.runtime.catalogue import DATA
from brickyard.runtime.installed import installed, runtime_home
from brickyard.runtime.maven import artifact
from brickyard.runtime.node.jvm.layers import PHOTON, USUAL, wanted
from brickyard.runtime.sparkclasses import classes_path

KIND = "layers"  # of its lock; its directory in the runtime's home
NEEDED = "needed-layers"  # of the lock of those that a node waits for: they wait for no others
AGAIN_MS = 600_000  # after an installation that failed, as without a network


class Layer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a layer is in one environment. `jars`: pairs of coordinates and SHA-256; `python`: a pip requirement with its hash, or
    ""; `native`: a library within the JARs that is unpacked beside them, or ""; `sources`: the directories of our sources that
    are compiled with its JARs."""

    name: str
    title: str
    jars: tuple[tuple[str, str], ...]
    python: str = ""
    native: str = ""
    sources: tuple[str, ...] = ()

    def directory(self, home: Path) -> Path:
        """Its directory in a runtime's home, whether it is there or not."""
        return home / KIND / f"{self.name}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]}"

    def paths(self, home: Path) -> tuple[str, ...]:
        """The paths of its JARs in the order of the declaration, and then that of our classes."""
        classes = (str(self.classes(home)),) if self.sources else ()
        return (*self.jars_in(self.directory(home)), *classes)

    def jars_in(self, directory: Path) -> tuple[str, ...]:
        """The paths of its JARs in a directory."""
        return tuple(str(directory / artifact(coordinates).jar) for coordinates, _ in self.jars)

    def classes(self, home: Path) -> Path:
        """The JAR of our classes that need it. It is named after this version's sources: another version has another JAR."""
        return self.directory(home) / f"classes-{Path(classes_path(str(home), NODE_CODE)).name}"

    def is_whole(self, home: Path) -> bool:
        """Whether it is installed, with what this version of Brickyard compiles for it."""
        return self.directory(home).is_dir() and (not self.sources or self.classes(home).is_file())


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last installation of a layer failed."""

    message: str
    at_ms: int


_decode_failure = msgspec.json.Decoder(Failure).decode


class _Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`set`: the name of a set of JARs that come after its own, or ""."""

    jars: tuple[tuple[str, str], ...]
    set: str = ""
    python: str = ""
    native: str = ""
    sources: tuple[str, ...] = ()


class _Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`sets`: JARs by a name, with which environments share them."""

    title: str
    environments: dict[str, _Environment]
    sets: dict[str, tuple[tuple[str, str], ...]] = {}


_convert = converter(dict[str, _Declared])


@functools.cache
def declared() -> Mapping[str, Mapping[str, Layer]]:
    """Returns environment -> name -> layer."""
    document = _convert(tomllib.loads((DATA / "layers.toml").read_text()))
    found: dict[str, dict[str, Layer]] = {}
    for name, layer in document.items():
        for environment, parts in layer.environments.items():
            jars = parts.jars + (layer.sets[parts.set] if parts.set else ())
            found.setdefault(environment, {})[name] = Layer(name, layer.title, jars, parts.python, parts.native, parts.sources)
    return found


def layers_of(environment: str, names: Sequence[str] = USUAL) -> list[Layer]:
    """Returns those of the named layers that the environment can have."""
    known = declared().get(environment, {})
    return [known[name] for name in names if name in known]


def with_layers(manifest: RuntimeManifest, key: str) -> RuntimeManifest:
    """Returns the manifest with the layers that are installed now, of those that clusters of the runtime with that key load."""
    home, known = Path(manifest.home), declared().get(manifest.environment, {})
    loaded = {name: layer for name, layer in known.items() if is_photon(key) or name not in PHOTON}
    found = {name: layer.paths(home) for name, layer in loaded.items() if layer.is_whole(home)}
    return msgspec.structs.replace(manifest, layers=found)


def sites_of(manifest: RuntimeManifest) -> list[Path]:
    """Returns where nodes find the layers' Python packages, whether they are there or not."""
    home, known = Path(manifest.home), declared().get(manifest.environment, {})
    return [layer.directory(home) / "site" for layer in known.values() if layer.python]


def missing(environment: str, cache_dir: Path, names: Sequence[str] = USUAL) -> list[Layer]:
    """Returns the named layers that an installed runtime lacks."""
    home = runtime_home(environment, cache_dir)
    lacking = [layer for layer in layers_of(environment, names) if not layer.is_whole(home)]
    return lacking if lacking and installed(environment, cache_dir) is not None else []


def needed(manifest: RuntimeManifest, key: str, conf: Mapping[str, str]) -> list[str]:
    """Returns the layers that a node lacks and waits for: Photon's, if the runtime's key asks for it, and those that its
    cluster's conf names, of what the runtime can have. The usual ones come by themselves."""
    names = [*(PHOTON if is_photon(key) else ()), *(name for name in wanted(conf) if name not in (*USUAL, *PHOTON))]
    return [layer.name for layer in layers_of(manifest.environment, names) if layer.name not in manifest.layers]


def last_failure(layer: Layer, environment: str, cache_dir: Path) -> Failure | None:
    """Returns why the layer's last installation failed, if it did."""
    try:
        return _decode_failure(failure_file(runtime_home(environment, cache_dir), layer).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def due(environment: str, cache_dir: Path, *, now_ms: int) -> bool:
    """Whether a layer is to be installed now: one that failed a short time ago has to wait."""
    failures = (last_failure(layer, environment, cache_dir) for layer in missing(environment, cache_dir))
    return any(failure is None or not 0 <= now_ms - failure.at_ms < AGAIN_MS for failure in failures)


def failure_file(home: Path, layer: Layer) -> Path:
    """Returns the file that says why the layer's last installation failed."""
    return home / KIND / f"{layer.name}.failure.json"
