"""The availability zones that clients may name: those of well-known cloud regions.

They all stand for the machines of this workspace: a zone does not affect placement. It is checked, so that a misspelt one is
noticed, and echoed. Data only.
"""

from __future__ import annotations

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import ClusterSpec

DEFAULT_ZONE = "auto"

_AWS = {
    "us-east-1": "abcdef",
    "us-east-2": "abc",
    "us-west-1": "abc",
    "us-west-2": "abcd",
    "ca-central-1": "abd",
    "sa-east-1": "abc",
    "eu-west-1": "abc",
    "eu-west-2": "abc",
    "eu-west-3": "abc",
    "eu-central-1": "abc",
    "eu-north-1": "abc",
    "ap-south-1": "abc",
    "ap-southeast-1": "abc",
    "ap-southeast-2": "abc",
    "ap-northeast-1": "acd",
    "ap-northeast-2": "abcd",
}
_GCP = {
    "us-central1": "abcf",
    "us-east1": "bcd",
    "us-east4": "abc",
    "us-west1": "abc",
    "us-west2": "abc",
    "northamerica-northeast1": "abc",
    "southamerica-east1": "abc",
    "europe-west1": "bcd",
    "europe-west2": "abc",
    "europe-west3": "abc",
    "europe-west4": "abc",
    "asia-south1": "abc",
    "asia-southeast1": "abc",
    "asia-northeast1": "abc",
    "australia-southeast1": "abc",
}

ZONES = (
    DEFAULT_ZONE,
    *(f"{region}{letter}" for region, letters in _AWS.items() for letter in letters),
    *(f"{region}-{letter}" for region, letters in _GCP.items() for letter in letters),
)
# "HA" spreads a cluster over zones and "AUTO" leaves the choice to the server [databricks-sdk, `GcpAttributes.zone_id`].
_ACCEPTED = frozenset({*ZONES, "HA", "AUTO"})


def check_zones(spec: ClusterSpec) -> None:
    """Raises InvalidParameterValue for an unknown zone."""
    for name, attributes in (("aws_attributes", spec.aws_attributes), ("gcp_attributes", spec.gcp_attributes)):
        check_zone(name, attributes.zone_id if attributes is not None else None)


def check_zone(name: str, zone: str | None) -> None:
    """Checks the zone of one object; `name` is its field."""
    if zone and zone not in _ACCEPTED:
        raise InvalidParameterValue(f"{name}.zone_id is {zone[:60]!r}, which is not a known zone. Choose one of list-zones.")
