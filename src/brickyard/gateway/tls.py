"""The certificate that the server shows to clients: given, or signed by the workspace's authority. It is kept valid while the
server runs: a given one is read again when its files change, and our own is made anew long before it ends."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
from cryptography import x509

from brickyard.config.settings import Settings
from brickyard.domain.periodic import Periodic
from brickyard.gateway.errors import GatewayError
from brickyard.machine.addresses import own_addresses
from brickyard.machine.certificates import general_name
from brickyard.machine.tls import load_pem
from brickyard.nodes.authority import CLIENTS, RENEW_S, Authority
from brickyard.storage.private import write_private

LOOK_S = 60.0  # how often to look whether the files of a given certificate have changed
_EVERYWHERE = (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))  # an address to listen on, and none to call

log = structlog.get_logger(__name__)


class Pair(NamedTuple):
    """A certificate chain and its key, both PEM."""

    chain: bytes
    key: bytes


class ServerCertificate(Periodic):
    """The current certificate. `context` is for HTTP: connections that begin after a renewal have the new one."""

    def __init__(self, source: Callable[[], Pair], *, every_s: float) -> None:
        super().__init__(every_s=every_s, later=True)
        self._source = source
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # at least TLS 1.2, as Python's default
        self.context.set_alpn_protocols(["http/1.1"])
        self.pair = source()
        _load(self.context, self.pair)

    async def run_once(self) -> None:
        """Renew the certificate. One that cannot be used leaves the present one in its place."""
        try:
            pair = await asyncio.to_thread(self._source)
        except GatewayError as error:
            log.warning("certificate_not_renewed", why=str(error))
            return
        if pair != self.pair:
            _load(self.context, pair)
            self.pair = pair
            log.info("certificate_renewed")


def certificate(settings: Settings, authority_file: Path) -> ServerCertificate:
    """The certificate for these settings, which ask for one. Raises GatewayError, WorkspaceError."""
    cert, key = settings.tls_cert, settings.tls_key
    if cert is not None and key is not None:
        return ServerCertificate(lambda: given(cert, key), every_s=LOOK_S)
    authority = Authority(authority_file, CLIENTS)
    if (ca_file := settings.ca_file) is not None:
        _publish(authority, ca_file)
    return ServerCertificate(lambda: _issued(authority, names(settings)), every_s=RENEW_S)


def _publish(authority: Authority, file: Path) -> None:
    """Writes what clients must trust. Raises GatewayError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != authority.pem:
            write_private(file, authority.pem)
    except OSError as error:
        why = f"cannot write {file}: {error.strerror}. Fix its owner, or give --tls-cert."
        raise GatewayError(why, fatal=True) from error


def given(cert: Path, key: Path) -> Pair:
    """A certificate from files. Raises GatewayError."""
    try:
        pair = Pair(cert.read_bytes(), key.read_bytes())
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)
    except ssl.SSLError as error:
        why = (
            f"{cert} and {key} are not a certificate and its key: {error.reason or error}. Give a PEM chain and its key without "
        )
        raise GatewayError(f"{why}a passphrase (--tls-cert, --tls-key).", fatal=True) from error
    except (OSError, ValueError) as error:
        why = f"cannot read the certificate {cert} or its key {key}: {error}. Fix --tls-cert and --tls-key."
        raise GatewayError(why, fatal=True) from error
    return pair


def names(settings: Settings) -> list[x509.GeneralName]:
    """The names by which clients may call the server: this machine's, those of its settings, and the addresses at which it
    listens."""
    listens = settings.host.strip("[]")
    hosts = ["localhost", "127.0.0.1", "::1", socket.gethostname(), listens]
    given = (settings.public_url, settings.external_url)
    hosts += [*(urlsplit(each).hostname or "" for each in given), *(each.strip() for each in settings.host_names.split(","))]
    if _is_everywhere(listens):
        hosts += own_addresses()
    return list(dict.fromkeys(general_name(host) for host in hosts if host and not _is_everywhere(host)))


def _issued(authority: Authority, hosts: Iterable[x509.GeneralName]) -> Pair:
    made = authority.issue("Brickyard", hosts)
    return Pair(made.pem, made.key_pem)


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in _EVERYWHERE
    except ValueError:
        return False


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    load_pem(context, pair.key + b"\n" + pair.chain, password=_no_password)


def _no_password() -> str:
    raise ValueError("the key has a passphrase")
