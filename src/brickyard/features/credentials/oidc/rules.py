"""Log-in with an external OpenID Connect provider: what is asked, and whether what comes back can be believed. Pure.

OpenID Connect Core 1.0, 3.1 (authorization code), with PKCE (RFC 7636) and the issuer in the answer (RFC 9207). Signatures, keys
and times are checked by joserfc.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode

import msgspec
from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from brickyard.domain.printable import printable
from brickyard.domain.signin import ANY_DOMAIN, Provider, ProviderTrouble, SignInInvalid, SignInRefused, trusted_url

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


# Signatures with a key pair. With any other algorithm, whoever knows the client's secret or the provider's public key could sign.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
LEEWAY_S = 60  # by which clocks may differ
LOG_OUT_S = 300  # how old a provider's word that somebody has logged out may be
_OPTIONAL = ("userinfo_endpoint", "end_session_endpoint")
_LOGGED_OUT = "http://schemas.openid.net/event/backchannel-logout"
_MOST_HINT = 6_000  # characters of an ID token in a URL
_SHOWN = 200  # characters of a foreign value in a message
_NAME = re.compile(r"[^\s@\x00-\x1f\x7f]+@[^\s@\x00-\x1f\x7f]+")
_MOST_NAME = 255


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider says about itself (OpenID Connect Discovery 1.0, 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


_decode_metadata = msgspec.json.Decoder(Metadata).decode


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One log-in on its way. The browser keeps it, signed, until it comes back."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    next: str
    expires_ms: int


class Person(NamedTuple):
    """Whom the provider names. `groups` are those of the workspace that the person is in, of those that the settings name."""

    user_name: str
    display_name: str
    groups: frozenset[str]


class LoggedOut(NamedTuple):
    """Who has logged out at the provider: all log-ins of the person `sub`, or only those of the provider's session `sid`. One of
    them may be "". Log-ins after `at_ms` are others."""

    sub: str
    sid: str
    at_ms: int

    def ends(self, *, sub: str, sid: str, began_ms: int) -> bool:
        """Whether a log-in is one of them."""
        return began_ms <= self.at_ms and self.sub in ("", sub) and self.sid in ("", sid)


class UnknownKey(Exception):
    """No known key of the provider has made this signature. It may have new ones."""


def metadata(body: bytes, provider: Provider) -> Metadata:
    """The provider's own description. Raises ProviderTrouble."""
    try:
        found = _decode_metadata(body)
    except msgspec.MsgspecError as error:
        raise ProviderTrouble(f"The identity provider's discovery document cannot be used: {error}.") from error
    if found.issuer != provider.issuer:
        raise ProviderTrouble(
            f"The discovery document at {provider.issuer} is of the issuer {_quoted(found.issuer)}. oidc_issuer must be "
            "exactly what the provider calls itself."
        )
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", *_OPTIONAL):
        url = getattr(found, name)
        sound = url.isascii() and url.isprintable() and trusted_url(url, like=provider.issuer)
        if (url or name not in _OPTIONAL) and not sound:
            raise ProviderTrouble(f"The identity provider's {name} is {_quoted(url)}; it must be an https URL.")
    return found


def authorization_url(provider: Provider, found: Metadata, attempt: Attempt) -> str:
    """Where the browser goes to log in."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": " ".join(provider.scopes),
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{found.authorization_endpoint}{'&' if '?' in found.authorization_endpoint else '?'}{urlencode(asked)}"


def token_request(provider: Provider, found: Metadata, attempt: Attempt, code: str) -> tuple[dict[str, str], dict[str, str]]:
    """Form and headers that exchange a code. A client secret is sent in the way that the provider names (RFC 6749, 2.3.1)."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
        "client_id": provider.client_id,
    }
    if not provider.client_secret:
        return form, {}
    if "client_secret_basic" not in found.token_endpoint_auth_methods_supported:
        return form | {"client_secret": provider.client_secret}, {}
    pair = f"{quote_plus(provider.client_id)}:{quote_plus(provider.client_secret)}"
    return form, {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def keys(body: bytes) -> KeySet:
    """The provider's public keys. Raises ProviderTrouble."""
    try:
        return KeySet.import_key_set(msgspec.json.decode(body))
    except (msgspec.MsgspecError, JoseError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProviderTrouble(f"The identity provider's keys cannot be read: {printable(str(error)[:_SHOWN])}.") from error


def _signed(token: str, known: KeySet) -> dict[str, Any]:
    """The claims of a token that one of the keys has signed. Raises UnknownKey."""
    try:
        return jwt.decode(token, known, algorithms=ALGORITHMS).claims
    except (JoseError, ValueError) as error:
        raise UnknownKey(printable(str(error)[:_SHOWN])) from error


def verified(id_token: str, known: KeySet, provider: Provider, *, nonce: str, now_s: int) -> dict[str, Any]:
    """The claims of an ID token (OpenID Connect Core 1.0, 3.1.3.7). Raises ProviderTrouble, and UnknownKey."""
    claims = _signed(id_token, known)
    try:
        jwt.JWTClaimsRegistry(
            now=now_s,
            leeway=LEEWAY_S,
            iss={"essential": True, "value": provider.issuer},
            aud={"essential": True, "value": provider.client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(claims)
    except ExpiredTokenError as error:
        raise ProviderTrouble(
            "The ID token has expired. Check the clocks of this server and of the identity provider."
        ) from error
    except JoseError as error:
        raise ProviderTrouble(f"The ID token is not meant for this log-in: {printable(str(error)[:_SHOWN])}.") from error
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if claims.get("azp", provider.client_id if len(audiences) == 1 else "") != provider.client_id:
        raise ProviderTrouble("The ID token was issued to another client (azp).")
    return claims


def log_out_url(provider: Provider, found: Metadata, *, id_token: str, back: str, state: str) -> str:
    """Where the browser goes to log out (OpenID Connect RP-Initiated Logout 1.0, 2); "" if the provider has no such page."""
    if not found.end_session_endpoint:
        return ""
    asked = {"client_id": provider.client_id, "post_logout_redirect_uri": back, "state": state}
    if 0 < len(id_token) <= _MOST_HINT:
        asked["id_token_hint"] = id_token
    return f"{found.end_session_endpoint}{'&' if '?' in found.end_session_endpoint else '?'}{urlencode(asked)}"


def logged_out(token: str, known: KeySet, provider: Provider, *, now_s: int) -> LoggedOut:
    """What a logout token says (OpenID Connect Back-Channel Logout 1.0, 2.6). Raises SignInInvalid, and UnknownKey."""
    claims = _signed(token, known)
    try:
        jwt.JWTClaimsRegistry(
            now=now_s,
            leeway=LEEWAY_S,
            iss={"essential": True, "value": provider.issuer},
            aud={"essential": True, "value": provider.client_id},
            iat={"essential": True},
        ).validate(claims)
    except JoseError as error:
        raise SignInInvalid(
            f"The logout token is not for this workspace, or too old: {printable(str(error)[:_SHOWN])}."
        ) from error
    events, sub, sid = claims.get("events"), claims.get("sub", ""), claims.get("sid", "")
    if not isinstance(events, dict) or not isinstance(events.get(_LOGGED_OUT), dict) or "nonce" in claims:
        raise SignInInvalid("This is no logout token.")
    if not isinstance(sub, str) or not isinstance(sid, str) or not (sub or sid):
        raise SignInInvalid("The logout token names nobody (sub, sid).")
    if claims["iat"] < now_s - LOG_OUT_S - LEEWAY_S:
        raise SignInInvalid("The logout token is too old.")
    return LoggedOut(sub, sid, (int(claims["iat"]) + LEEWAY_S) * 1000)


def merged(claims: Mapping[str, Any], userinfo: bytes) -> dict[str, Any]:
    """The claims with those of the userinfo endpoint; what is in the signed token counts. Raises ProviderTrouble."""
    try:
        more = _decode_object(userinfo)
    except msgspec.MsgspecError as error:
        raise ProviderTrouble("The identity provider's userinfo cannot be read.") from error
    if more.get("sub") != claims["sub"]:
        raise ProviderTrouble("The identity provider's userinfo is of somebody else than its ID token (sub).")
    return {**more, **claims}


def needs_userinfo(claims: Mapping[str, Any], provider: Provider) -> bool:
    """Whether the ID token lacks what decides who it is."""
    return provider.user_claim not in claims or (bool(provider.groups) and provider.groups_claim not in claims)


def person(claims: Mapping[str, Any], provider: Provider) -> Person:
    """Whom the claims name. Raises SignInRefused."""
    name = claims.get(provider.user_claim)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MOST_NAME:
        raise SignInRefused(
            f"The identity provider names you {_quoted(name)} (claim {provider.user_claim}); it must be an e-mail address. "
            "Another claim can be set as oidc_user_claim."
        )
    if provider.user_claim == "email" and claims.get("email_verified") is not True:
        raise SignInRefused(
            f"The identity provider does not say that {name} was verified (claim email_verified). An administrator can set "
            "oidc_user_claim to a claim that users cannot choose.",
            user_name=name,
        )
    domain = name.rpartition("@")[2].lower()
    if provider.domains and domain not in provider.domains and ANY_DOMAIN not in provider.domains:
        said = f"{name} is not of a domain that may log in here. An administrator can add it to oidc_domains."
        raise SignInRefused(said, user_name=name)
    shown = claims.get("name")
    return Person(name, shown if isinstance(shown, str) else "", _groups(claims, provider))


def _groups(claims: Mapping[str, Any], provider: Provider) -> frozenset[str]:
    if not provider.groups:
        return frozenset()
    said = claims.get(provider.groups_claim, [])
    values = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    return frozenset(provider.groups[each] for each in values if isinstance(each, str) and each in provider.groups)


def _quoted(value: object) -> str:
    return repr(printable(str(value)[:_SHOWN]))
