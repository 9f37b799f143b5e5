"""What Spark is told where users are kept apart: settings, and options of the JVMs. Pure."""

from __future__ import annotations

from ..jvm.launch import NO_ENTITIES
from .place import Place

# Where users are kept apart, Python workers run in cells (pythonworkers/): Spark must start nothing else for them.
PLUGIN = "brickyard.Apart"
WORKER_PYTHON = "/databricks/spark-python"  # as in sandbox/view.py
SETTINGS = {
    "spark.pyspark.python": WORKER_PYTHON,
    "spark.pyspark.driver.python": WORKER_PYTHON,
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.python.worker.module": "pyspark.worker",
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.sql.artifact.isolation.enabled": "true",
    **dict.fromkeys(("spark.executorEnv.PYSPARK_PYTHON", "spark.executorEnv.PYSPARK_DRIVER_PYTHON"), WORKER_PYTHON),
}


def places(place: Place) -> str:
    """Returns the directories that Spark reaches for users who are kept apart (java/Apart.java): they see them, too."""
    trees = (place.dbfs_dir, place.volumes_dir, place.workspace_dir)
    return ":".join(filter(None, (*trees, place.cluster_dir, place.cluster_workspace)))


def options(place: Place) -> tuple[str, ...]:
    """Returns what the JVM of an executor is told where users are kept apart. Last, so that nothing of the cluster's counts."""
    return (f"-Dbrickyard.apart={places(place)}", *NO_ENTITIES)
