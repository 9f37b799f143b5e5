"""Sockets that listen at an address of this machine, or why there can be none. Standard library only: small processes use it."""

from __future__ import annotations

import errno
import socket

_MEANT = ("127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - only to find out who listens there


class CannotListen(Exception):
    """The message says why, for users."""


class PortInUse(CannotListen):
    """Another program has the port."""


def bound_alone(address: str, port: int) -> socket.socket:
    """`bound`, if no other program has the port where a client may mean it: `localhost` is 127.0.0.1 for one client and ::1 for
    the next, and what listens at all addresses listens at each. Raises CannotListen."""
    for other in _MEANT:
        try:
            bound(other, port).close()
        except PortInUse:
            raise
        except CannotListen:
            continue  # this machine has no such address
    return bound(address, port)


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
            raise PortInUse("another program of this machine has this port") from error
        raise CannotListen(f"nothing can listen there: {error.strerror}") from error
    return made
