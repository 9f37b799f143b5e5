"""Spark runtimes: the catalogue entry of a runtime key, and the layout of an installed runtime on disk."""

from __future__ import annotations

import msgspec

_SESSIONS_SINCE = 4  # major version of Spark
_PHOTON, _SCALA = "-photon-", "-scala"


def is_photon(key: str) -> bool:
    """Whether a runtime's key names the native engine: 18.0.x-photon-scala2.13."""
    return _PHOTON in key


def photon_key(key: str) -> str:
    """Returns the key of the same runtime with the native engine, whether there is one or not."""
    return key if is_photon(key) else key.replace(_SCALA, f"{_PHOTON}{_SCALA[1:]}", 1)


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the catalogue. `key` and `name` are as Databricks writes them; the versions are what we install for them."""

    key: str  # 17.3.x-scala2.13
    name: str  # 17.3 LTS (includes Apache Spark 4.0.0, Scala 2.13)
    spark_version: str  # 4.0.5, the version that is actually installed
    scala_version: str  # 2.13
    python: str  # version specifier of suitable interpreters, e.g. >=3.9,<3.12
    java: tuple[int, ...]  # suitable major versions, best first
    lts: bool = False
    connect: str = ""  # version of the Spark Connect server that is added, where Spark itself has none; "": `spark_version`
    iceberg: str = ""  # version of Iceberg that suits; "": it cannot be had for this Spark, or was not tested
    environment: str = ""  # name of the locked requirements: several keys may share one environment
    layers: tuple[str, ...] = ()  # names of those that its clusters may ask for

    @property
    def photon(self) -> bool:
        """Whether its clusters have the native engine."""
        return is_photon(self.key)

    @property
    def isolates_users(self) -> bool:
        """Whether its Spark Connect server can create, keep and end sessions from within, for contexts: Spark 4 can."""
        return int(self.spark_version.partition(".")[0]) >= _SESSIONS_SINCE


class RuntimeManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`runtime.json` at the root of an installed runtime: everything that a node needs to start Spark from it.

    All paths are absolute. The file is written last, with a rename: a directory without it is not a runtime.
    An archive path is "" if the archive could not be made; the JVM then starts without one. What Java 25 has in its place is a
    cache; both serve one Java, with one class path.
    """

    environment: str
    spark_version: str
    scala_version: str
    home: str  # the root: contains all files of the runtime, except possibly Java and Python themselves
    python: str  # the interpreter of the runtime's virtual environment
    python_version: str
    python_base: str  # prefix of the base interpreter: the sandbox must expose it, read-only
    spark_home: str
    java_home: str  # the one that JVMs start with (a shim's, where one is needed)
    java_real: str  # the real Java behind it: the sandbox must expose it, read-only
    java_version: str
    node_archive: str = ""  # class-data archive or AOT cache of the JVM that becomes driver, master or worker
    worker_archive: str = ""  # of one that will only ever be a worker; "": `node_archive`
    executor_archive: str = ""
    rewritten: str = ""  # JAR of Spark's classes, written anew for the archives; first on the class path of the JVMs that use one
    trained_with: str = ""  # JAR of our classes that archives were made with, for a user without a name; they fit no other
    has_connect: bool = False  # the Spark Connect server is on the class path
    connect_missing: str = ""  # why it is not: a clause without a full stop
    has_iceberg: bool = False  # Iceberg's JAR is on the class path
    iceberg_missing: str = ""  # why it is not, if it was looked for: a clause without a full stop
    classes: str = ""  # JAR of our classes for Spark; not in runtime.json, since it changes with us (runtime/sparkclasses.py)
    layers: dict[str, tuple[str, ...]] = {}  # name -> JARs of those installed; not in runtime.json (runtime/layers.py)
    installed_ms: int = 0
