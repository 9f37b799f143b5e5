"""How a node's JVM is started: pure functions from (manifest, assignment) to options, and from options to a command line.

Two JVMs with equal `JvmOptions` are interchangeable: this tells `become` whether it can use the JVM that `prepare` started. The
command line never contains a secret.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import login
from .archives import archive_flags, major
from .layers import library_flags

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument

WORKER, SINGLE = "worker", "single"
WORKER_HEAP_MB = 512  # a worker hands out work; its executors have their own JVMs
DRIVER_SHARE = 0.6
MINIMUM_HEAP_MB = 384
FRUGAL_HEAP_MB = 32
START_HEAP_MB = 256  # enough to start Spark with almost no garbage collection
YOUNG_MB = 96

GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
SUBMIT = "org.apache.spark.deploy.SparkSubmit"

# The packages that Spark opens for itself (org.apache.spark.launcher.JavaModuleOptions), for 3.4 to 4.x combined.
_OPENS = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io", "java.base/java.net",
    "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref", "java.base/sun.nio.ch", "java.base/sun.nio.cs", "java.base/sun.security.action",
    "java.base/sun.util.calendar", "java.security.jgss/sun.security.krb5",
)  # fmt: skip

# These need SparkSubmit, which resolves them and puts them on the driver's class loader before the driver starts.
SUBMIT_CONF = (
    "spark.jars", "spark.jars.packages", "spark.jars.excludes", "spark.jars.ivy", "spark.jars.ivySettings",
    "spark.jars.repositories", "spark.files", "spark.archives", "spark.submit.pyFiles",
)  # fmt: skip

# Variables that say where this node's own things are: other values would break the node, so the user's are ignored.
OWN_VARIABLES = frozenset(
    {
        "SPARK_HOME", "JAVA_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS", "SPARK_LOCAL_DIRS",
        "SPARK_EXECUTOR_DIRS", "SPARK_WORKER_DIR", "SPARK_MASTER_HOST", "SPARK_USER", "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_PIN_THREAD", "BRICKYARD_INSTANCE_ID", "CLASSPATH",
    }
)  # fmt: skip
_INTERPRETERS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
# What init scripts put into /databricks, in the node's directory (agent/steps/begin.py makes it, sandbox/view.py shows it).
JARS, DRIVER_CONF = "databricks/jars", "databricks/driver/conf"
SEEN_JARS = "/databricks/jars"  # where the node sees it
ENVIRONMENT = "python"  # the node's Python environment in its directory; made by the agent

_UNITS_MB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "p": 1024**3}


# The second compiler waits for methods to run twenty times as often as by default, and for loops to turn five times as often.
# Most of what it would compile while Spark starts and answers its first query does not run afterwards, and on a small machine
# it takes a third of all CPU time until then. What a job does for every row is compiled within 200,000 rows.
PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=200000",
)


# Java collects the whole heap when its classes first take more than 21 MiB, and those of Spark take more before the first query.
ROOM_FOR_CLASSES = "-XX:MetaspaceSize=192m"

# Where users are kept apart, documents that they have Spark read (schemas of XML) name no other files.
NO_ENTITIES = ("-Djavax.xml.accessExternalDTD=", "-Djavax.xml.accessExternalSchema=")


class LaunchError(Exception):
    """The cluster's settings give no valid JVM; the message names the setting."""


class JvmOptions(NamedTuple):
    """Everything about a JVM that is fixed once it runs."""

    heap_mb: int
    worker: bool = False  # it will only ever be a worker: optimised for a quick start, not for long runs
    java_options: tuple[str, ...] = ()
    class_path: tuple[str, ...] = ()  # before Spark's own
    env: tuple[tuple[str, str], ...] = ()  # the user's variables, sorted
    submit_conf: tuple[tuple[str, str], ...] = ()  # sorted; if not empty, the JVM starts through SparkSubmit
    frugal: bool = False  # it may wait long for its role, and should return unused memory meanwhile
    layers: tuple[str, ...] = ()  # JARs of the runtime's layers, after Spark's own and ours


def size_mb(text: str) -> int | None:
    """Parses a size in Spark's notation ("4g", "512m", "1024": MiB) and returns MiB, or None if it is invalid."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)b?\s*", text.lower())
    return max(1, int(int(match.group(1)) * _UNITS_MB[match.group(2) or "m"])) if match else None


def prepared_options(
    heap_mb: int,
    java_options: list[str],
    env: Mapping[str, str],
    role: str = "",
    *,
    frugal: bool = False,
    layers: Sequence[str] = (),
) -> JvmOptions:
    """Returns the options of a JVM that starts before its assignment is known. `layers`: the JARs that drivers usually have."""
    worker = role == WORKER
    return JvmOptions(
        heap_mb=heap_mb, worker=worker, java_options=tuple(java_options), env=user_env(env), frugal=frugal,
        layers=() if worker else tuple(layers),
    )  # fmt: skip


def wanted_options(
    assignment: AssignmentDocument, prepared: JvmOptions | None, *, layers: Sequence[str] = (), photon: bool = False
) -> JvmOptions:
    """Returns the options that an assignment needs. Options that it leaves open stay as prepared. `layers`: the JARs of a
    driver's; `photon`: whether the cluster has the native engine. Raises LaunchError."""
    conf: Mapping[str, str] = assignment.get("spark_conf") or {}
    env = user_env(assignment.get("spark_env_vars") or {})
    if assignment["role"] == WORKER:
        if prepared is None:
            return JvmOptions(heap_mb=WORKER_HEAP_MB, worker=True, env=env)
        return JvmOptions(
            heap_mb=prepared.heap_mb, worker=prepared.worker, env=env, frugal=prepared.frugal, layers=prepared.layers
        )
    return JvmOptions(
        heap_mb=_driver_heap(conf, assignment, prepared, photon=photon),
        java_options=_driver_java_options(conf),
        class_path=tuple(part for part in conf.get("spark.driver.extraClassPath", "").split(":") if part),
        env=env,
        submit_conf=tuple(sorted((key, value) for key, value in conf.items() if key in SUBMIT_CONF and value)),
        frugal=prepared is not None and prepared.frugal,
        layers=tuple(layers),
    )


def difference(prepared: JvmOptions, wanted: JvmOptions) -> str:
    """Returns why a JVM with `prepared` options cannot replace one with `wanted` options, for users, or "" if it can."""
    if prepared.submit_conf != wanted.submit_conf:
        names = " and ".join(key for key, _ in wanted.submit_conf)
        return f"{names} must be resolved before the driver's JVM starts"
    if prepared.heap_mb != wanted.heap_mb:
        return f"the warm JVM's heap has {prepared.heap_mb} MiB, and spark.driver.memory asks for {wanted.heap_mb} MiB"
    if prepared.class_path != wanted.class_path:
        return "spark.driver.extraClassPath changes the class path, which a running JVM keeps"
    if prepared.java_options != wanted.java_options:
        return "spark.driver.defaultJavaOptions and spark.driver.extraJavaOptions count only when a JVM starts"
    if prepared.env != wanted.env:
        names = ", ".join(sorted({key for key, _ in set(prepared.env) ^ set(wanted.env)}))
        return f"a running JVM does not see new environment variables ({names})"
    other = "other layers of the runtime" if prepared.layers != wanted.layers else "another role"
    return "" if prepared == wanted else f"the warm JVM was started for {other}"


def driver_share(*, photon: bool, single: bool) -> float:
    """Returns the heap's share in a driver's node. Where the native engine runs in the driver's own JVM, it has as much."""
    return DRIVER_SHARE / 2 if photon and single else DRIVER_SHARE


def _driver_heap(conf: Mapping[str, str], assignment: AssignmentDocument, prepared: JvmOptions | None, *, photon: bool) -> int:
    asked = conf.get("spark.driver.memory", "")
    if asked:
        size = size_mb(asked)
        if size is None:
            raise LaunchError(f'spark.driver.memory is "{asked}", which is not a size. Write it like 4g or 512m.')
        return size
    halved = photon and assignment["role"] == SINGLE
    if prepared and not halved:
        return prepared.heap_mb
    return max(MINIMUM_HEAP_MB, int(assignment["memory_mb"] * driver_share(photon=photon, single=halved)))


def _driver_java_options(conf: Mapping[str, str]) -> tuple[str, ...]:
    options: list[str] = []
    for name in ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"):
        try:
            options += shlex.split(conf.get(name, ""))
        except ValueError as error:
            raise LaunchError(f"{name} cannot be read: {error}.") from error
        if any(option.startswith("-Xmx") for option in options):
            raise LaunchError(
                f"{name} sets the heap's size with -Xmx, which Spark does not allow. Use spark.driver.memory instead."
            )
    return tuple(options)


def user_env(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the user's variables without the node's own, and without interpreters that do not exist here: many clusters name
    one of another platform (/databricks/python3/bin/python3)."""
    kept = {key: value for key, value in env.items() if key not in OWN_VARIABLES}
    for name in _INTERPRETERS:
        if name in kept and not Path(kept[name]).is_file():
            del kept[name]
    return tuple(sorted(kept.items()))


def python(manifest: ManifestDocument, node_dir: Path) -> str:
    """Returns the interpreter for users' code: that of the node's Python environment, or the runtime's where there is none, as
    while a runtime is installed."""
    own = node_dir / ENVIRONMENT / "bin" / "python"
    return str(own) if own.exists() else manifest["python"]


def environment(
    manifest: ManifestDocument, options: JvmOptions, base: Mapping[str, str], *, host: str, node_dir: Path
) -> dict[str, str]:
    """Returns the JVM's whole environment; executors and Python workers inherit it."""
    env = {key: value for key, value in base.items() if key not in ("PYTHONPATH", "PYTHONHOME", "SPARK_CONF_DIR", "CLASSPATH")}
    interpreter = python(manifest, node_dir)
    env.update(dict.fromkeys(_INTERPRETERS, interpreter))
    env.update(dict(options.env))
    if interpreter != manifest["python"]:
        # Spark sends the interpreter's name from the driver to all nodes. Each has its own environment, and finds it on its PATH.
        env.update({name: "python" for name in _INTERPRETERS if env[name] == interpreter})
        env.update(
            VIRTUAL_ENV=str(node_dir / ENVIRONMENT), PATH=f"{node_dir / ENVIRONMENT / 'bin'}:{env.get('PATH', os.defpath)}"
        )
    env.update(
        SPARK_HOME=manifest["spark_home"],
        JAVA_HOME=manifest["java_home"],
        SPARK_LOCAL_IP=host,  # no name look-ups; every port binds to this address
        SPARK_LOCAL_HOSTNAME=host,
        SPARK_PUBLIC_DNS=host,
        SPARK_SCALA_VERSION=manifest["scala_version"],  # otherwise the worker's launcher looks for a source tree
        SPARK_USER=base.get("USER") or "spark",
        PYSPARK_PIN_THREAD="true",
    )
    return env


def command(manifest: ManifestDocument, options: JvmOptions, *, node_dir: Path, archive: str, properties: str = "") -> list[str]:
    """Returns the JVM's command line. `archive`: archive or cache to use ("": none); `properties`: the file with SparkSubmit's
    settings, if the JVM starts through SparkSubmit."""
    return [
        f"{manifest['java_home']}/bin/java",
        *_heap_flags(options),
        *_start_flags(options, archive),
        *module_flags(manifest["java_version"]),
        f"-Dlog4j2.configurationFile={log4j_file(node_dir).as_uri()}",  # as a path, it would have to be ASCII
        "-Dlog4j2.disable.jmx=true",
        f"-Djava.io.tmpdir={node_dir / 'tmp'}",
        f"-Duser.home={node_dir}/home",
        *options.java_options,
        *library_flags(options.layers),
        "-cp",
        class_path(manifest, options, added=added_by_scripts(node_dir, driver=not options.worker)),
        *login.words(manifest),
        *((SUBMIT, "--properties-file", properties, "pyspark-shell") if properties else (GATEWAY,)),
    ]


def archive_of(manifest: ManifestDocument, options: JvmOptions) -> str:
    """Returns the archive or cache for such a JVM, or "" if none can suit: the user names his own, or jars before Spark's."""
    own = any(re.search("SharedArchiveFile|ArchiveClassesAtExit|-XX:AOT", option) for option in options.java_options)
    if own or options.class_path:
        return ""
    return (options.worker and manifest.get("worker_archive")) or manifest.get("node_archive", "")


def driver_conf_dir(node_dir: Path) -> Path:
    """Returns where init scripts put files for the driver."""
    return node_dir / DRIVER_CONF


def added_by_scripts(node_dir: Path, *, driver: bool) -> tuple[str, ...]:
    """Returns what init scripts have added to the class path: the JARs of /databricks/jars, and for a driver its conf."""
    added = [f"{node_dir / JARS}/*"] if any((node_dir / JARS).glob("*.[jJ][aA][rR]")) else []
    conf = driver_conf_dir(node_dir)
    return (*added, *([f"{conf}/"] if driver and any(conf.glob("*")) else []))


def class_path(manifest: ManifestDocument, options: JvmOptions, *, added: tuple[str, ...] = ()) -> str:
    """Returns the class path: always the same string for the same runtime, and without directories, because archives depend on
    both. The user's JARs come first, and then nothing of Spark's is rewritten. Archives are made without our own classes and the
    runtime's layers, which come last: additions after an archive's class path do not affect it."""
    first = options.class_path or filter(None, [manifest.get("rewritten")])
    last = manifest.get("classes") or login.classes(manifest)
    return ":".join([*first, f"{manifest['spark_home']}/jars/*", *filter(None, [last]), *options.layers, *added])


def module_flags(java_version: str) -> list[str]:
    """Returns flags that let Spark into Java's modules without warnings on stderr."""
    version = major(java_version)
    return [
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        *(("--enable-native-access=ALL-UNNAMED",) if version >= 22 else ()),
        *(("--sun-misc-unsafe-memory-access=allow",) if version >= 23 else ()),
    ]


def _heap_flags(options: JvmOptions) -> list[str]:
    if options.frugal:  # it has plenty of time to start, and this collector returns memory
        free = ["-XX:MinHeapFreeRatio=1", "-XX:MaxHeapFreeRatio=5"]
        return [f"-Xmx{options.heap_mb}m", f"-Xms{FRUGAL_HEAP_MB}m", "-XX:+UseG1GC", *free]
    start = min(options.heap_mb, START_HEAP_MB)
    flags = [f"-Xmx{options.heap_mb}m"]
    if not any(option.startswith("-Xms") for option in options.java_options):
        flags.append(f"-Xms{start}m")
    if not any(re.match(r"-XX:\+Use\w+GC$", option) for option in options.java_options):
        # Two collectors on one command line are an error, so ours yields to the user's. Parallel starts faster than G1.
        flags.append("-XX:+UseSerialGC" if options.worker else "-XX:+UseParallelGC")
        flags.append(f"-XX:NewSize={min(YOUNG_MB, start // 2)}m")
    return flags


def _start_flags(options: JvmOptions, archive: str) -> list[str]:
    flags = ["-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError", "-Djava.security.egd=file:/dev/urandom"]
    flags += ("-XX:TieredStopAtLevel=1",) if options.worker else (*PATIENT_COMPILER, ROOM_FOR_CLASSES)
    return [*flags, *(archive_flags(archive) if archive else ())]


def properties_text(settings: Mapping[str, str]) -> str:
    """Formats settings as a Java properties file."""

    def escape(text: str, special: str) -> str:
        lines = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
        return "".join("\\" + character if character in special else character for character in lines)

    return "".join(f"{escape(key, ':= #!')}={escape(value, ' ')}\n" for key, value in settings.items())


# What a JVM logs, among the node's logs; Databricks' name. A full file gets the next number, which it keeps.
LOG = "log4j-active.log"
KEPT_LOGS = 3  # full files


def log4j_file(node_dir: Path) -> Path:
    return node_dir / "conf" / "log4j2.properties"


def log4j_text(log_file: Path, *, size: str = "32MB") -> str:
    """Returns the JVM's logging configuration: INFO into one file, which becomes another one when it is full. Log4j reads it as
    Latin-1, so it is ASCII, with Java's escapes."""
    rolled = log_file.name.removesuffix(".log").removesuffix("-active")
    text = f"""status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.filePattern = {log_file.parent}/{rolled}-%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {size}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.fileIndex = nomax
appender.file.strategy.action.type = Delete
appender.file.strategy.action.basePath = {log_file.parent}
appender.file.strategy.action.maxDepth = 1
appender.file.strategy.action.name.type = IfFileName
appender.file.strategy.action.name.regex = {rolled}-[0-9]+[.]log
appender.file.strategy.action.name.count.type = IfAccumulatedFileCount
appender.file.strategy.action.name.count.exceeds = {KEPT_LOGS}
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.repl.name = {GATEWAY}
logger.repl.level = info
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = warn
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
    return "".join(character if character.isascii() else _java_escape(character) for character in text)


def _java_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
