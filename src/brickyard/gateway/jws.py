"""Tokens for Spark's web servers."""

from __future__ import annotations

import time

from joserfc import jwt
from joserfc.jwk import OctKey

TOKEN_S = 300


def signed_token(key: bytes) -> str:
    """A JWS (HS256) that Spark's JWSFilter accepts for the next few minutes."""
    claims = {"sub": "brickyard", "exp": int(time.time()) + TOKEN_S}
    return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(key))
