"""Which layers of the runtime a driver's JVM has on its class path (`brickyard/runtime/layers.py` installs them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..documents import ManifestDocument

SETTING = "spark.brickyard.layers"  # names with commas between them, in the place of the usual ones
USUAL = ("delta",)  # those that every runtime gets which can have them, and every cluster which says nothing else
ICEBERG = "iceberg"  # on Spark 3.5 a part of the runtime
PHOTON = ("comet",)  # the manifest has it only where the runtime's key asks for it, and then the cluster cannot do without
NATIVE = "native"  # beside a layer's JARs: libraries
_LIBRARY_PATH = ("/usr/java/packages/lib", "/usr/lib64", "/lib64", "/lib", "/usr/lib")  # Java's own
# Where a cluster's conf brings its own JARs of the same classes, those count: the class path's would come before them.
_BRINGS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_MARKS = {
    "delta": ("io.delta:", "delta-core_", "delta-spark_"),
    ICEBERG: ("org.apache.iceberg:", "iceberg-spark-runtime"),
}


def names(manifest: ManifestDocument, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the layers of a cluster with that conf, of those that are installed."""
    brought = " ".join(conf.get(key, "") for key in _BRINGS)
    return tuple(
        name
        for name in dict.fromkeys((*wanted(conf), *PHOTON))
        if name in _installed(manifest) and not any(mark in brought for mark in _MARKS.get(name, ()))
    )


def wanted(conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the layers that a conf asks for, whether they are installed or not."""
    asked = conf.get(SETTING)
    return USUAL if asked is None else tuple(dict.fromkeys(filter(None, (each.strip() for each in asked.split(",")))))


def jars(manifest: ManifestDocument, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns their JARs, in the order in which they are on the class path."""
    return tuple(jar for name in names(manifest, conf) for jar in _installed(manifest)[name])


def has_photon(manifest: ManifestDocument) -> bool:
    """Whether the cluster has the native engine."""
    return any(name in _installed(manifest) for name in PHOTON)


def library_flags(jars: Sequence[str]) -> tuple[str, ...]:
    """Returns what a JVM with those JARs is told of the libraries that were unpacked beside them. A JVM that finds none unpacks
    its own into a directory that users' code can write to."""
    found = dict.fromkeys(str(place) for jar in jars if (place := Path(jar).parent / NATIVE).is_dir())
    return (f"-Djava.library.path={':'.join([*found, *_LIBRARY_PATH])}",) if found else ()


def lacking(manifest: ManifestDocument, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the layers that a conf names and the runtime lacks."""
    there = (*_installed(manifest), *((ICEBERG,) if manifest.get("has_iceberg") else ()))
    return tuple(name for name in wanted(conf) if name not in there) if SETTING in conf else ()


def _installed(manifest: ManifestDocument) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(found) for name, found in (manifest.get("layers") or {}).items()}
