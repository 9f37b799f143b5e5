"""The web server's configuration, shared by the server and the tests."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from brickyard.api.edge.authentication import PROXIED
from brickyard.api.edge.bounded import BoundedHttp
from brickyard.api.edge.websockets import MESSAGE_BYTES, PING_S, BoundedWebsocket

DRAIN_S = 2  # time for requests in flight when the server stops
_MAPPED_BITS = 96  # of ::ffff:0:0/96, before the IPv4 address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
KEEP_ALIVE_S = 75  # longer than clients keep unused connections, so that they never use one that is being closed


def serving(application: Any, *, trusted_proxies: str = "", external: str = "") -> uvicorn.Config:
    """Config for an ASGI application on sockets that are bound already. `trusted_proxies`: see the setting; `external`: the
    origin of the setting `external_url`."""
    if external.startswith("https:"):
        application = _External(application, external)
    return uvicorn.Config(
        _Proxies(application, _in_both_forms(trusted_proxies)) if trusted_proxies else application,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        loop="none",
        http=BoundedHttp,
        ws=BoundedWebsocket,
        ws_max_size=MESSAGE_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,  # what is relayed would be compressed twice, and a small message may unpack to a huge one
        proxy_headers=False,  # uvicorn's own looks at FORWARDED_ALLOW_IPS
    )


class _Proxies(ProxyHeadersMiddleware):
    """Takes the word of trusted proxies, and marks what they have passed on."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan" and scope.get("client") and scope["client"][0] in self.trusted_hosts:
            scope[PROXIED] = True
        await super().__call__(scope, receive, send)


class _External:
    """Takes a request for the name and port of an https `external_url` as one that came by https: a proxy has ended its TLS. To
    ask for that name over http gains nothing: browsers send back no cookie of https then."""

    def __init__(self, application: Any, external: str) -> None:
        self._application = application
        parts = urlsplit(external)
        self._hosts = frozenset({parts.netloc, parts.netloc if parts.port else f"{parts.netloc}:443"})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan" and any(
            name == b"host" and value.decode("latin-1").lower() in self._hosts for name, value in scope["headers"]
        ):
            scope["scheme"] = {"http": "https", "ws": "wss"}.get(scope["scheme"], scope["scheme"])
        await self._application(scope, receive, send)


def _in_both_forms(addresses: str) -> str:
    """Adds the IPv6 form (::ffff:10.0.0.0/104) of IPv4 addresses and networks, and vice versa: a socket bound to :: reports
    IPv4 peers in that form."""
    networks = [ipaddress.ip_network(each.strip()) for each in addresses.split(",") if each.strip()]
    return ",".join(str(form) for network in networks for form in (network, *_other_form(network)))


def _other_form(network: _Network) -> tuple[_Network, ...]:
    address, bits = network.network_address, network.prefixlen
    if isinstance(address, ipaddress.IPv4Address):
        return (ipaddress.ip_network(f"::ffff:{address}/{_MAPPED_BITS + bits}"),)
    if address.ipv4_mapped is not None and bits >= _MAPPED_BITS:
        return (ipaddress.ip_network(f"{address.ipv4_mapped}/{bits - _MAPPED_BITS}"),)
    return ()
