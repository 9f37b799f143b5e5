"""A kernel's Spark on clusters that isolate users: a Spark Connect session without access to the JVM or to other sessions.

On an interrupt, PySpark ends the operation that the main thread waits for. Operations of other threads are found by their tag:
every operation carries the id of the command that was running when it began.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from pyspark.sql.connect.session import SparkSession

from .attach import refuse_stop

PR_SET_DUMPABLE = 4


class KernelConnect:
    """`spark` for one kernel. `begin` is called before every command, on the thread that runs commands."""

    def __init__(self) -> None:
        # Kernels of other users have the same uid: without this, they could read this one's memory and environment.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._group = ""
        self.spark: Any = SparkSession.builder.remote(os.environ["SPARK_REMOTE"]).create()
        self.context = NoContext()
        refuse_stop(SparkSession)
        self._tag_operations(self.spark.client)
        _ = self.spark.version  # the first call connects before any command needs it

    def begin(self, command_id: str, _description: str, _user: str, _pool: str) -> None:
        """Tags operations that begin from now on with that command: interrupting its tag ends them."""
        self._group = command_id

    def _tag_operations(self, client: Any) -> None:
        """Tags operations without touching the user's own tags: `spark.getTags()` does not show this tag, and `clearTags()`
        keeps it."""
        make = client._execute_plan_request_with_metadata

        def tagged(*args: Any, **more: Any) -> Any:
            request = make(*args, **more)
            if self._group:
                request.tags.append(self._group)
            return request

        client._execute_plan_request_with_metadata = tagged


class NoContext:
    """Stands in for `sc`, which does not exist here."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"sc.{name} is not available: this cluster keeps its users apart (data_security_mode USER_ISOLATION), and a "
            "SparkContext belongs to all of them. Use spark: DataFrames and SQL. Code that needs RDDs or the JVM runs on a "
            "cluster with data_security_mode SINGLE_USER or NONE."
        )

    def __repr__(self) -> str:
        return "<no SparkContext: this cluster keeps its users apart>"
