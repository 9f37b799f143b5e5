"""The OpenAPI document: complete, and true whatever is sent: no 5xx, and no answer but the documented ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from brickyard.api.app import all_operations
from brickyard.api.edge.openapi import document, openapi_operation
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

OPERATIONS = (*all_operations(), openapi_operation(all_operations()))
DOCUMENT = msgspec.json.decode(msgspec.json.encode(document(OPERATIONS)))
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# A stream has no end: tests/api/test_changes.py.
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(operation_id="workspace.changes")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.running(tmp_path_factory.mktemp("fuzzed"), provider="simulated") as running:
        yield running


@pytest.fixture(scope="module")
def known(server: Server) -> dict[str, str]:
    """Values by which a request gets past the first checks."""
    made = server.client().clusters.create("17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    assert made.cluster_id
    return {
        "cluster_id": made.cluster_id,
        "clusterId": made.cluster_id,
        "spark_version": "17.3.x-scala2.13",
        "node_type_id": "i3.xlarge",
    }


def deepened(values: object, known: dict[str, str]) -> None:
    """Put known values for those that were made up, in every other request."""
    if isinstance(values, dict) and len(repr(values)) % 2:
        values.update({key: value for key, value in known.items() if key in values})


@schema.parametrize()
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_a_documented_one(case: schemathesis.Case[Any], server: Server, known: dict[str, str]) -> None:
    deepened(case.body, known)
    deepened(case.query, known)
    answer = case.call(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"})
    case.validate_response(answer, checks=CHECKS)


def test_the_document_is_served_and_names_every_operation(server: Server) -> None:
    answer = requests.get(f"{server.url}/openapi.json", timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert answer.json() == DOCUMENT
    named = {method["operationId"] for path in DOCUMENT["paths"].values() for method in path.values()}
    assert named == {operation.name for operation in OPERATIONS if operation.documented}
    assert not [name for name in named if name.startswith("agents.")]
