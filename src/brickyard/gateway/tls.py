"""The gateway's certificate: configured, or generated for this machine."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from brickyard.machine.certificates import Certificate, general_name, make
from brickyard.storage.private import write_private

VALID = datetime.timedelta(days=824)  # with the day before, the longest that all clients accept
RENEW = datetime.timedelta(days=30)
_EVERYWHERE = (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))  # an address to listen on, and none to call


class TlsError(Exception):
    """The certificate cannot be used; the message says why and what to do."""


def credentials(cert: Path, key: Path) -> grpc.ServerCredentials:
    """Loads a certificate chain and its key, both PEM. Raises TlsError."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
        return grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    except ssl.SSLError as error:
        raise TlsError(
            f"{cert} and {key} are not a certificate and its key: {error.reason or error}. Give a PEM chain and its key without "
            "a passphrase (--tls-cert, --tls-key)."
        ) from error
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot read the certificate {cert} or its key {key}: {error}. Fix --tls-cert and --tls-key.") from error


def self_signed(directory: Path, host: str) -> grpc.ServerCredentials:
    """A self-signed certificate for `host` and this machine's names, kept in `directory`; renewed when it is about to expire.

    Clients trust `directory/connect.pem`; `connect-key.pem` is private. Raises TlsError.
    """
    cert, key = directory / "connect.pem", directory / "connect-key.pem"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _still_good(cert, key, host):
            made = _make(host)
            write_private(key, made.key_pem.decode())
            write_private(cert, made.pem.decode())
        return credentials(cert, key)
    except OSError as error:
        raise TlsError(
            f"cannot write a certificate to {directory}: {error.strerror}. Fix its owner, or give --tls-cert."
        ) from error


def names(host: str) -> list[x509.GeneralName]:
    """The names that clients may use for this machine: its own names and the address that the server listens on."""
    found = dict.fromkeys(map(general_name, ("localhost", "127.0.0.1", "::1", socket.gethostname(), host)))
    return [name for name in found if not (isinstance(name, x509.IPAddress) and name.value in _EVERYWHERE)]


def _still_good(cert: Path, key: Path, host: str) -> bool:
    """Whether certificate and key belong together, match the current names, and stay valid for a while."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
        parsed = x509.load_pem_x509_certificate(cert.read_bytes())
        named = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):  # ssl.SSLError is an OSError
        return False
    ends = parsed.not_valid_after_utc
    return list(named) == names(host) and ends - datetime.datetime.now(datetime.UTC) > RENEW


def _make(host: str) -> Certificate:
    return make(
        "Brickyard Spark Connect",
        valid=VALID,
        critical=[x509.BasicConstraints(ca=True, path_length=0)],
        extensions=[x509.SubjectAlternativeName(names(host)), x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])],
    )


def _no_password() -> str:
    raise ValueError("the key has a passphrase")
