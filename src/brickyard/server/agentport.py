"""This server's TLS port for agents on other machines: it has the routes of agents and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from brickyard.api.agents import protocol
from brickyard.api.edge.bounded import BoundedHttp
from brickyard.api.edge.serving import DRAIN_S, serving
from brickyard.config.settings import Settings
from brickyard.domain.periodic import Periodic
from brickyard.machine.addresses import is_own
from brickyard.machine.listening import CannotListen, bound, bound_everywhere
from brickyard.machine.tls import Peer, TlsListener
from brickyard.nodes.authority import RENEW_S, Authority
from brickyard.providers.base import SetupError

BACKLOG = 1024
MOST_STRANGERS = 256
_PATHS = frozenset(path for operation in protocol.OPERATIONS for path in operation.paths)


class Listening(NamedTuple):
    """Where a server listens for agents on other machines, and the host by which they call it."""

    address: str  # empty: all of this machine's
    port: int
    host: str


def wanted(settings: Settings) -> Listening | None:
    """Where a server with these settings listens for agents, if its provider's are on other machines; None: a proxy does."""
    parts = urlsplit(settings.public_url)
    port = settings.agent_port
    if parts.scheme != "https" or port == 0 or (port is None and settings.agent_ca is not None):
        return None
    host = parts.hostname or ""
    return Listening(_address(settings.host, host), port or parts.port or 443, host)


def trusted(settings: Settings, authority: Authority | None) -> str:
    """What agents on other machines trust, as PEM; "": what their machine trusts. Raises SetupError."""
    if settings.agent_ca is None:
        return authority.pem if authority is not None else ""
    try:
        text = settings.agent_ca.read_text()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SetupError(f"agent_ca is {settings.agent_ca}, which holds no certificates as PEM: {error}.") from error
    return text


class AgentPort(Periodic):
    """An open port, whose certificate is renewed in time. Raises SetupError."""

    def __init__(self, where: Listening, authority: Authority, application: ASGIApp) -> None:
        super().__init__(every_s=RENEW_S, later=True)
        self._where, self._authority = where, authority
        self._context = authority.context(where.host)
        self._config = serving(_only_agents(application))
        self._state = ServerState()
        try:
            listening = bound(where.address, where.port) if where.address else bound_everywhere(where.port)
        except CannotListen as error:
            raise SetupError(
                f"cannot listen for agents on {where.address or 'all addresses'}, port {where.port}: {error}. The port is "
                "agent_port, or that of public_url. Name another one there; agent_port = 0 leaves it to a proxy."
            ) from error
        listening.listen(BACKLOG)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2  # each agent keeps two connections
        self._listener = TlsListener(
            listening, self._context, self._protocol, most=most, most_strangers=min(MOST_STRANGERS, most // 2)
        )
        self.port = self._listener.address[1]

    def start(self) -> None:
        self._config.load()
        self._listener.start()

    async def stop(self) -> None:
        """Ends all connections, after a moment for what is being answered."""
        await self._listener.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=DRAIN_S)
        for connection in list(self._state.connections):
            connection.transport.abort()

    async def run_once(self) -> None:
        """Renew the certificate."""
        self._authority.renew(self._context, self._where.host)

    def _protocol(self, peer: Peer) -> asyncio.Protocol:
        return _AgentHttp(peer, config=self._config, server_state=self._state, app_state={})


class _AgentHttp(BoundedHttp):
    """One connection. The edge takes it out of the count when it has seen an agent's token."""

    def __init__(self, stranger: Peer, **given: Any) -> None:
        super().__init__(**given)
        self._stranger = stranger

    def uncount(self) -> None:
        super().uncount()
        self._stranger.known()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stranger.gone()

    def handle_websocket_upgrade(self) -> None:
        self.transport.close()


def _only_agents(application: ASGIApp) -> ASGIApp:
    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _PATHS:
            await PlainTextResponse("This port is for agents.\n", 404)(scope, receive, send)
        else:
            await application(scope, receive, send)

    return served


def _address(listens: str, host: str) -> str:
    """Where to listen: at the server's own address if others reach that, at the address that agents call if it is this
    machine's, and else, as with a name or behind a NAT, at all addresses."""
    if _is_address(listens) and not ipaddress.ip_address(listens).is_loopback:
        return "" if listens == "::" else listens
    if _is_address(host) and (ipaddress.ip_address(host).is_loopback or is_own(host)):
        return host
    return ""  # strangers need a token there


def _is_address(text: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(text)
        return True
    return False
