"""Tokens of others, which an administrator makes."""

from __future__ import annotations

from databricks.sdk import WorkspaceClient


def create(workspace: WorkspaceClient, user_name: str, *, comment: str = "", days: int | None = None) -> str:
    """A new token of that user. Raises the SDK's errors."""
    lifetime = {} if days is None else {"lifetime_seconds": days * 86_400}
    body = {"user_name": user_name, "comment": comment} | lifetime
    answer = workspace.api_client.do("POST", "/api/2.1/token-management/tokens", body=body)
    assert isinstance(answer, dict)
    return str(answer["token_value"])
