"""By which names the server is called: documents with its URLs repeat the one that the client used, if somebody vouches for it.

A page of another site can have its name lead to this server (DNS rebinding), and a cache may keep an answer for others. So what
anybody may read repeats only names that no stranger can own.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from brickyard.api.edge.authentication import PROXIED, base_url
from brickyard.domain.errors import MalformedRequest

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
# Ends of names that the public DNS does not have: RFC 6761, 6762 (with appendix G), 8375; ICANN's `internal`; Kubernetes' `svc`.
_PRIVATE = ("localhost", "local", "internal", "test", "home.arpa", "svc", "intranet", "private", "corp", "home", "lan")


class Hosts:
    """`names`: of the setting `host_names`, which alone count then; `own`: others that are the server's, or URLs with them;
    `external`: the origin of the setting `external_url`, whose name always counts."""

    def __init__(self, names: str, own: Iterable[str] = (), external: str = "") -> None:
        self._external = external
        always = _host_of(external)
        self._names = frozenset(name.strip().lower() for name in names.split(",") if name.strip())
        if self._names and always:
            self._names |= {always}
        self._own = frozenset(filter(None, (always, *(_host_of(each) for each in own))))

    async def shown_url(self, scope: Mapping[str, Any], *, vouched: bool) -> str:
        """The workspace's URL for an answer: the setting, or else the one that the client used (`base_url`)."""
        return self._external or await self.base_url(scope, vouched=vouched)

    async def base_url(self, scope: Mapping[str, Any], *, vouched: bool) -> str:
        """The server's URL as the client used it. `vouched`: the caller is known to us or only compares it.
        Raises MalformedRequest for a name that is not ours: an answer with it would lead elsewhere."""
        url = base_url(scope)
        authority = url.partition("://")[2]
        if not _AUTHORITY.fullmatch(authority):
            raise MalformedRequest(f"header 'Host': it is {authority[:100]!r}; it must be a name or an address.")
        host = _host_of(authority)
        if self._names:
            if not (host in self._names or is_private(host, private=("localhost",))):
                raise MalformedRequest(f"header 'Host': {authority[:100]!r} is not in the server's setting host_names.")
        elif not (vouched or scope.get(PROXIED) or await self._is_ours(host)):
            raise MalformedRequest(
                f"header 'Host': {authority[:100]!r} is not a known name of this server. Add it to the server's setting "
                "host_names, or its proxy to trusted_proxies."
            )
        return url

    async def _is_ours(self, host: str) -> bool:
        if host in self._own or is_private(host):
            return True
        return host in await asyncio.to_thread(_machine)  # may ask the DNS


def is_private(host: str, private: tuple[str, ...] = (*_PRIVATE, "")) -> bool:
    """Whether nobody can have such a name in the public DNS: an address, or a name with one of these ends ("": without a dot)."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return any(host == end or host.endswith(f".{end}") if end else "." not in host for end in private)
    return True


@functools.cache
def _machine() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def _host_of(place: str) -> str:
    """The host of a URL, or of a host with or without a port."""
    try:
        return (urlsplit(place if "://" in place else f"//{place}").hostname or "").rstrip(".")
    except ValueError:
        return ""
