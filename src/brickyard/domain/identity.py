"""Identities, groups and credentials, as stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

NEVER = -1  # for `TokenRow.expiry_ms`
ADMIN_TOKEN_ID = "admin-token"  # noqa: S105 - the name of a row, not a secret


class CredentialKind(StrEnum):
    """What a random string can stand for. Each kind counts only where it belongs: a refresh token is no bearer token."""

    PERSONAL = "pat"  # a personal access token
    ACCESS = "access"  # an OAuth access token
    REFRESH = "refresh"  # an OAuth refresh token
    CODE = "code"  # an OAuth authorization code
    CLIENT_SECRET = "client-secret"  # noqa: S105 - the name of a kind
    SESSION = "session"  # of a browser
    LINK = "link"  # logs a browser in, once
    PROVIDER = "provider"  # a log-in with the external provider, from which a session came; nothing presents it
    TASK = "task"  # of an attempt of a run, for SQL on one warehouse
    SIGN_IN = "sign-in"  # a browser's way to the external provider and back


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One credential. `digest` is a keyed hash of it (`features.credentials.digests`); the credential itself is never stored."""

    token_id: str
    digest: str
    user_name: str
    comment: str
    created_ms: int
    expiry_ms: int  # NEVER, or epoch milliseconds
    kind: CredentialKind = CredentialKind.PERSONAL
    created_by: str = ""  # the user who made it, if that is not `user_name`
    last_used_ms: int = 0  # a minute old at most; 0: never used
    parent: str = ""  # what it came from and ends with: a client secret, or the log-in that a chain of OAuth tokens began with
    details: str = ""  # JSON that only this kind needs

    def expired(self, now_ms: int) -> bool:
        """Whether the token is no longer valid."""
        return self.expiry_ms != NEVER and self.expiry_ms <= now_ms


def task_token_id(task_run_id: int) -> str:
    """The id of an attempt's token."""
    return f"task-{task_run_id}"


class IdentityKind(StrEnum):
    """What an identity is. Both kinds own objects, hold tokens and are members of groups."""

    USER = "user"
    SERVICE_PRINCIPAL = "service-principal"


class UserRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One identity. `user_name` never changes; for a service principal it is the application id. `user_id` is the SCIM id, a
    decimal number that is never given out twice. An identity that is not active can do nothing.

    `attributes`: what SCIM clients have written besides, such as `name` and `emails`.
    """

    user_name: str
    user_id: str
    kind: IdentityKind = IdentityKind.USER
    active: bool = True
    display_name: str = ""
    external_id: str = ""
    entitlements: tuple[str, ...] = ()
    created_ms: int = 0
    changed_ms: int = 0
    attributes: dict[str, Any] = {}


class GroupRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One group. Its members, identities and other groups, are rows of their own."""

    group_id: str
    display_name: str
    external_id: str = ""
    entitlements: tuple[str, ...] = ()
    created_ms: int = 0
    changed_ms: int = 0
    attributes: dict[str, Any] = {}


# The groups that every workspace has. Nobody needs a row to be in `users`: every identity is.
ADMINS_ID, USERS_ID = "1001", "1002"
BUILT_IN = frozenset({ADMINS_ID, USERS_ID})


def fold_name(name: str) -> str:
    """The form in which names of identities and groups are compared."""
    return name.lower()
