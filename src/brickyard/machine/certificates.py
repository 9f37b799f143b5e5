"""Makes keys and their certificates. `python -m brickyard.machine.certificates` prints those of an agent, as PEM.

An agent runs it as a child: the library would add 18 MiB to every agent. Nobody looks at the names in an agent's certificate.
Servers compare its fingerprint with the one that the agent has reported.
"""

from __future__ import annotations

import datetime
import ipaddress
import sys
from collections.abc import Iterable
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AGENT_VALID = datetime.timedelta(days=20 * 365)  # as long as any agent lives; the next one makes its own
EARLIER = datetime.timedelta(days=1)  # certificates are valid from then: clocks of other machines may be slow


class Certificate(NamedTuple):
    """A certificate with its private key."""

    key: ec.EllipticCurvePrivateKey
    x509: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.x509.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def make(
    name: str,
    *,
    valid: datetime.timedelta,
    critical: Iterable[x509.ExtensionType] = (),
    extensions: Iterable[x509.ExtensionType] = (),
    issuer: Certificate | None = None,
) -> Certificate:
    """Return a certificate for a new key, signed by `issuer` or, without one, by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.x509.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + valid)
    )
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    if issuer is None:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return Certificate(key, builder.sign(key, hashes.SHA256()))
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
    return Certificate(key, builder.add_extension(authority, critical=False).sign(issuer.key, hashes.SHA256()))


def general_name(host: str) -> x509.GeneralName:
    """Return the name for a certificate of a host, which is an address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host if host.isascii() else host.encode("idna").decode())


def agent_pem() -> bytes:
    """Return an agent's key and certificate, one after the other."""
    agent = make("Brickyard agent", valid=AGENT_VALID)
    return agent.key_pem + agent.pem


if __name__ == "__main__":
    sys.stdout.buffer.write(agent_pem())
