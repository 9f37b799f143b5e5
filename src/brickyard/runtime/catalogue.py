"""The available runtimes, from `data/runtimes.toml`."""

from __future__ import annotations

import difflib
import functools
import tomllib
from pathlib import Path

import msgspec

from brickyard.domain.runtimes import Runtime, photon_key
from brickyard.runtime.node.jvm.layers import PHOTON

DATA = Path(__file__).parent / "data"


@functools.cache
def rows() -> tuple[Runtime, ...]:
    """Returns every runtime, oldest first."""
    document = tomllib.loads((DATA / "runtimes.toml").read_text())
    layers = tomllib.loads((DATA / "layers.toml").read_text())
    found = []
    for row in document["runtime"]:
        environment = document["environments"][row["environment"]]
        suitable = tuple(name for name, layer in layers.items() if row["environment"] in layer["environments"])
        spark, scala = environment["spark_version"], environment["scala_version"]
        runtime = Runtime(
            key=row["key"],
            name=f"{row['label']} (includes Apache Spark {spark}, Scala {scala})",
            spark_version=spark,
            scala_version=scala,
            python=environment["python"],
            java=tuple(environment["java"]),
            lts=row.get("lts", False),
            connect=environment.get("connect", ""),
            iceberg=environment.get("iceberg", ""),
            environment=row["environment"],
            layers=tuple(name for name in suitable if name not in PHOTON),
        )
        found.append(runtime)
        if row.get("photon", False):
            name = f"{row['label']} Photon (includes Apache Spark {spark}, Scala {scala})"
            found.append(msgspec.structs.replace(runtime, key=photon_key(runtime.key), name=name, layers=suitable))
    return tuple(found)


def find(key: str) -> Runtime | None:
    """Returns the runtime with that key, or None."""
    return next((runtime for runtime in rows() if runtime.key == key), None)


def unknown(key: str) -> str:
    """Returns the error message for an unknown runtime key."""
    keys = [row.key for row in rows()]
    near = [each for each in keys if each.startswith(key)] if key else []
    near = near or difflib.get_close_matches(key, keys, 1, 0.8)
    meant = f" Did you mean {near[-1]}?" if near else ""
    return f"there is no runtime {key!r}.{meant} Use one of: {', '.join(keys)}."


def default() -> Runtime:
    """Returns the newest LTS runtime on Spark 4."""
    plain = (runtime for runtime in reversed(rows()) if not runtime.photon)
    return next(runtime for runtime in plain if runtime.lts and runtime.spark_version.startswith("4."))
