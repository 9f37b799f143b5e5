"""Whatever is sent: an error that names field and rule, and nothing is made of it."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import msgspec
import pytest
import requests

from brickyard.api.edge.registry import BODY_LIMIT
from brickyard.domain.errors import RETRY_PHRASES
from brickyard.domain.requests import CreateCluster
from brickyard.plan.spec import MAX_SPEC
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

GOOD = {"cluster_name": "c", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}
WRONG: tuple[Any, ...] = ([], {}, [[]], {"a": {}}, "x", 1.5, -1, True, [1], {"a": 1}, 2**70, "\u0000")
FIELDS = msgspec.structs.fields(CreateCluster)


@pytest.fixture(scope="module")
def cluster_id(server: Server) -> str:
    return str(ask(server, "create", GOOD).json()["cluster_id"])


def ask(server: Server, verb: str, body: Any) -> requests.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    while True:
        answer = requests.post(f"{server.url}/api/2.1/clusters/{verb}", data=data, headers=headers, timeout=PATIENCE_S)
        if answer.status_code != 429:  # a busy machine: it asks to wait, as any client does
            return answer
        time.sleep(float(answer.headers["Retry-After"]))


def count(server: Server) -> int:
    answer = requests.get(f"{server.url}/api/2.0/clusters/list", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)
    return len(answer.json()["clusters"])


def refusal(answer: requests.Response, *codes: str) -> str:
    assert answer.status_code in (400, 404, 413), answer.text[:500]
    body = answer.json()
    assert body["error_code"] in (codes or ("INVALID_PARAMETER_VALUE", "MALFORMED_REQUEST", "RESOURCE_DOES_NOT_EXIST"))
    message = str(body["message"])
    assert message.strip()
    assert len(message) < 4_000, "an error repeats what was sent"
    assert not any(phrase in message for phrase in RETRY_PHRASES)
    return message


@pytest.mark.parametrize("field", [field.encode_name for field in FIELDS])
def test_a_value_of_a_wrong_type_is_refused_by_name(server: Server, field: str) -> None:
    """A value that can be read as what is expected is taken, as clients need it; no other is."""
    refused = 0
    for value in WRONG:
        before = count(server)
        answer = ask(server, "create", GOOD | {field: value})
        if answer.status_code == 200:
            continue
        refused += 1
        message = refusal(answer)
        assert field in message or field.split("_", maxsplit=1)[0] in message.lower(), message
        assert count(server) == before
    assert refused >= 5


ENUMS = [
    ("create", {"data_security_mode": "NO_SUCH"}, "data_security_mode"),
    ("create", {"kind": "NO_SUCH"}, "kind"),
    ("create", {"runtime_engine": "photon"}, "runtime_engine"),
    ("create", {"aws_attributes": {"availability": "CHEAP"}}, "aws_attributes.availability"),
    ("create", {"aws_attributes": {"ebs_volume_type": "TAPE"}}, "aws_attributes.ebs_volume_type"),
    ("create", {"azure_attributes": {"availability": ""}}, "azure_attributes.availability"),
    ("create", {"gcp_attributes": {"availability": "1"}}, "gcp_attributes.availability"),
    ("events", {"event_types": ["RUNNING", "NO_SUCH"]}, "event_types"),
    ("events", {"order": "SIDEWAYS"}, "order"),
]


@pytest.mark.parametrize(("verb", "changes", "path"), ENUMS)
def test_an_unknown_value_of_an_enum_is_refused_with_those_that_are_allowed(
    server: Server, cluster_id: str, verb: str, changes: dict[str, Any], path: str
) -> None:
    body = GOOD | changes if verb == "create" else {"cluster_id": cluster_id} | changes
    message = refusal(ask(server, verb, body), "INVALID_PARAMETER_VALUE")
    assert path in message
    assert "Allowed: " in message


RANGES = [
    ("create", {"num_workers": -1}, "num_workers"),
    ("create", {"num_workers": 0}, "at least 1 worker"),
    ("create", {"num_workers": 100_001}, "num_workers"),
    ("create", {"num_workers": 2**63}, "num_workers"),
    ("create", {"autotermination_minutes": 9}, "autotermination_minutes"),
    ("create", {"autotermination_minutes": -1}, "autotermination_minutes"),
    ("create", {"autotermination_minutes": 10_001}, "autotermination_minutes"),
    ("create", {"num_workers": None, "autoscale": {"min_workers": 3, "max_workers": 2}}, "autoscale"),
    ("create", {"num_workers": None, "autoscale": {"min_workers": 2, "max_workers": 2}}, "autoscale"),
    ("create", {"num_workers": None, "autoscale": {"min_workers": -1, "max_workers": 2}}, "autoscale"),
    ("create", {"custom_tags": {f"k{number}": "v" for number in range(46)}}, "custom_tags"),
    ("create", {"custom_tags": {"k" * 128: "v"}}, "custom_tags"),
    ("create", {"cluster_name": "n" * 1_001}, "cluster_name"),
    ("create", {"idempotency_token": "t" * 65}, "idempotency_token"),
    ("create", {"aws_attributes": {"first_on_demand": -1}}, "first_on_demand"),
    ("create", {"aws_attributes": {"spot_bid_price_percent": 10_001}}, "spot_bid_price_percent"),
    ("events", {"limit": 0}, "limit"),
    ("events", {"limit": 501}, "limit"),
    ("events", {"offset": -1}, "offset"),
    ("events", {"start_time": 2, "end_time": 1}, "start_time"),
    ("events", {"start_time": 10**30}, "start_time"),
    ("resize", {}, "size"),
    ("change-owner", {}, "owner_username"),
    ("update", {"update_mask": "num_workers.x"}, "num_workers"),
    ("update", {"update_mask": ""}, "update_mask"),
]


@pytest.mark.parametrize(("verb", "changes", "words"), RANGES)
def test_a_number_out_of_its_range_is_refused_by_name(
    server: Server, cluster_id: str, verb: str, changes: dict[str, Any], words: str
) -> None:
    body = GOOD | changes if verb == "create" else {"cluster_id": cluster_id} | changes
    assert words in refusal(ask(server, verb, body))


@pytest.mark.parametrize("text", [b'{"num_workers": NaN}', b'{"num_workers": 1e400}', b'{"num_workers": Infinity}'])
def test_numbers_that_are_none(server: Server, text: bytes) -> None:
    refusal(ask(server, "create", text))


QUERIES = [
    ("get", "", "cluster_id"),
    ("get", "cluster_id=", "does not exist"),
    ("get", "cluster_id=%FF", "UTF-8"),
    ("get", "cluster_id=a%00b", "cluster_id"),
    ("get", "cluster_id=" + "x" * 20_000, "does not exist"),
    ("list", "page_size=many", "page_size"),
    ("list", "page_size=-1", "page_size"),
    ("list", "page_size=99999999999999999999", "page_size"),
    ("list", "page_token=nonsense", "page_token"),
    ("list", "filter_by.is_pinned=perhaps", "filter_by.is_pinned"),
    ("list", "filter_by.cluster_states=ASLEEP", "filter_by.cluster_states"),
    ("list", "filter_by.cluster_sources=SPACE", "filter_by.cluster_sources"),
    ("list", "sort_by.field=COLOUR", "sort_by.field"),
    ("list", "sort_by.direction=DOWN", "sort_by.direction"),
    ("list", "&".join(f"k{number}=v" for number in range(2_000)) + "&a=%20", "1000"),
]


@pytest.mark.parametrize(("verb", "query", "words"), QUERIES, ids=[f"{verb}-{words}" for verb, _, words in QUERIES])
def test_a_query_that_makes_no_sense_is_refused_by_name(server: Server, verb: str, query: str, words: str) -> None:
    url, headers = f"{server.url}/api/2.1/clusters/{verb}?{query}", {"Authorization": f"Bearer {TOKEN}"}
    assert words in refusal(requests.get(url, headers=headers, timeout=PATIENCE_S))


NOT_JSON = {
    "nothing": b" ",
    "half": b'{"cluster_name": "a',
    "a list": b"[]",
    "text": b'"create"',
    "two": b"{} {}",
    "not UTF-8": b'{"cluster_name": "\xff"}',
    "half a character": b'{"cluster_name": "\\ud800"}',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "keys": b"{" + b",".join(b'"k%d":1' % number for number in range(200_000)) + b"}",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_bodies_that_are_no_request(server: Server, name: str) -> None:
    refusal(ask(server, "create", NOT_JSON[name]))


def test_random_bytes(server: Server) -> None:
    dice = random.Random(7)  # noqa: S311 - reproducible
    for _ in range(100):
        refusal(ask(server, "create", dice.randbytes(dice.randrange(1, 200))))


def test_bodies_up_to_ten_megabytes_are_read_and_larger_ones_are_not(server: Server, cluster_id: str) -> None:
    before = count(server)
    ballast = json.dumps({"cluster_id": cluster_id, "unknown": "x"}).encode()
    largest = ballast.replace(b'"x"', b'"' + b"x" * (BODY_LIMIT - len(ballast) + 1) + b'"')
    assert len(largest) == BODY_LIMIT == 10 * 1024 * 1024
    assert ask(server, "events", largest).status_code == 200
    message = refusal(ask(server, "events", largest + b" "), "MAX_REQUEST_SIZE_EXCEEDED")
    assert str(BODY_LIMIT) in message
    for field, value in (
        ("cluster_name", "n" * 9_000_000),
        ("spark_conf", {"spark.a": "v" * 9_000_000}),
        ("spark_env_vars", {f"V{number}": "v" for number in range(500_000)}),
        ("custom_tags", {"k": "v" * 9_000_000}),
        ("init_scripts", [{}] * 1_000_000),
        ("node_type_id", "n" * 9_000_000),
        ("spark_version", "n" * 9_000_000),
        ("data_security_mode", "n" * 9_000_000),
    ):
        assert field in refusal(ask(server, "create", GOOD | {field: value}))
    for verb, body in (
        ("start", {"cluster_id": "c" * 9_000_000}),
        ("update", {"cluster_id": cluster_id, "update_mask": "m" * 9_000_000}),
        ("change-owner", {"cluster_id": cluster_id, "owner_username": "o" * 9_000_000}),
        ("events", {"cluster_id": cluster_id, "page_token": "t" * 9_000_000}),
        ("create", GOOD | {"clone_from": {"source_cluster_id": "c" * 9_000_000}}),
    ):
        answer = ask(server, verb, body)
        assert answer.status_code == 400
        assert len(answer.content) < 4_000
    assert count(server) == before


def test_a_specification_has_an_end(server: Server) -> None:
    message = refusal(ask(server, "create", GOOD | {"spark_conf": {"spark.a": "v" * MAX_SPEC}}), "INVALID_PARAMETER_VALUE")
    assert f"at most {MAX_SPEC} are allowed" in message
    assert "in spark_conf" in message
    fits = {"spark.a": "v" * (MAX_SPEC - 10_000)}
    made = ask(server, "create", GOOD | {"spark_conf": fits})
    assert made.status_code == 200
    assert server.client().clusters.get(made.json()["cluster_id"]).spark_conf == fits
