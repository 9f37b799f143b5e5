"""Joining the driver's running SparkContext from another Python process, such as a kernel."""

from __future__ import annotations

from typing import Any


def attach() -> tuple[Any, Any]:
    """(SparkSession, SparkContext) on the driver's JVM, which PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET name.

    The session is this process's own: its temporary views and SQL settings are not seen by others. Leaving does not stop Spark.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - only in a runtime
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    gateway = launch_gateway()
    jvm = gateway.jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=jsc.getConf()))
    return SparkSession(context).newSession(), context
