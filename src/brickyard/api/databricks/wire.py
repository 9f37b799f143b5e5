"""Requests and responses that only the API uses. Those of clusters, which services use too, are in `domain.requests` and
`domain.views`."""

from __future__ import annotations

from brickyard.domain.spec import Wire


class Discovery(Wire, frozen=True, kw_only=True):
    """What clients learn about a host before they authenticate."""

    oidc_endpoint: str
    account_id: str
    workspace_id: str
    host_type: str
