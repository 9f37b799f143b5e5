"""Gives every kernel its own Py4J server in the driver JVM.

With a single server, kernels would share what Py4J keeps per server: the callback connection into Python (`foreachBatch` of one
kernel would call another), and references to Java objects, which nobody would ever release for a killed kernel.
"""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError

from ..jvm.gateway import bounded
from .sparkaccess import SparkAccess, SparkAccessError

ANSWER_TIMEOUT_S = 20  # opening and closing normally takes milliseconds


class Gateways:
    """Opens Py4J servers. For one thread only: Py4J keeps a connection, and the JVM a thread, for every calling thread."""

    def __init__(self, *, port: int, secret: str) -> None:
        java = JavaParameters(port=port, auth_token=secret, auto_convert=True, read_timeout=ANSWER_TIMEOUT_S)
        # No callbacks into this process: the Python side is never started.
        self._client = ClientServer(java_parameters=java, python_parameters=PythonParameters(port=0, eager_load=False))

    def open(self) -> SparkAccess:
        """Opens one. Raises SparkAccessError."""
        try:
            port, secret, server = bounded(self._client.jvm)
        except (Py4JError, OSError) as error:
            raise SparkAccessError(f"the driver's JVM does not answer: {error}") from error
        return _Gateway(server, {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})

    def close(self) -> None:
        """Disconnects; the JVM goes on."""
        self._client.close()


class _Gateway:
    """One kernel's server."""

    def __init__(self, server: Any, env: dict[str, str]) -> None:
        self._server = server
        self.env = env

    def own(self, user: str, pool: str) -> None:
        """Does nothing: the kernel says it with each command (kernel/spark.py)."""

    def close(self) -> None:
        with contextlib.suppress(Py4JError, OSError):  # if the JVM is gone, nothing is left to shut down
            self._server.shutdown()
