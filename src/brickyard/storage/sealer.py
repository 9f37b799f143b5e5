"""Values that an agent keeps for the server without being able to read them back: what to hide in the logs that it leaves, and
with which credentials to deliver them.

An agent that is killed cannot hide secrets in its node's logs any more, and no file may hold a secret. So a server hands every
secret to the agent together with the secret's sealed form, which the agent keeps beside its logs. A server opens it again.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_decode_texts = msgspec.json.Decoder(list[str]).decode


_NONCE = 12
_BOUND = b"brickyard values to hide 1"


class Sealer:
    """`key` is the workspace's secret. Every server of the workspace opens what any of them has sealed."""

    def __init__(self, *, key: bytes) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_BOUND).derive(key)
        self._cipher = AESGCM(derived)

    def seal(self, values: Iterable[str]) -> str:
        """The values as text that tells nothing but about how long they are. "" for no values."""
        found = sorted(set(values))
        if not found:
            return ""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, msgspec.json.encode(found), _BOUND)).decode()

    def seal_variables(self, variables: Mapping[str, str]) -> str:
        """Variables of an environment, in the same form."""
        return self.seal(f"{name}={value}" for name, value in variables.items())

    def open_variables(self, sealed: str) -> dict[str, str]:
        """Raises ValueError, as `open` does."""
        found = (each.partition("=") for each in self.open([sealed] if sealed else []))
        return {name: value for name, _, value in found}

    def open(self, sealed: Sequence[str]) -> tuple[str, ...]:
        """All values of all these. Raises ValueError if one was sealed by another workspace or is damaged."""
        values: set[str] = set()
        for each in sealed:
            data = base64.b64decode(each, validate=True)
            try:
                values.update(_decode_texts(self._cipher.decrypt(data[:_NONCE], data[_NONCE:], _BOUND)))
            except (InvalidTag, msgspec.MsgspecError) as error:
                raise ValueError("values to hide were sealed by another workspace, or are damaged") from error
        return tuple(sorted(values))
