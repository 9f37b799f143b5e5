"""Unsupported fields of a cluster specification, each with its reason: they are refused, never stored and ignored.

docs/parity.md lists the same fields; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import (
    ClusterSpec,
    DataSecurityMode,
    DependencyMode,
)

# Field -> (whether a non-empty value is refused, why).
_Test = Callable[[Any], bool]


def _any(_value: Any) -> bool:
    return True


_NO_EBS = "there are no EBS volumes; disks are the machine's own"

REFUSED: dict[str, tuple[_Test, str]] = {
    "docker_image": (_any, "nodes run on the machine itself, without containers"),
    "enable_local_disk_encryption": (_any, "the machine's disks are used unchanged"),
    "ssh_public_keys": (_any, "nodes have no SSH server"),
    "use_ml_runtime": (_any, "machine learning runtimes are not offered; choose one of spark-versions"),
    "dependency_mode": (
        lambda value: value is DependencyMode.DEPENDENCY_MODE_ENVIRONMENTS,
        "environments per command are not supported yet",
    ),
    "data_security_mode": (
        lambda value: (
            value
            in (
                DataSecurityMode.LEGACY_TABLE_ACL,
                DataSecurityMode.LEGACY_PASSTHROUGH,
            )
        ),
        "there are no table access controls and no credentials to pass through; use USER_ISOLATION, SINGLE_USER or NONE",
    ),
    "remote_disk_throughput": (_any, "there are no remote disks"),
    "total_initial_remote_disk_size": (_any, "there are no remote disks"),
    "driver_node_type_flexibility.aws_context_id": (_any, "there are no EC2 capacity contexts"),
    "worker_node_type_flexibility.aws_context_id": (_any, "there are no EC2 capacity contexts"),
    "aws_attributes.instance_profile_arn": (_any, "there are no instance profiles"),
    "aws_attributes.ebs_volume_count": (_any, _NO_EBS),
    "aws_attributes.ebs_volume_iops": (_any, _NO_EBS),
    "aws_attributes.ebs_volume_size": (_any, _NO_EBS),
    "aws_attributes.ebs_volume_throughput": (_any, _NO_EBS),
    "aws_attributes.ebs_volume_type": (_any, _NO_EBS),
    "azure_attributes.log_analytics_info": (_any, "there is no log analytics"),
    "azure_attributes.capacity_reservation_group": (_any, "there are no capacity reservations"),
    "gcp_attributes.google_service_account": (_any, "there are no Google service accounts"),
    "gcp_attributes.confidential_compute_type": (
        lambda value: value != "CONFIDENTIAL_COMPUTE_TYPE_NONE",
        "there is no confidential computing here",
    ),
    "gcp_attributes.local_ssd_count": (_any, "disks are the machine's own"),
    "gcp_attributes.boot_disk_size": (_any, "disks are the machine's own"),
}


# The same by the field of the specification that has it: (path, the fields below, the test, why).
_BY_FIELD: dict[str, list[tuple[str, list[str], _Test, str]]] = {}
for _path, (_refused, _why) in REFUSED.items():
    _field, *_below = _path.split(".")
    _BY_FIELD.setdefault(_field, []).append((_path, _below, _refused, _why))


def check_refused(spec: ClusterSpec) -> None:
    """Raises InvalidParameterValue for the first unsupported field."""
    for field, rules in _BY_FIELD.items():
        given: Any = getattr(spec, field)
        if given is None:
            continue
        for path, below, refused, why in rules:
            value = given
            for name in below:
                value = getattr(value, name) if value is not None else None
            if not _empty(value) and refused(value):
                raise InvalidParameterValue(f"{path} is not supported here: {why}.")


def _empty(value: Any) -> bool:
    """Whether a value means the same as its absence: "", 0, false, [], {}, and objects without a field. A nested false counts as
    set: `workload_type.clients.jobs`."""
    if isinstance(value, msgspec.Struct):
        fields = (getattr(value, name) for name in value.__struct_fields__)
        return all(field is None or (isinstance(field, msgspec.Struct) and _empty(field)) for field in fields)
    return not value
