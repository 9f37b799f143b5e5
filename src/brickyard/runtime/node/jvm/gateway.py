"""Py4J: connections to a running JVM."""

from __future__ import annotations

import secrets
from typing import Any

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters


def open_gateway(port: int, secret: str) -> Any:
    """Returns a client of the gateway, of the kind that PySpark makes. Converts Python lists to Java lists automatically."""
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )


def bounded(jvm: Any) -> tuple[int, str, Any]:
    """Starts a Py4J server that resists strangers (java/BoundedPorts.java). Returns its port, its secret and itself. Raises
    Py4JError."""
    secret = secrets.token_hex(32)
    server = jvm.brickyard.BoundedPorts.py4j(secret)
    return int(server.getJavaServer().getListeningPort()), secret, server
