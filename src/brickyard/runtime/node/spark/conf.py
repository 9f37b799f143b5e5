"""A node's Spark configuration: which settings are ours, which are defaults, and which the user decides. Pure.

* OWN settings say where the cluster's parts are and who may talk to them. The user's values are ignored, with a note.
* DEFAULTS apply where the cluster's conf sets nothing.
* MERGED settings combine the user's values with ours: Java options of the executors, filters of the web UI, interceptors of
  Spark 3's Connect server, extensions of the runtime's layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..jvm import layers, login
from ..jvm.archives import archive_flags
from ..jvm.launch import PATIENT_COMPILER, ROOM_FOR_CLASSES, SEEN_JARS, SUBMIT_CONF, user_env
from . import apart, photon, resources, tuning
from . import layers as layersettings
from .clients import CLIENTS
from .place import Place
from .redaction import redact
from .sizes import check_size, cluster_cores, executor_memory_mb, worker_size

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument

JWS_FILTER = "org.apache.spark.ui.JWSFilter"
INTERCEPTORS = "spark.connect.grpc.interceptor.classes"
SECRET = "spark.authenticate.secret"  # noqa: S105 - the setting's name
GUARD_CLASS, APART_GUARD_CLASS = "brickyard.TokenGuard", "brickyard.UserGuard"
CONNECT_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
COMMIT_PROTOCOL = "spark.sql.sources.commitProtocolClass"
EXECUTOR_JARS = "spark.executor.extraClassPath"  # before Spark's own
# In a worker's environment, this ends up last on its executors' class path, so archives stay usable.
EXECUTOR_LAST_JARS = "spark.executorEnv.SPARK_DIST_CLASSPATH"
WAREHOUSE = "dbfs:/user/hive/warehouse"  # managed tables, where Databricks has them
ICEBERG_MISSING = "spark.brickyard.missing.iceberg"  # why the runtime lacks it, for java/MissingFormat.java
_ICEBERG = {
    layersettings.CATALOG: layersettings.ICEBERG_CATALOG,
    f"{layersettings.CATALOG}.catalog-impl": "brickyard.IcebergTables",
    f"{layersettings.CATALOG}.cache-enabled": "false",  # other clusters change the tables as well
}
WRITES = "/user/hive/.writes"  # in the workspace's files: records of unfinished writes, a directory per cluster

OWN = (
    "spark.master", "spark.submit.deployMode", "spark.driver.host", "spark.driver.bindAddress", "spark.local.dir",
    "spark.authenticate", "spark.authenticate.secret", "spark.authenticate.secret.file", "spark.authenticate.secret.driver.file",
    "spark.authenticate.secret.executor.file", "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port",
    "spark.connect.authenticate.token", "spark.brickyard.connect.token", "spark.master.rest.enabled", "spark.ui.reverseProxy",
    "spark.hadoop.fs.dbfs.impl", "spark.hadoop.fs.file.impl", "spark.executorEnv.PATH", *resources.OWN,
)  # fmt: skip
# Every connection between the cluster's processes is encrypted and authenticated, or there is none. Spark's other ways of
# encryption would take its place.
ENCRYPTION = {
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
}
ENCRYPTION_OWN = ("spark.network.crypto.", "spark.network.sasl.", "spark.authenticate.", "spark.ssl.")
# Settings that Databricks has on, and that need what is not here.
SET_ASIDE = {
    "spark.shuffle.service.enabled": "no node has an external shuffle service, and executors that look for one end. The shuffle "
    "files of workers that leave are moved to others.",
}
CONSUMED = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
)


class NodeConf(NamedTuple):
    """`values`: every setting. `notes`: sentences about the user's settings that could not be used."""

    values: dict[str, str]
    notes: list[str]


def authentication(assignment: AssignmentDocument) -> dict[str, str]:
    """Returns the settings shared by every RPC endpoint of a cluster. For a SparkConf only, never for a command line."""
    values = {"spark.authenticate": "true", SECRET: assignment["secret"]}
    return {**values, **ENCRYPTION} if assignment.get("encrypted") else values


def is_own(key: str, assignment: AssignmentDocument) -> bool:
    """Whether the cluster decides that setting, and not its user."""
    return key in OWN or (bool(assignment.get("encrypted")) and key.startswith(ENCRYPTION_OWN))


def master_conf(assignment: AssignmentDocument, place: Place) -> dict[str, str]:
    return {
        **authentication(assignment),
        "spark.master.rest.enabled": "false",
        "spark.ui.killEnabled": "false",
        "spark.local.dir": f"{place.node_dir}/work/local",
        "spark.worker.timeout": "60",
    }


def worker_conf(assignment: AssignmentDocument, place: Place) -> dict[str, str]:
    """Returns a worker's settings: only the user's `spark.worker.*` settings apply to it."""
    asked = assignment.get("spark_conf") or {}
    theirs = {key: value for key, value in asked.items() if key.startswith("spark.worker.") and key not in resources.OWN}
    return {
        **theirs,
        **authentication(assignment),
        "spark.decommission.enabled": "true",
        "spark.ui.killEnabled": "false",
        "spark.local.dir": f"{place.node_dir}/work/local",
        **resources.of_worker(assignment),
    }


def driver_conf(
    assignment: AssignmentDocument, manifest: ManifestDocument, place: Place, *, master_url: str, executor_archive: str
) -> NodeConf:
    """Returns all settings for the driver's SparkContext. Raises LaunchError if the workers can never satisfy it."""
    asked: Mapping[str, str] = assignment.get("spark_conf") or {}
    own = [*(key for key in OWN if key in asked), *(key for key in asked if key not in OWN and is_own(key, assignment))]
    notes = [f"{key} is decided by the cluster; the value of its Spark configuration is not used." for key in own]
    if asked.get("spark.master", "").startswith("local[") and master_url.startswith("local["):
        notes = [note for note in notes if not note.startswith("spark.master ")]  # the single-node profile asks for what it gets
    theirs = {key: value for key, value in asked.items() if not is_own(key, assignment)}
    values = {**_defaults(assignment, manifest, place), **theirs}
    for key in CONSUMED:  # the JVM was started with them; Spark shows them in its environment
        if key in asked:
            values[key] = asked[key]
    notes += _set_aside(values)
    values.update(_own(assignment, manifest, place, master_url))
    values.update(resources.of_driver(assignment, values, place.node_dir, single=master_url.startswith("local[")))
    values.update(_files(assignment, manifest, place, values, single=master_url.startswith("local[")))
    has_layers, table_format = layers.names(manifest, asked), assignment.get("table_format", "")
    if (
        iceberg := has_iceberg(manifest, has_layers)
        and keeps_catalog(manifest, place, values)
        and layersettings.CATALOG not in values
    ):
        values.update(_ICEBERG)
    elif missing := manifest.get("iceberg_missing"):
        values[ICEBERG_MISSING] = missing
    if not asked.get(EXECUTOR_JARS) and (rewritten := manifest.get("rewritten")):
        values[EXECUTOR_JARS] = rewritten
    notes += [f"{layers.SETTING} names {name}, and this runtime has no such layer." for name in layers.lacking(manifest, asked)]
    notes += layersettings.format_notes(has_layers, values, table_format=table_format)
    values.update(
        layersettings.settings(
            has_layers,
            values,
            cores=cluster_cores(assignment),
            line=spark_line(manifest),
            iceberg=iceberg,
            table_format=table_format,
        )
    )
    jars = layers.jars(manifest, asked)
    if layers.has_photon(manifest):
        values.update(photon.settings(assignment, values, line=spark_line(manifest)))
    kept_apart = apart.options(place) if assignment.get("user_isolation") else ()
    last = (*layers.library_flags(jars), *kept_apart, *login.words(manifest))
    values["spark.executor.extraJavaOptions"] = _executor_java_options(asked, executor_archive, last)
    last_jars = [values.get(EXECUTOR_LAST_JARS) or login.classes(manifest), *jars]
    if assignment.get("init_scripts"):
        last_jars.append(f"{SEEN_JARS}/*")
    if last_path := ":".join(filter(None, last_jars)):
        values[EXECUTOR_LAST_JARS] = last_path
    if kept_apart:
        values.update(apart.SETTINGS)
        values["spark.plugins"] = _joined(apart.PLUGIN, values.get("spark.plugins", ""))
    redact(values, assignment.get("redact") or (), apart=bool(kept_apart))
    notes += _leave_out_plugin(values)
    notes += _guard_ui(values, asked, manifest, place)
    check_size(assignment, values, master_url)
    return NodeConf(values, notes)


def without_submitted(values: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings without those that SparkSubmit has resolved: Spark must see its results, not what the user wrote."""
    return {key: value for key, value in values.items() if key not in SUBMIT_CONF}


def has_connect(assignment: AssignmentDocument, manifest: ManifestDocument) -> bool:
    """Whether the driver can serve Spark Connect."""
    return not without_connect(assignment, manifest)


def without_connect(assignment: AssignmentDocument, manifest: ManifestDocument) -> str:
    """Returns why the driver cannot serve Spark Connect, or "" if it can. Every user of the machine can reach its port, so it
    is never served without a token."""
    if not manifest.get("has_connect"):
        why = manifest.get("connect_missing") or "it was not looked for"
        return (
            f"this cluster's Spark {manifest['spark_version']} has no Spark Connect server: for Spark 3 it is a separate Maven "
            "artifact, which could not be had when the runtime was installed "
            f"({why}). Choose a spark_version on Spark 4 (17.3.x-scala2.13 or "
            "newer), or have the runtime removed and installed again where the artifact can be had."
        )
    return "" if assignment.get("connect_token") else "this cluster was started without a token for Spark Connect. Restart it."


def has_own_guard(manifest: ManifestDocument) -> bool:
    """Whether Spark's Connect server checks tokens itself."""
    return spark_line(manifest) >= (4, 0)


def spark_line(manifest: ManifestDocument) -> tuple[int, int]:
    major, minor = manifest["spark_version"].split(".")[:2]
    return int(major), int(minor)


def _defaults(assignment: AssignmentDocument, manifest: ManifestDocument, place: Place) -> dict[str, str]:
    cores, memory_mb = worker_size(assignment)
    values = {
        "spark.app.name": assignment.get("cluster_name") or assignment["cluster_id"],
        "spark.executor.cores": str(cores),
        "spark.executor.memory": f"{executor_memory_mb(memory_mb)}m",
        "spark.ui.enabled": "false",
        # For the UI of clusters that have ended. One compressed file, among the logs that are kept. Of Spark's codecs, Zstandard
        # writes out its data on flush, so the log of a running cluster is readable too.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(place.node_dir, "logs", "eventlog").as_uri(),
        "spark.eventLog.compress": "true",
        "spark.eventLog.compression.codec": "zstd",
        "spark.eventLog.rolling.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": WAREHOUSE
        if place.metastore
        else f"file:{place.cluster_dir or place.node_dir + '/work'}/warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.legacy.createHiveTableByDefault": "false",
        # Spark would go on to read the files that a table had when it was first used: other clusters write to it as well.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        # Jobs of one user do not wait for all of another's: each context and session has a pool (java/JobPools.java).
        "spark.scheduler.mode": "FAIR",
        **({"spark.sql.scripting.enabled": "true"} if spark_line(manifest) >= (4, 0) else {}),  # Databricks has it from 16.3 on
        # A worker has one executor. Any executor that is free is better than waiting for a specific one: blocks travel fast.
        "spark.locality.wait": "0s",
        # Nodes may share an address but never a disk: another executor's blocks come through its port.
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        # An executor leaves when a round finds nothing left to move. With Spark's default, rounds are 30 s apart.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.databricks.clusterUsageTags.clusterId": assignment["cluster_id"],
        "spark.databricks.clusterUsageTags.clusterName": assignment.get("cluster_name", ""),
        "spark.databricks.clusterUsageTags.sparkVersion": assignment.get("runtime", ""),
        "spark.databricks.clusterUsageTags.clusterNodeType": assignment.get("node_type_id", ""),
        "spark.databricks.clusterUsageTags.clusterAllTags": _tags_text(assignment),
    }
    values.update({**CLIENTS, **tuning.defaults(assignment, photon=layers.has_photon(manifest))})
    # PATH, and what follows from other nodes' own variables: executors have them from their workers.
    variables, own = user_env(assignment.get("spark_env_vars") or {}), {"PATH", *place.node_variables}
    values.update({f"spark.executorEnv.{key}": value for key, value in variables if key not in own})
    return values


def _tags_text(assignment: AssignmentDocument) -> str:
    """Returns the cluster's tags in the format that programs expect: [{"key": ..., "value": ...}, ...]."""
    tags = {**(assignment.get("custom_tags") or {}), **(assignment.get("default_tags") or {})}
    return json.dumps([{"key": key, "value": value} for key, value in tags.items()])


def _own(assignment: AssignmentDocument, manifest: ManifestDocument, place: Place, master_url: str) -> dict[str, str]:
    host = place.ports_host if master_url.startswith("local[") else place.host  # nobody else calls a cluster of one node
    values = {
        **authentication(assignment),
        "spark.master": master_url,
        "spark.submit.deployMode": "client",
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.local.dir": f"{place.node_dir}/work/local",
    }
    if has_connect(assignment, manifest):
        values["spark.connect.grpc.binding.address"] = place.ports_host
        values["spark.connect.grpc.binding.port"] = "0"
        theirs = (assignment.get("spark_conf") or {}).get(INTERCEPTORS, "")
        if assignment.get("user_isolation"):
            values[INTERCEPTORS] = _joined(APART_GUARD_CLASS, theirs)
        elif not has_own_guard(manifest):
            values[INTERCEPTORS] = _joined(GUARD_CLASS, theirs)
    return values


def _files(
    assignment: AssignmentDocument, manifest: ManifestDocument, place: Place, values: Mapping[str, str], *, single: bool
) -> dict[str, str]:
    """Returns settings for our file systems (java/NodeFiles.java): dbfs:/ everywhere, file:/ only where every node sees the
    files."""
    classes = manifest.get("classes")
    if not classes:
        return {}
    trees = [place.dbfs_dir, place.volumes_dir, place.workspace_dir]
    seen = [place.cluster_dir, place.cluster_workspace, *trees, f"{place.node_dir}/logs/eventlog"]
    shared = "" if single or not place.cluster_dir else ":".join(filter(None, seen))
    hadoop = {
        "fs.dbfs.impl": "brickyard.DbfsFiles",
        "fs.file.impl": "brickyard.NodeFiles",
        "fs.AbstractFileSystem.dbfs.impl": "brickyard.DbfsContext",
        "fs.AbstractFileSystem.file.impl": "brickyard.NodeContext",
        "fs.brickyard.dbfs.root": place.dbfs_dir,
        "fs.brickyard.volumes.root": place.volumes_dir,
        "fs.brickyard.workspace.root": place.workspace_dir,
        "fs.brickyard.shared": shared,
        "fs.brickyard.full": place.dbfs_full,
    }
    if place.cluster_dir:
        temporary = f"{place.node_dir}/tmp"  # noqa: S108 - the node's own
        hadoop |= {
            "fs.brickyard.temporary": temporary,
            "fs.brickyard.scratch": place.scratch_dir,
            "fs.brickyard.writes": _writes_dir(assignment, place),
            "fs.brickyard.writes.key": f"{place.cluster_dir}/writes.key",
        }
    return {
        "spark.hadoop.fs.defaultFS": values.get("spark.hadoop.fs.defaultFS", "dbfs:///"),  # for paths without a scheme
        **{f"spark.hadoop.{key}": value for key, value in hadoop.items()},
        EXECUTOR_LAST_JARS: ":".join(filter(None, [values.get(EXECUTOR_LAST_JARS), classes])),
        COMMIT_PROTOCOL: values.get(COMMIT_PROTOCOL, "brickyard.KeptCommit"),
    }


def _writes_dir(assignment: AssignmentDocument, place: Place) -> str:
    """Returns where the driver keeps records of unfinished writes: where others find them, if they can write to its tables."""
    return f"{place.dbfs_dir}{WRITES}/{assignment['cluster_id']}" if place.metastore else place.older_writes_dir


def keeps_writes(manifest: ManifestDocument, place: Place) -> bool:
    """Whether there may be records of writes that a driver has not finished."""
    return bool(manifest.get("classes") and place.cluster_dir)


def keeps_catalog(manifest: ManifestDocument, place: Place, conf: Mapping[str, str]) -> bool:
    """Whether tables are in the workspace's metastore, rather than in one of Hive's."""
    return keeps_writes(manifest, place) and place.metastore and conf["spark.sql.catalogImplementation"] == "in-memory"


def has_iceberg(manifest: ManifestDocument, has_layers: Sequence[str]) -> bool:
    """Whether the cluster has Iceberg, as a part of its runtime or as a layer."""
    return bool(manifest.get("has_iceberg")) or layers.ICEBERG in has_layers


def _set_aside(values: dict[str, str]) -> list[str]:
    """Removes settings that would keep Spark from starting."""
    found = [key for key in SET_ASIDE if values.get(key, "").strip().lower() == "true"]
    for key in found:
        del values[key]
    return [f"{key} is not used: {SET_ASIDE[key]}" for key in found]


def _leave_out_plugin(values: dict[str, str]) -> list[str]:
    """Removes Spark's own plugin, which would start a second Connect server or prevent the cluster's from starting."""
    names = [name.strip() for name in values.get("spark.plugins", "").split(",")]
    if CONNECT_PLUGIN not in names:
        return []
    values["spark.plugins"] = ",".join(name for name in names if name != CONNECT_PLUGIN)
    return [f"{CONNECT_PLUGIN} of spark.plugins is left out: the cluster serves Spark Connect by itself."]


def _executor_java_options(asked: Mapping[str, str], archive: str, last: Sequence[str]) -> str:
    """Returns our options for a quick start, then the user's, which win. Keeps the user's collector or archive, if set. Spark's
    worker puts the executor's main class behind them, and so behind `last`, which may be a main class that runs it."""
    theirs = asked.get("spark.executor.extraJavaOptions", "")
    ours = ["-XX:-UsePerfData", *PATIENT_COMPILER, ROOM_FOR_CLASSES]
    if "GC" not in theirs:
        ours.append("-XX:+UseParallelGC")
    if archive and not any(option in theirs for option in ("SharedArchiveFile", "ArchiveClassesAtExit", "-XX:AOT")):
        ours += archive_flags(archive)
    return " ".join([*ours, *([theirs] if theirs else []), *last])


def _guard_ui(values: dict[str, str], asked: Mapping[str, str], manifest: ManifestDocument, place: Place) -> list[str]:
    """Turns the driver's UI off unless the user asks for it. Everybody on the machine can reach it, so it is served only to
    holders of a token, or not at all where Spark has no such guard."""
    if asked.get("spark.ui.enabled", "").lower() != "true":
        return []
    if spark_line(manifest) < (4, 0):
        values["spark.ui.enabled"] = "false"
        return ["spark.ui.enabled is not used: Spark 3 cannot keep the users of other clusters out of its web UI."]
    filters = values.get("spark.ui.filters", "")
    values.update(guarded_ui(place.ui_key))
    values["spark.ui.filters"] = _joined(JWS_FILTER, filters)
    return []


def guarded_ui(key: str) -> dict[str, str]:
    """Returns settings of a web UI that only opens with a token signed with `key` (base64url)."""
    return {
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
        "spark.ui.filters": JWS_FILTER,
        f"spark.{JWS_FILTER}.param.secretKey": key,
    }


def _joined(first: str, rest: str) -> str:
    names = [name.strip() for name in rest.split(",") if name.strip() and name.strip() != first]
    return ",".join([first, *names])
