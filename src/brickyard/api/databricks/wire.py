"""Requests and responses that only the API uses. Those of clusters, which services use too, are in `domain.requests` and
`domain.views`."""

from __future__ import annotations

import msgspec

from brickyard.domain.spec import Wire


class Discovery(Wire, frozen=True, kw_only=True):
    """What clients learn about a host before they authenticate. There is no OAuth, hence no `oidc_endpoint`."""

    account_id: str
    workspace_id: str
    host_type: str


class CreateTokenRequest(Wire, frozen=True, kw_only=True):
    """A token without `lifetime_seconds` does not expire."""

    comment: str | None = None
    lifetime_seconds: int | None = None


class PublicTokenInfo(Wire, frozen=True, kw_only=True):
    """A token as its user sees it. Times are epoch milliseconds; an `expiry_time` of -1 means never."""

    token_id: str
    creation_time: int
    expiry_time: int
    comment: str | None = None


class CreateTokenResponse(Wire, frozen=True, kw_only=True):
    """`token_value` is shown only in this response."""

    token_value: str
    token_info: PublicTokenInfo


class ListPublicTokensResponse(Wire, frozen=True, kw_only=True):
    token_infos: list[PublicTokenInfo] | None = None


class RevokeTokenRequest(Wire, frozen=True, kw_only=True):
    token_id: str


class ScimValue(Wire, frozen=True, kw_only=True):
    """A value with attributes: an address, a group, an entitlement."""

    value: str
    display: str | None = None
    primary: bool | None = None
    type: str | None = None
    ref: str | None = msgspec.field(default=None, name="$ref")


class ScimName(Wire, frozen=True, kw_only=True):
    family_name: str | None = msgspec.field(default=None, name="familyName")
    given_name: str | None = msgspec.field(default=None, name="givenName")


class ScimUser(Wire, frozen=True, kw_only=True):
    """A user in SCIM's format."""

    schemas: list[str]
    id: str
    user_name: str = msgspec.field(name="userName")
    display_name: str = msgspec.field(name="displayName")
    active: bool
    name: ScimName
    emails: list[ScimValue]
    groups: list[ScimValue]
    entitlements: list[ScimValue]
