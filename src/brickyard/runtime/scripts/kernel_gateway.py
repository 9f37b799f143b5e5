"""A door of its own into the driver JVM for every kernel.

With one door for all, kernels would share what Py4J keeps per door: the way back into Python (`foreachBatch` of one would call
another), and the references to Java objects, which nobody would ever give up for a kernel that was killed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError

ANSWER_TIMEOUT_S = 20  # opening and closing a door takes milliseconds


class GatewayError(Exception):
    """The driver's JVM does not do as it is asked; the message says what it said."""


class Gateway(NamedTuple):
    """One door: `server` is the Java object behind it."""

    port: int
    secret: str
    server: Any

    def close(self) -> None:
        """Shut it, with all that was held through it. Never raises: a JVM that is gone holds nothing."""
        try:
            self.server.shutdown()
        except (Py4JError, OSError):
            return


class Gateways:
    """Opens doors. For one thread: Py4J keeps a connection, and the JVM a thread, for every thread that calls."""

    def __init__(self, *, port: int, secret: str) -> None:
        java = JavaParameters(port=port, auth_token=secret, auto_convert=True, read_timeout=ANSWER_TIMEOUT_S)
        # No way back into this process: Python's side is never started.
        self._client = ClientServer(java_parameters=java, python_parameters=PythonParameters(port=0, eager_load=False))

    def open(self) -> Gateway:
        """Open a door. Raises GatewayError."""
        try:
            spark = self._client.jvm.org.apache.spark
            server = spark.api.python.Py4JServer(spark.SparkConf())
            server.start()
            return Gateway(int(server.getListeningPort()), str(server.secret()), server)
        except (Py4JError, OSError) as error:
            raise GatewayError(f"the driver's JVM does not answer: {error}") from error

    def close(self) -> None:
        """Leave; the JVM goes on."""
        self._client.close()
