"""Tokens for Spark's web servers."""

from __future__ import annotations

import time

TOKEN_S = 300


def signed_token(key: bytes) -> str:
    """A JWS (HS256) that Spark's JWSFilter accepts for the next few minutes."""
    from joserfc import jwt  # noqa: PLC0415 - loads for as long as much of a server's start, and few servers need it
    from joserfc.jwk import OctKey  # noqa: PLC0415 - as above

    claims = {"sub": "brickyard", "exp": int(time.time()) + TOKEN_S}
    return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(key))
