"""The external OpenID Connect provider that people log in with: what the settings say, and why a log-in is refused."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec

from brickyard.domain.errors import ApiError, PermissionDenied, Unauthenticated
from brickyard.domain.printable import hiding

ANY_DOMAIN = "*"
ATTEMPT_MS = 600_000  # from the way to the provider until the way back


class SignInInvalid(Unauthenticated):
    """What the browser brought back was not begun here, was used before, has expired, or is not accepted by the provider."""

    error_code = "SIGN_IN_INVALID"


class SignInRefused(PermissionDenied):
    """The provider knows who it is, but that person may not come in."""

    error_code = "SIGN_IN_REFUSED"

    def __init__(self, message: str, *, user_name: str = "") -> None:
        super().__init__(message)
        self.user_name = user_name


class ProviderTrouble(ApiError):
    """The provider cannot be reached, or its answer cannot be trusted. Nobody can log in with it now; tokens work."""

    error_code = "IDENTITY_PROVIDER_ERROR"
    http_status = 502


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """`groups`: values of the claim `groups_claim`, each with the group of the workspace that it stands for.
    `single_log_out`: who logs out here is sent to log out there, too."""

    issuer: str
    client_id: str
    client_secret: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    user_claim: str = "email"
    domains: tuple[str, ...] = ()
    create_users: bool = False
    single_log_out: bool = False
    groups_claim: str = "groups"
    groups: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        """Without the secret, since it may get into a log or a report."""
        return hiding(self, ("client_secret",))

    @property
    def label(self) -> str:
        """What people know it by."""
        return self.name or urlsplit(self.issuer).hostname or self.issuer


def trusted_url(url: str, *, like: str = "") -> bool:
    """Whether credentials may be sent there: https, or http on this machine; that only if the URL `like` is such a one, too."""
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        return False
    if parts.scheme == "https" or not valid:
        return valid
    return parts.scheme == "http" and _loopback(parts.hostname or "") and (not like or like.startswith("http:"))


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def group_names(text: str) -> dict[str, str]:
    """The groups of the setting: VALUE=GROUP entries, comma-separated; "=GROUP" may be left out where it is the same. Raises
    ValueError with the rule."""
    found: dict[str, str] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        value, equals, group = (part.strip() for part in entry.partition("="))
        if not value or (equals and not group):
            raise ValueError("VALUE=GROUP entries like eng=engineers, comma-separated")
        found[value] = group or value
    return found


def words(text: str) -> tuple[str, ...]:
    """The entries of a setting that is a list."""
    return tuple(text.replace(",", " ").split())


def cookie_key(state: str) -> str:
    """What the name of a log-in's cookie ends with: several windows can log in at once."""
    return hashlib.sha256(state.encode()).hexdigest()[:8]
