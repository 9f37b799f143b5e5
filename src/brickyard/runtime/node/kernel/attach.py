"""Attaches another Python process, such as a kernel, to the driver's running SparkContext."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .strangers import bound_accumulators

EXECUTORS = "spark.executorEnv."
# Settings whose values open the cluster's ports. Code here can reach them through the JVM; it does not print them by accident.
SECRETS = ("spark.authenticate.secret", "spark.connect.authenticate.token", "spark.brickyard.connect.token")
REDACTED = "*********(redacted)"  # as Spark writes it


def reach() -> Any:
    """Returns a connection to the JVM that PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET name. It may have no driver yet."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    refuse_stop(SparkContext, SparkSession)  # first: a SparkContext that fails while it is being made stops the one it joins
    bound_accumulators()
    leave_numpy_out()
    return launch_gateway()


def attach(gateway: Any = None) -> Any:
    """Returns a SparkSession on the driver's JVM. `gateway`: what `reach` has returned, if that was called before.

    The session belongs to this process: others do not see its temporary views and SQL settings. Leaving does not stop Spark.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = gateway if gateway is not None else reach()
    jvm = gateway.jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    context = SparkContext(gateway=gateway, jsc=jsc, conf=few_settings(jsc.getConf()))
    share_files(SparkSession)
    redact_conf(SparkContext)
    forget_failed_files(SparkContext)
    return SparkSession(context).newSession()


def share_files(sessions: Any) -> None:
    """Has new sessions use the SparkContext's files. Otherwise their functions on executors get only what Spark Connect adds to a
    session: no jar or file that came after Spark's start. What Connect's sessions have stays theirs (SessionFiles.java).
    They also get the workspace's names of its catalog (java/CatalogNames.java)."""
    new = sessions.newSession

    @functools.wraps(new)
    def new_session(self: Any) -> Any:
        session = new(self)
        session.conf.set("spark.sql.artifact.isolation.enabled", "false")
        session._jvm.brickyard.SessionOwner.name(session._jsparkSession)
        return session

    sessions.newSession = new_session


def forget_failed_files(contexts: Any) -> None:
    """Has a file that Spark refuses, such as another one of the same name, leave nothing behind. Spark would go on to send it
    with every job of the cluster, and each would fail."""
    for name, kind in (("addFile", "addedFiles"), ("addArchive", "addedArchives")):
        setattr(contexts, name, _forgetting(getattr(contexts, name), kind))


def _forgetting(add: Any, kind: str) -> Any:
    @functools.wraps(add)
    def guarded(self: Any, path: str, *args: Any, **options: Any) -> Any:
        before = _shared(self, kind)[1]
        try:
            return add(self, path, *args, **options)
        except Exception:
            files, after = _shared(self, kind)
            end = "/" + path.rpartition("/")[2]
            for key in after - before:
                if key.endswith(end):  # others may have added theirs meanwhile
                    files.remove(key)
            raise

    return guarded


def _shared(context: Any, kind: str) -> tuple[Any, set[str]]:
    """Returns the SparkContext's files of a kind, which no session has for itself, and their names."""
    files = getattr(context._jsc.sc(), kind)().get("default")
    if not files.isDefined():
        return None, set()
    return files.get(), set(str(files.get().keys().mkString("\n")).splitlines())


def redact_conf(contexts: Any) -> None:
    """Has `sc.getConf()` hide the cluster's own secrets, as Spark's UI does."""
    get = contexts.getConf

    @functools.wraps(get)
    def get_conf(self: Any) -> Any:
        conf = get(self)
        for key in SECRETS:
            if conf.contains(key):
                conf.set(key, REDACTED)
        return conf

    contexts.getConf = get_conf


def few_settings(jconf: Any) -> Any:
    """Returns a SparkConf for PySpark to join a SparkContext with. All that it looks for among all settings are variables of
    executors, and it would ask the JVM three times for each setting."""
    from pyspark import SparkConf

    class Settings(SparkConf):  # type: ignore[misc] # PySpark is in runtimes only
        def getAll(self) -> list[tuple[str, str]]:
            found = [(str(each._1()), str(each._2())) for each in jconf.getAllWithPrefix(EXECUTORS)]
            return [(EXECUTORS + name, value) for name, value in found]

    return Settings(_jconf=jconf)


def leave_numpy_out() -> None:
    """Has Py4J recognise values of NumPy without an import. PySpark 4 imports its test tools for that, and with them pandas: half
    a second, and 50 MiB, at the first call that takes a list. What is not imported has no values."""
    from pyspark.sql import types

    def array(_self: Any, value: Any) -> bool:
        kind = getattr(sys.modules.get("numpy"), "ndarray", ())
        return isinstance(value, kind) and value.ndim == 1

    def scalar(_self: Any, value: Any) -> bool:
        return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))

    types.NumpyArrayConverter.can_convert = array
    types.NumpyScalarConverter.can_convert = scalar


def refuse_stop(*classes: Any) -> None:
    """Makes `stop()` do nothing, because the SparkContext belongs to the whole cluster: scripts that end with `spark.stop()`
    go on."""

    def stop(_self: Any) -> None:
        print("stop() was ignored: Spark runs as long as the cluster. Terminate the cluster to stop it.", file=sys.stderr)

    for each in classes:
        each.stop = stop
