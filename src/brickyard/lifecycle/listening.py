"""Sockets that listen at an address of this machine, or why there can be none. Standard library only: small processes use it."""

from __future__ import annotations

import errno
import socket


class CannotListen(Exception):
    """The message says why, for users."""


def bound(address: str, port: int) -> socket.socket:
    """A TCP socket with that IP address and port, which does not listen yet. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 is another address
    return _bind(made, address, port)


def bound_everywhere(port: int) -> socket.socket:
    """The same at all addresses of this machine, of both kinds. Raises CannotListen."""
    if not socket.has_dualstack_ipv6():
        return bound("0.0.0.0", port)  # noqa: S104 - that is what is asked for
    made = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return _bind(made, "::", port)


def _bind(made: socket.socket, address: str, port: int) -> socket.socket:
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what has just ended there does not count
        made.bind((address, port))
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise CannotListen("another program of this machine has this port") from error
        raise CannotListen(f"nothing can listen there: {error.strerror}") from error
    return made
