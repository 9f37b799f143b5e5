"""The OpenAPI document: complete, and true whatever is sent: no 5xx, and no answer but the documented ones."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from brickyard.api.app import all_operations
from brickyard.api.edge.openapi import document, openapi_operation
from tests.support.depth import DEEP
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
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
# A stream has no end, or a late one: tests/api/test_changes.py, tests/clusters/v1/test_clusters.py.
STREAMS = {"workspace.changes", "gpu_clusters.progress"}
NAMES = [operation.name for operation in OPERATIONS if operation.documented and operation.name not in STREAMS]
# Cases of one operation. A job has 6,400, most of which break one field of one task's cluster in one more way; these are spread
# over all of them.
MOST_CASES = 250


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


# Names, not cases: making all cases takes longer than collecting all other tests.
@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_a_documented_one(name: str, server: Server, known: dict[str, str]) -> None:
    operation = SCHEMA.find_operation_by_id(name)
    generation = SCHEMA.config.generation
    session = requests.Session()  # one connection for all cases

    def send(case: schemathesis.Case[Any]) -> None:
        deepened(case.body, known)
        deepened(case.query, known)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = case.call(base_url=server.url, session=session, headers=headers, timeout=PATIENCE_S)
        case.validate_response(answer, checks=CHECKS)

    modes = list(generation.modes)
    cases = list(SCHEMA.iter_coverage_cases(operation, generation_modes=modes, generation_config=generation))
    every = 1 if DEEP else math.ceil(len(cases) / MOST_CASES) or 1
    for case in cases[::every]:
        send(case)

    @settings(
        max_examples=100 if DEEP else 5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of([operation.as_strategy(mode) for mode in modes]))
    def generated(case: schemathesis.Case[Any]) -> None:
        send(case)

    generated()


def test_the_document_is_served_and_names_every_operation(server: Server) -> None:
    answer = requests.get(f"{server.url}/openapi.json", timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert answer.json() == DOCUMENT
    named = {method["operationId"] for path in DOCUMENT["paths"].values() for method in path.values()}
    assert named == {operation.name for operation in OPERATIONS if operation.documented}
    assert not [name for name in named if name.startswith("agents.")]
