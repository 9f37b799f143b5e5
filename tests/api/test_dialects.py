"""An API with an envelope of its own, beside the Databricks one: its errors, whoever raises them, and their request ids."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import requests

from brickyard.api.context import ApiContext
from brickyard.api.edge.dialects import TEXT, Dialect, Failure
from brickyard.api.edge.openapi import document
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidState, TemporarilyUnavailable
from tests.support.edge import edge
from tests.support.patience import PATIENCE_S


class Stop(msgspec.Struct, frozen=True):
    cluster_id: str
    page: int = 1


def _envelope(failure: Failure) -> dict[str, Any]:
    return {
        "error": "STATE_CONFLICT" if isinstance(failure.error, InvalidState) else failure.error.error_code,
        "message": failure.message,
        "code": failure.error.http_status,
        "request_id": failure.request_id,
    }


async def _stop(_ctx: ApiContext, _caller: Caller, request: Stop) -> None:
    if request.cluster_id == "away":
        raise TemporarilyUnavailable("not now")
    if request.cluster_id == "broken":
        raise ZeroDivisionError
    raise InvalidState(f"{request.cluster_id} has stopped")


DIALECT = Dialect(
    name="EnvelopedError",
    properties={"error": TEXT, "message": TEXT, "code": {"type": "integer"}, "request_id": TEXT},
    body=_envelope,
)
STOP = Operation(
    name="other.stop",
    method="POST",
    paths=("/v1/clusters/{cluster_id}/stop",),
    handler=_stop,
    request=Stop,
    summary="Stop",
    needs=(),
    auth=Auth.USER,
    dialect=DIALECT,
)


@pytest.mark.parametrize(
    ("cluster_id", "token", "body", "status", "error"),
    [
        ("c", "secret", {}, 400, "STATE_CONFLICT"),
        ("c", "wrong", {}, 401, "UNAUTHENTICATED"),
        ("c", "secret", {"page": "x"}, 400, "MALFORMED_REQUEST"),
        ("away", "secret", {}, 503, "TEMPORARILY_UNAVAILABLE"),
        ("broken", "secret", {}, 500, "INTERNAL_ERROR"),
    ],
)
def test_every_error_of_a_group_is_in_its_dialect(
    cluster_id: str, token: str, body: dict[str, str], status: int, error: str
) -> None:
    with edge(operations=[STOP]) as url:
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.post(f"{url}/v1/clusters/{cluster_id}/stop", json=body, headers=headers, timeout=PATIENCE_S)
    said = answer.json()
    assert (answer.status_code, said["code"], said["error"]) == (status, status, error)
    assert said["request_id"] == answer.headers["x-request-id"]
    assert ("retry-after" in answer.headers) == (status == 503)
    assert set(said) == set(DIALECT.properties)


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("/api/1.2/contexts/nothing", {"error"}),
        ("/api/1.2/nothing", {"error"}),
        ("/api/2.0/preview/scim/v2/Nothing/7", {"schemas", "scimType", "detail", "status"}),
        ("/api/2.1/clusters/nothing", {"error_code", "message"}),
        ("/api/2.0/nothing", {"error_code", "message"}),
        ("/nothing", {"error_code", "message"}),
        ("/" * 10_000, {"error_code", "message"}),
    ],
)
def test_a_path_without_an_operation_is_refused_in_the_dialect_of_its_prefix(path: str, keys: set[str]) -> None:
    with edge() as url:
        answer = requests.get(url + path, timeout=PATIENCE_S)
    assert (answer.status_code, set(answer.json())) == (404, keys)


def test_the_document_describes_the_dialect() -> None:
    described = document([STOP])
    refusal = described["paths"]["/v1/clusters/{cluster_id}/stop"]["post"]["responses"]["400"]["content"]["application/json"]
    assert refusal["schema"] == {"$ref": "#/components/schemas/EnvelopedError"}
    assert described["components"]["schemas"]["EnvelopedError"]["required"] == ["code", "error", "message", "request_id"]
