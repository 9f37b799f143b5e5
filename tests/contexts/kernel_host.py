"""Contexts with a local driver JVM behind them, for `host.py`: `python kernel_host.py NODE_CODE NODE_DIR MANIFEST [isolate]` in
a runtime's interpreter; with `isolate`, users are kept apart. One JSON line `{"op", "args"}` in, one `{"result"}` or
`{"error": [code, message]}` out, until the input ends."""

from __future__ import annotations

import base64
import importlib
import json
import os
import pathlib
import runpy
import sys
from typing import Any

CONNECT = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.authenticate.secret": "the-secret",
}


def node(name: str) -> Any:
    """A module of the node's package."""
    return importlib.import_module(f"_brickyard_node.{name}")


class Server:
    """As a driver's role offers its sessions."""

    def __init__(self, connect: Any) -> None:
        self._connect = connect

    def open_session(self, session_id: str) -> str:
        port = self._connect.open()
        self._connect.make_session(session_id)
        token = self._connect.session_token(session_id)
        return str(node("connect.server").session_url("127.0.0.1", port, token, session_id))

    def own_session(self, session_id: str, owner: str, pool: str) -> None:
        self._connect.own_session(session_id, owner, pool)

    def close_session(self, session_id: str) -> None:
        self._connect.close_session(session_id)


def answer_as_agent(context_id: str, scope: str, key: str) -> dict[str, Any]:
    """As the agent would: one scope, whose secrets tell who has asked."""
    if scope not in ("", "scope"):
        return {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Scope {scope} does not exist!"}
    value = base64.b64encode(f"{context_id}: {scope}/{key}".encode()).decode()
    return {"value": value} if key else {"names": ["key" if scope else "scope"]}


def read_as_agent(path: str) -> dict[str, Any]:
    """As the agent would: the workspace is the directory `notebooks` beside the working directory."""
    place = pathlib.Path("notebooks" + path)
    if path.startswith("/Users/other"):
        return {"error_code": "PERMISSION_DENIED", "message": f"You do not have permission to read {path}."}
    if not place.is_file():
        return {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Path ({path}) doesn't exist."}
    text = place.read_text()
    languages = {"# Databricks notebook source": "python", "-- Databricks notebook source": "sql"}
    return {"value": base64.b64encode(text.encode()).decode(), "language": languages.get(text.partition("\n")[0], "")}


# Settings of the cluster with secrets: by their names, and by a value that the agent has taken from a secret.
WITH_SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "cluster-1",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "cluster-2",
    "spark.executorEnv.DATABASE_URL": "postgresql://a:cluster-value@db",
    "spark.redaction.regex": "cluster-mine",
}


GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def started_jvm(manifest: dict[str, Any], node_dir: str) -> Any:
    """A JVM as the node host starts it, with the runtime's archive: PySpark's own takes three times the processor time. PySpark
    finds it by the environment."""
    options = node("jvm.launch").JvmOptions(heap_mb=1024, java_options=("-XX:TieredStopAtLevel=1",))
    spawner = node("processes").Spawner()
    jvm = node("jvm.process").Jvm(
        spawner=spawner, manifest=manifest, options=options, node_dir=pathlib.Path(node_dir), host="127.0.0.1"
    )
    for name in ("logs", "work"):
        (jvm.node_dir / name).mkdir(exist_ok=True)
    jvm.spawn()
    jvm.connect()
    os.environ.update(zip(GATEWAY, (str(jvm.port), jvm.secret), strict=True))
    return jvm


def main() -> None:
    node_code, node_dir, manifest, *isolate = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM and the kernels must not write into our answers
    runpy.run_path(f"{node_code}/start.py")["mount"]()
    jvm = started_jvm(json.loads(manifest), node_dir)
    contexts_module = node("contexts.contexts")
    sql = importlib.import_module("pyspark.sql")

    os.chdir(node_dir)
    builder = sql.SparkSession.builder.appName("contexts").master("local[2]").config("spark.ui.enabled", "false")
    guard = {"spark.connect.grpc.interceptor.classes": "brickyard.UserGuard", **WITH_SECRETS} if isolate else {}
    if isolate:
        guard["spark.sql.artifact.isolation.enabled"] = "true"  # as on a cluster; PySpark turns it off
        node("spark.redaction").redact(guard, ["cluster-value"], apart=True)
    for name, value in {**CONNECT, **guard}.items():
        builder.config(name, value)
    spark = builder.getOrCreate()
    for name in GATEWAY:
        del os.environ[name]
    gateway = spark.sparkContext._gateway.gateway_parameters
    scala = node("jvm.scala")
    connect = node("connect.apart").ApartConnectServer(
        scala.Scala(spark.sparkContext._gateway), spark.sparkContext._jsc.sc(), token="the-token", places=""
    )

    class DriverNode:
        """As the node host offers itself to contexts."""

        def cancel_group(self, group: str) -> None:
            spark.sparkContext.cancelJobGroup(group)
            connect.interrupt(group)

        def jobs_of_group(self, group: str) -> list[dict[str, Any]]:
            gateway = spark.sparkContext._gateway
            running = gateway.jvm.java.util.ArrayList()
            running.add(gateway.jvm.org.apache.spark.JobExecutionStatus.RUNNING)
            mapper = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
            mapper.registerModule(scala.Scala(gateway).object("com.fasterxml.jackson.module.scala", "DefaultScalaModule"))
            jobs = json.loads(mapper.writeValueAsString(spark.sparkContext._jsc.sc().statusStore().jobsList(running)))
            found: list[dict[str, Any]] = node("contexts.progress").jobs_of(jobs, group)
            return found

        def stop_streams(self, pool: str) -> None:
            """There are none."""

        def spark_open(self, patience_s: float) -> bool:
            return True

        def ask(self, context_id: str, *, scope: str = "", key: str = "", notebook: str = "") -> dict[str, Any]:
            return read_as_agent(notebook) if notebook else answer_as_agent(context_id, scope, key)

        def why_killed(self, began_s: float) -> str:
            return ""

        def log(self, line: str) -> None:
            """Nobody reads it."""

    if isolate:
        access = node("contexts.sessions").Sessions(Server(connect))
    else:
        access = node("contexts.gateways").Gateways(port=gateway.port, secret=gateway.auth_token)
    contexts = contexts_module.Contexts(
        python=sys.executable, node_dir=node_dir, access=access, env=dict(os.environ), node=DriverNode(), limit=4
    )

    def active_jobs() -> list[int]:
        return list(spark.sparkContext.statusTracker().getActiveJobsIds())

    def sessions() -> list[str]:
        """Ids of the sessions of our contexts, also of those that wait to be one's."""
        return sorted(connect._own)

    def time_limits() -> dict[str, int]:
        """Of every session that has one of its own, in milliseconds; -1: none."""
        listed = connect._service.sessionManager().listActiveSessions()
        limits = {info.sessionId(): info.customInactiveTimeoutMs() for info in connect._scala.items(listed)}
        return {name: limit.get() for name, limit in limits.items() if limit.isDefined()}

    own: dict[str, Any] = {
        "active_jobs": active_jobs,
        "sessions": sessions,
        "time_limits": time_limits,
        "connected": lambda: connect.sessions(9),
    }
    print(json.dumps({"result": "ready"}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        work: Any = own.get(request["op"]) or getattr(contexts, request["op"])
        try:
            answer: dict[str, Any] = {"result": work(*request["args"])}
        except contexts_module.ContextError as error:
            answer = {"error": [error.code, error.message]}
        print(json.dumps(answer), file=out, flush=True)
    contexts.close()
    spark.stop()
    jvm.stop(30)


if __name__ == "__main__":
    main()
