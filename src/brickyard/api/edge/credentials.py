"""The token that a request carries."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from brickyard.domain.errors import MalformedRequest


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token that was sent, or "". Basic with the user `token` is how old clients and .netrc files send one.

    Raises MalformedRequest for two Authorization headers: whoever stands before us may have looked at the other one.
    """
    sent = [value for key, value in headers if key == b"authorization"]
    if len(sent) > 1:
        raise MalformedRequest(f"The request has {len(sent)} Authorization headers. Send one.")
    scheme, _, rest = sent[0].partition(b" ") if sent else (b"", b"", b"")
    if scheme.lower() == b"bearer":
        return rest.strip().decode("latin-1")
    if scheme.lower() == b"basic":
        try:
            user, _, password = base64.b64decode(rest, validate=True).partition(b":")
        except binascii.Error:
            return ""
        return password.decode("latin-1") if user == b"token" else ""
    return ""
