"""What a warm node does without a cluster, beside starting its JVM."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..jvm.launch import WORKER
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..processes import Spawner
from ..protocol import Channel, OpError
from ..spark.warm import rounds
from ..waiting.executor import WaitingExecutor

if TYPE_CHECKING:
    from ..contexts.contexts import Contexts
    from ..documents import AssignmentDocument, Prepare


class Warming:
    """Runs Spark once, and prepares a kernel that waits for a driver. Then goes on: an executor's JVM comes to wait for a worker,
    and first commands are practised."""

    def __init__(self, message: Prepare, jvm: Jvm, contexts: Contexts, *, spawner: Spawner, channel: Channel) -> None:
        """`message` is that of `prepare`. Raises OpError."""
        channel.status(message="running Spark once")
        preload = threading.Thread(target=contexts.preload, daemon=True)
        preload.start()
        cores, memory_mb, manifest = message.get("cores") or 1, message.get("memory_mb") or 0, jvm.manifest
        self._executor = None
        if memory_mb and manifest.get("classes"):
            self._executor = WaitingExecutor(
                Scala(jvm.gateway), spawner=spawner, manifest=manifest, node_dir=jvm.node_dir, log=channel
            )
        try:
            self._practice = rounds(jvm, manifest, cores=cores, memory_mb=memory_mb, log=channel, executors=self._executor)
        except Exception as error:
            raise OpError("SPARK_STARTUP_FAILURE", f"Spark did not run in the warm JVM: {error}") from error
        preload.join()

    def go_on(self) -> None:
        """Does the rest beside everything else."""
        threading.Thread(target=self._practice.run, name="practice", daemon=True).start()

    def cut(self, assignment: AssignmentDocument) -> None:
        """A cluster has come. Returns when nothing but what it can use is left."""
        self._practice.cut()
        # What Spark's worker hands to the waiting JVM has the cluster's secret: users who are kept apart might look.
        if assignment["role"] != WORKER or assignment.get("user_isolation"):
            self.drop_executor()

    def drop_executor(self) -> None:
        """Ends the JVM that waits for a worker."""
        if self._executor is not None:
            self._executor.close()
