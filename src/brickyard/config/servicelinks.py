"""Variables that Kubernetes writes into containers for each Service of their namespace. Pure.

A Service named `brickyard` gives BRICKYARD_PORT=tcp://10.96.0.7:80, the same with the endings _SERVICE_HOST, _SERVICE_PORT and
_PORT_80_TCP_ADDR, and more. None of them is a setting, even where one has the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PREFIX = "BRICKYARD"
_HOST = "_SERVICE_HOST"
_OF_A_SERVICE = r"{name}_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
_URL = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)


def without_links(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that begin with our prefix, without those that Kubernetes has written."""
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    services = [name.removesuffix(_HOST) for name in ours if name.endswith(_HOST)]
    if not services:
        return ours
    link = re.compile("|".join(_OF_A_SERVICE.format(name=re.escape(name)) for name in services))
    ports = {f"{name}_PORT" for name in services}
    return {
        name: value
        for name, value in ours.items()
        if not link.fullmatch(name) and not (name in ports and _URL.match(value))  # one that a person set is no URL
    }
