"""The workspace's certificate authorities: one signs the certificates with which servers speak to agents on other machines, one
those that servers show to clients (`gateway/tls.py`), if nobody has given them another.

Key and certificate of each are one private file in the storage, so all servers of the workspace have the same. Agents get their
authority's certificate when they are launched; nobody else trusts it.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from brickyard.machine.certificates import Certificate, general_name, make
from brickyard.machine.tls import load_pem, server_context
from brickyard.storage.private import WorkspaceError, create_private

AUTHORITY_VALID = datetime.timedelta(days=20 * 365)  # a new one is not known to running agents
VALID = datetime.timedelta(days=30)
RENEW_S = 10 * 86_400.0


class Purpose(NamedTuple):
    """Whom an authority is for. `without`: what happens when its file is lost."""

    name: str
    without: str


AGENTS = Purpose("Brickyard agents' authority", "running nodes on other machines end")
CLIENTS = Purpose("Brickyard workspace authority", "clients must trust that one")


class Authority:
    """One per server, made from the workspace's file, which the first server makes. Raises WorkspaceError."""

    def __init__(self, file: Path, purpose: Purpose = AGENTS) -> None:
        try:
            text = create_private(file, _made(purpose)).encode()
            key = serialization.load_pem_private_key(text, password=None)
            certificate = x509.load_pem_x509_certificate(text)
        except OSError as error:
            raise WorkspaceError(f"cannot use {file}: {error.strerror}. Run as the user who owns it.") from error
        except (ValueError, TypeError) as error:
            raise _damaged(file, purpose) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise _damaged(file, purpose)
        self._authority = Certificate(key, certificate)
        self.pem = self._authority.pem.decode()

    def context(self, host: str) -> ssl.SSLContext:
        """A context of a server that agents call at `host`. `renew` gives it a new certificate, for connections after that."""
        context = server_context()
        self.renew(context, host)
        return context

    def renew(self, context: ssl.SSLContext, host: str) -> None:
        """Gives the context a fresh key and certificate."""
        made = self.issue(f"Brickyard server {host}", [general_name(host)])
        load_pem(context, made.key_pem + made.pem)

    def issue(self, name: str, hosts: Iterable[x509.GeneralName]) -> Certificate:
        """A certificate for a server with a new key."""
        return make(
            name,
            valid=VALID,
            critical=[x509.BasicConstraints(ca=False, path_length=None)],
            extensions=[x509.SubjectAlternativeName(hosts), x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])],
            issuer=self._authority,
        )


def _made(purpose: Purpose) -> str:
    """A new authority, as the text of its file."""
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False
    )
    made = make(
        purpose.name,
        valid=AUTHORITY_VALID,
        critical=[
            x509.BasicConstraints(ca=True, path_length=0),
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage),
        ],
    )
    return (made.key_pem + made.pem).decode()


def _damaged(file: Path, purpose: Purpose) -> WorkspaceError:
    return WorkspaceError(
        f"{file} is damaged: it must hold a private key and its certificate. Restore it from a backup; without a backup, remove "
        f"it: a new one is made, and {purpose.without}."
    )
