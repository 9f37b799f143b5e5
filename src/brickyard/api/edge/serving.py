"""How the API is served: one place for what the server and the tests have around it."""

from __future__ import annotations

import ipaddress
from typing import Any

import uvicorn

from brickyard.api.edge.bounded import BoundedHttp

DRAIN_S = 2  # requests in flight get so long when the server stops
_MAPPED_BITS = 96  # of ::ffff:0:0/96, before the IPv4 address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
KEEP_ALIVE_S = 75  # longer than clients keep a connection that they do not use: they never meet one that is just being closed


def serving(application: Any, *, trusted_proxies: str = "") -> uvicorn.Config:
    """For an ASGI application on sockets that are bound already. `trusted_proxies`: as the setting."""
    return uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        loop="none",
        http=BoundedHttp,
        ws="none",
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=_in_both_forms(trusted_proxies),  # never None: uvicorn would take FORWARDED_ALLOW_IPS instead
    )


def _in_both_forms(addresses: str) -> str:
    """IPv4 addresses and networks also as IPv6 has them (::ffff:10.0.0.0/104), and the other way round: that is how a socket
    bound to :: names peers that came by IPv4."""
    networks = [ipaddress.ip_network(each.strip()) for each in addresses.split(",") if each.strip()]
    return ",".join(str(form) for network in networks for form in (network, *_other_form(network)))


def _other_form(network: _Network) -> tuple[_Network, ...]:
    address, bits = network.network_address, network.prefixlen
    if isinstance(address, ipaddress.IPv4Address):
        return (ipaddress.ip_network(f"::ffff:{address}/{_MAPPED_BITS + bits}"),)
    if address.ipv4_mapped is not None and bits >= _MAPPED_BITS:
        return (ipaddress.ip_network(f"{address.ipv4_mapped}/{bits - _MAPPED_BITS}"),)
    return ()
