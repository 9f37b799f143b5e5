"""A Py4J server of its own in the driver JVM for every kernel.

With one for all, kernels would share what Py4J keeps per server: the way back into Python (`foreachBatch` of one would call
another), and the references to Java objects, which nobody would ever give up for a kernel that was killed.
"""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError

from ..jvm.gateway import bounded
from .door import Door, DoorError

ANSWER_TIMEOUT_S = 20  # opening and closing takes milliseconds


class Gateways:
    """Opens them. For one thread: Py4J keeps a connection, and the JVM a thread, for every thread that calls."""

    def __init__(self, *, port: int, secret: str) -> None:
        java = JavaParameters(port=port, auth_token=secret, auto_convert=True, read_timeout=ANSWER_TIMEOUT_S)
        # No way back into this process: Python's side is never started.
        self._client = ClientServer(java_parameters=java, python_parameters=PythonParameters(port=0, eager_load=False))

    def open(self) -> Door:
        """Raises DoorError."""
        try:
            port, secret, server = bounded(self._client.jvm)
        except (Py4JError, OSError) as error:
            raise DoorError(f"the driver's JVM does not answer: {error}") from error
        return Door({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}, lambda: _shut(server))

    def close(self) -> None:
        """Leave; the JVM goes on."""
        self._client.close()


def _shut(server: Any) -> None:
    """Shut it, with all that was held through it. A JVM that is gone holds nothing."""
    with contextlib.suppress(Py4JError, OSError):
        server.shutdown()
