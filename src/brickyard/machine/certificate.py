"""Makes an agent's key and certificate: `python -m brickyard.machine.certificate` prints both, as PEM.

It runs as a child: the library would add 18 MiB to every agent. Nobody looks at the names in the certificate. Servers compare its
fingerprint with the one that the agent has reported.
"""

from __future__ import annotations

import datetime
import sys

VALID = datetime.timedelta(days=20 * 365)  # as long as any agent lives; the next one makes its own


def made() -> bytes:
    """A new key and a certificate for it."""
    from cryptography import x509  # noqa: PLC0415 - in the child only
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Brickyard agent")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret + certificate.public_bytes(serialization.Encoding.PEM)


if __name__ == "__main__":
    sys.stdout.buffer.write(made())
