"""The SMTP server that takes the workspace's e-mail, as the settings smtp_url and smtp_from name it."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

Tls = Literal["start", "whole", "off"]  # STARTTLS, from the first byte, none
_TEXT = r"[^\s@,:;<>()\[\]\\\"\x00-\x1f\x7f]"
_ADDRESS = re.compile(rf"(?!.*=\?){_TEXT}{{1,64}}@{_TEXT}{{1,189}}")  # =? begins an encoded word, which may hold anything
_FORM = "smtp://USER:PASSWORD@HOST:PORT (STARTTLS), smtps://... (TLS), or smtp://HOST:PORT?tls=off"


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """`sender` is the address that e-mail comes from."""

    host: str
    port: int
    tls: Tls
    user: str
    password: str
    sender: str

    def __repr__(self) -> str:
        return f"MailServer({self.host}:{self.port})"


def mail_server(url: str, sender: str) -> MailServer:
    """Raises ValueError with the form that is right."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(_FORM) from None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError(_FORM)
    if parts.query not in (("", "tls=off") if parts.scheme == "smtp" else ("",)):
        raise ValueError(_FORM)
    tls: Tls = "whole" if parts.scheme == "smtps" else "off" if parts.query else "start"
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if user and tls == "off" and not _is_loopback(parts.hostname):
        raise ValueError("without USER:PASSWORD where tls=off, unless HOST is this machine")
    return MailServer(
        host=parts.hostname,
        port=port or (465 if tls == "whole" else 587 if tls == "start" else 25),
        tls=tls,
        user=user,
        password=password,
        sender=sender,
    )


def is_address(text: str) -> bool:
    """Whether it has the form of an e-mail address, and cannot be taken for several."""
    return _ADDRESS.fullmatch(text) is not None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
