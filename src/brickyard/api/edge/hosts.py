"""By which names the server is called: documents with its URLs repeat the one that the client used."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from brickyard.api.edge.authentication import base_url
from brickyard.domain.errors import MalformedRequest

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class Hosts:
    """`names`: of the setting `host_names`; empty: any."""

    def __init__(self, names: str) -> None:
        self._names = frozenset(name.strip().lower() for name in names.split(",") if name.strip())

    def base_url(self, scope: Mapping[str, Any]) -> str:
        """The server's URL as the client used it. Raises MalformedRequest for a name that is not ours: an answer with it would
        lead elsewhere."""
        url = base_url(scope)
        authority = url.partition("://")[2]
        if not _AUTHORITY.fullmatch(authority):
            raise MalformedRequest(f"header 'Host': it is {authority[:100]!r}; it must be a name or an address.")
        if self._names and not self._is_own(urlsplit(url).hostname or ""):
            raise MalformedRequest(f"header 'Host': {authority[:100]!r} is not in the server's setting host_names.")
        return url

    def _is_own(self, host: str) -> bool:
        if host in self._names or host == "localhost":
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True
