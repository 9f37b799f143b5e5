"""The JSON of the Instance Pools API's page: its requests are posted as they stand, and what its responses name is in ours.

The files in `examples-pools/` are the page's blocks, byte for byte, in its order. Its list response is not JSON: tags are written
`{ "key", "value" }` there, in a list, where its get response, and every client, has an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.seeds.guide import Guide
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN

EXAMPLES = Path(__file__).parent / "examples-pools"
POOL_ID = "0101-120000-brick1-pool-ABCD1234"  # the pool that the page's examples speak of


def read(name: str) -> str:
    return (EXAMPLES / f"{name}.json").read_text()


def call(guide: Guide, method: str, path: str, *, body: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    response = requests.request(
        method, f"{guide.server.url}/api/2.0{path}", headers=headers, data=body or None, timeout=PATIENCE_S
    )
    return response.status_code, response.json()


@pytest.fixture
def pool(guide: Guide) -> Iterator[str]:
    """The page's first request, posted; the pool that it made, until the test is over."""
    status, answer = call(guide, "POST", "/instance-pools/create", body=read("1_create_request"))
    assert status == 200, answer
    assert answer.keys() == json.loads(read("2_create_response")).keys()
    yield answer["instance_pool_id"]
    call(guide, "POST", "/instance-pools/delete", body=json.dumps(answer))


def test_every_block_of_the_page_is_here() -> None:
    assert len(list(EXAMPLES.glob("*.json"))) == 6


def test_ids_have_the_shape_of_the_pages(pool: str) -> None:
    shape = re.compile(r"\d{4}-\d{6}-[a-z0-9]{6}-pool-[A-Z0-9]{8}")
    assert shape.fullmatch(json.loads(read("2_create_response"))["instance_pool_id"])
    assert shape.fullmatch(pool)


def test_edit_and_get(guide: Guide, pool: str) -> None:
    sent = read("3_edit_request")
    status, answer = call(guide, "POST", "/instance-pools/edit", body=sent.replace(POOL_ID, pool))
    assert (status, answer) == (200, {})
    status, found = call(guide, "GET", f"/instance-pools/get?instance_pool_id={pool}")
    assert status == 200
    asked = json.loads(sent) | {"instance_pool_id": pool}
    assert {name: found[name] for name in asked} == asked
    shown = json.loads(read("5_get_response"))
    assert shown.keys() - found.keys() == {"preloaded_spark_versions"}, "a pool that preloads nothing has no such field"
    assert found["default_tags"].keys() == shown["default_tags"].keys()
    assert found["stats"].keys() == shown["stats"].keys()
    for name in shown.keys() & found.keys():
        assert type(found[name]) is type(shown[name]), name


def test_list(guide: Guide, pool: str) -> None:
    status, found = call(guide, "GET", "/instance-pools/list")
    assert status == 200
    shown = read("6_list_response")
    with pytest.raises(json.JSONDecodeError):
        json.loads(shown)
    wanted = json.loads(re.sub(r'\{ ("[^"]+"), ("[^"]+") \}', r"[\1, \2]", shown))["instance_pools"][0]
    own = next(each for each in found["instance_pools"] if each["instance_pool_id"] == pool)
    assert wanted.keys() <= own.keys()
    assert {key for key, _ in wanted["default_tags"]} <= own["default_tags"].keys()
    assert own["idle_instance_autotermination_minutes"] == wanted["idle_instance_autotermination_minutes"], "the default is 60"


def test_delete(guide: Guide, pool: str) -> None:
    status, answer = call(guide, "POST", "/instance-pools/delete", body=read("4_delete_request").replace(POOL_ID, pool))
    assert (status, answer) == (200, {})
    status, answer = call(guide, "GET", f"/instance-pools/get?instance_pool_id={pool}")
    assert (status, answer["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")
