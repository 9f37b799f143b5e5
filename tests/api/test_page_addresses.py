"""Addresses that people type lead to the pages of the web page, for its server and in front of another workspace."""

from __future__ import annotations

import pytest

from brickyard.api.browser.webpage import OPERATIONS, led


@pytest.mark.parametrize(
    ("operation", "values", "location"),
    [
        ("ui.to_clusters", {}, "/compute"),
        ("ui.to_clusters", {"cluster_id": "0101-000000-abc"}, "/compute/clusters/0101-000000-abc"),
        ("ui.to_clusters", {"cluster_id": "//evil.example/?a#b"}, "/compute/clusters/%2F%2Fevil.example%2F%3Fa%23b"),
        ("ui.to_pools", {"pool_id": "p"}, "/compute/pools/p"),
        ("ui.to_policies", {}, "/compute?tab=policies"),
        ("ui.link_warehouse", {"warehouse_id": "../x"}, "/compute/warehouses/..%2Fx"),
        ("ui.link_schema", {"catalog": "main", "schema": "a&b"}, "/catalog?catalog=main&schema=a%26b"),
        ("ui.link_volume", {"catalog": "main", "schema": "default", "volume": "v"}, "/files?path=/Volumes/main/default/v"),
    ],
)
def test_an_address_leads_to_its_page(operation: str, values: dict[str, str], location: str) -> None:
    reply = led(operation, values)
    assert reply is not None
    assert reply.status == 303
    assert dict(reply.headers)["location"] == location


def test_pages_themselves_lead_nowhere() -> None:
    assert led("ui.page", {"cluster_id": "x"}) is None
    assert led("ui.asset", {"file": "x"}) is None
    assert {"/clusters", "/clusters/{cluster_id}", "/jobs", "/pools", "/policies"} <= {
        path for each in OPERATIONS for path in each.paths
    }
