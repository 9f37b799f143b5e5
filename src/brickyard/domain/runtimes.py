"""Spark runtimes: what a runtime key means, and what an installed runtime looks like on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

_SESSIONS_SINCE = 4  # major version of Spark


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the catalogue. `key` and `name` as Databricks writes them; the versions are what we install for them."""

    key: str  # 17.3.x-scala2.13
    name: str  # 17.3 LTS (includes Apache Spark 4.0.0, Scala 2.13)
    spark_version: str  # 4.0.5, the version that is really installed
    scala_version: str  # 2.13
    python: str  # version specifier of the interpreters that suit, e.g. >=3.9,<3.12
    java: tuple[int, ...]  # major versions that suit, best first
    lts: bool = False
    environment: str = ""  # name of the locked requirements: keys may share one environment

    @property
    def isolates_users(self) -> bool:
        """Whether its Spark Connect server lets sessions be made, kept and ended from within, for contexts: Spark 4."""
        return int(self.spark_version.partition(".")[0]) >= _SESSIONS_SINCE


class RuntimeManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`runtime.json` at the root of an installed runtime: everything the node needs to start Spark from it.

    All paths are absolute. It is written last, with a rename: a directory without it is not a runtime.
    An archive path is "" where none could be made; then the JVM starts without one.
    """

    environment: str
    spark_version: str
    scala_version: str
    home: str  # the root: all of the runtime's files are below it, except possibly Java's and Python's own
    python: str  # the interpreter of the runtime's virtual environment
    python_version: str
    python_base: str  # prefix of the base interpreter: the sandbox must show it, read-only
    spark_home: str
    java_home: str  # the one that JVMs are started with (a shim's, where one is needed)
    java_real: str  # the real Java below it: the sandbox must show it, read-only
    java_version: str
    node_archive: str = ""  # class-data archive of the JVM that becomes driver, master or worker
    executor_archive: str = ""
    has_connect: bool = False  # Spark Connect's server is on the class path
    connect_missing: str = ""  # why it is not, a clause without a full stop
    classes: str = ""  # JAR of our own classes for Spark; not in runtime.json, since it changes with us: see `classes_path`
    installed_ms: int = 0


def classes_path(home: str, sources: Iterable[bytes]) -> str:
    """Where a runtime keeps our own classes for Spark, compiled from these sources: installed by an older or newer version of us,
    it lacks them until they are compiled for it."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(hashlib.sha256(source).digest())
    return f"{home}/classes/{digest.hexdigest()[:16]}.jar"
