"""The workspace's certificate authority: it signs the certificates with which servers speak to agents on other machines.

Its key and certificate are one private file in the storage, so all servers of the workspace have the same. Agents get the
certificate when they are launched; nobody else trusts it.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from brickyard.machine.tls import load_pem, server_context
from brickyard.storage.private import WorkspaceError, create_private

AUTHORITY_VALID = datetime.timedelta(days=20 * 365)  # a new one is not known to running agents
VALID = datetime.timedelta(days=30)
RENEW_S = 10 * 86_400.0
_EARLIER = datetime.timedelta(days=1)  # clocks of other machines may be slow


class Authority:
    """One per server, made from the workspace's file, which the first server makes. Raises WorkspaceError."""

    def __init__(self, file: Path) -> None:
        try:
            text = create_private(file, _made()).encode()
            key = serialization.load_pem_private_key(text, password=None)
            self._certificate = x509.load_pem_x509_certificate(text)
        except OSError as error:
            raise WorkspaceError(f"cannot use {file}: {error.strerror}. Run as the user who owns it.") from error
        except (ValueError, TypeError) as error:
            raise _damaged(file) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != self._certificate.public_key():
            raise _damaged(file)
        self._key = key
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def context(self, host: str) -> ssl.SSLContext:
        """A context of a server that agents call at `host`. `renew` gives it a new certificate, for connections after that."""
        context = server_context()
        self.renew(context, host)
        return context

    def renew(self, context: ssl.SSLContext, host: str) -> None:
        """Gives the context a fresh key and certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(f"Brickyard server {host}"[:64], key.public_key(), self._certificate.subject, VALID)
            .add_extension(x509.SubjectAlternativeName([_name(host)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        load_pem(context, _pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


def _made() -> str:
    """A new authority, as the text of its file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Brickyard agents' authority")])
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False
    )
    certificate = (
        _builder("Brickyard agents' authority", key.public_key(), name, AUTHORITY_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)).decode()


def _builder(
    called: str, key: ec.EllipticCurvePublicKey, issuer: x509.Name, valid: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + valid)
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _damaged(file: Path) -> WorkspaceError:
    return WorkspaceError(
        f"{file} is damaged: it must hold a private key and its certificate. Restore it from a backup; without a backup, remove "
        "it: a new one is made, and running nodes on other machines end."
    )
