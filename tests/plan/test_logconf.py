"""Where logs are delivered: what `cluster_log_conf` says of S3."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import LogDestination
from brickyard.domain.spec import ClusterLogConf, DbfsStorageInfo, LocalFileInfo, S3StorageInfo
from brickyard.plan.logconf import log_destination
from brickyard.plan.policies.logconf import log_conf
from tests.support.golden import Golden

S3: dict[str, Any] = {"destination": "s3://bucket/logs/", "region": "us-west-2"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"region": "us-west-2"}),
        ({"enable_encryption": True}, {"region": "us-west-2", "encryption": "sse-s3"}),
        (
            {"enable_encryption": True, "encryption_type": "sse-kms", "kms_key": "arn:k"},
            {"region": "us-west-2", "encryption": "sse-kms", "kms_key": "arn:k"},
        ),
        ({"region": None, "endpoint": "https://s3.test"}, {"endpoint": "https://s3.test"}),
    ],
)
def test_where_logs_are_delivered_in_s3(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    conf = ClusterLogConf(s3=S3StorageInfo(**(S3 | fields)))
    assert log_destination(conf) == LogDestination(kind="s3", path="logs", bucket="bucket", **expected)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"region": None}, ""),
        ({"canned_acl": "bucket-owner-full-control"}, "canned_acl"),
        ({"encryption_type": "sse-s3"}, "enable_encryption"),
        ({"kms_key": "k"}, "enable_encryption"),
        ({"enable_encryption": True, "encryption_type": "aes"}, ""),
        ({"enable_encryption": True, "kms_key": "k"}, "encryption_type"),
        ({"destination": "dbfs:/logs", "region": None, "endpoint": None}, ""),
        ({"destination": "s3://bucket/../x"}, ""),
    ],
)
def test_what_cannot_be_honoured_in_s3_is_refused(fields: dict[str, Any], field: str, golden: Golden) -> None:
    with pytest.raises(InvalidParameterValue, match="cluster_log_conf") as caught:
        log_destination(ClusterLogConf(s3=S3StorageInfo(**(S3 | fields))))
    golden(str(caught.value), field)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dbfs": DbfsStorageInfo(destination="dbfs:/logs")}, LogDestination(kind="dbfs", path="logs")),
        ({"file": LocalFileInfo(destination="file:/dbfs/logs")}, LogDestination(kind="dbfs", path="logs")),
        ({"file": LocalFileInfo(destination="/dbfs/logs")}, LogDestination(kind="dbfs", path="logs")),
        ({"file": LocalFileInfo(destination="file:/Volumes/a/b/c/d")}, LogDestination(kind="volumes", path="a/b/c/d", volume=3)),
    ],
)
def test_where_logs_are_delivered_among_the_workspaces_files(fields: dict[str, Any], expected: LogDestination) -> None:
    assert log_destination(ClusterLogConf(**fields)) == expected


@pytest.mark.parametrize(
    "destination", ["file:/logs", "/logs", "file:/Workspace/logs", "file:/tmp/../dbfs/x", "file:/dbfsx", "s3://a/b"]
)
def test_a_nodes_own_files_are_no_destination(destination: str) -> None:
    with pytest.raises(InvalidParameterValue, match=r"cluster_log_conf\.file\.destination"):
        log_destination(ClusterLogConf(file=LocalFileInfo(destination=destination)))


@pytest.mark.parametrize("destination", ["file:/dbfs/logs", "/dbfs/logs"])
def test_policies_mean_places_and_not_their_names(destination: str) -> None:
    said = log_conf({"cluster_log_conf": {"file": {"destination": destination}}})
    assert (said["cluster_log_conf.type"], said["cluster_log_conf.path"]) == ("DBFS", "dbfs:/logs")


def test_dbfs_is_written_as_dbfs(golden: Golden) -> None:
    with golden.refused(InvalidParameterValue):
        log_destination(ClusterLogConf(dbfs=DbfsStorageInfo(destination="file:/dbfs/logs")))
