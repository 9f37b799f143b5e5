"""Tokens for Spark's web servers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

TOKEN_S = 300


def signed_token(key: bytes) -> str:
    """A JWS (HS256) that Spark's JWSFilter accepts for the next minutes."""
    said = [{"alg": "HS256", "typ": "JWT"}, {"sub": "brickyard", "exp": int(time.time()) + TOKEN_S}]
    text = b".".join(_part(json.dumps(each).encode()) for each in said)
    return (text + b"." + _part(hmac.new(key, text, hashlib.sha256).digest())).decode()


def _part(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
