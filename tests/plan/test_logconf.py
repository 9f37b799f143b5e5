"""Where logs are delivered: what `cluster_log_conf` says of S3."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import LogDestination
from brickyard.domain.spec import ClusterLogConf, S3StorageInfo
from brickyard.plan.logconf import log_destination

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
    ("fields", "said"),
    [
        ({"region": None}, "give region or endpoint"),
        ({"canned_acl": "bucket-owner-full-control"}, "canned_acl"),
        ({"encryption_type": "sse-s3"}, "needs enable_encryption"),
        ({"kms_key": "k"}, "needs enable_encryption"),
        ({"enable_encryption": True, "encryption_type": "aes"}, "sse-s3 or sse-kms"),
        ({"enable_encryption": True, "kms_key": "k"}, "needs encryption_type sse-kms"),
        ({"destination": "dbfs:/logs", "region": None, "endpoint": None}, "must begin with s3://"),
        ({"destination": "s3://bucket/../x"}, "'..'"),
    ],
)
def test_what_cannot_be_honoured_in_s3_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameterValue, match="cluster_log_conf") as caught:
        log_destination(ClusterLogConf(s3=S3StorageInfo(**(S3 | fields))))
    assert said in str(caught.value)
