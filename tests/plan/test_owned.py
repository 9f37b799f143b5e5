"""Settings that the cluster decides itself, and fields that cannot be honoured: refused by name, never stored and ignored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import (
    AwsAttributes,
    AzureAttributes,
    ClusterSpec,
    DockerImage,
    GcpAttributes,
    NodeTypeFlexibility,
)
from brickyard.plan.owned import OWNED_VARIABLES, check_conf, check_variables
from brickyard.plan.refused import REFUSED, check_refused
from brickyard.runtime.node.jvm import launch
from brickyard.runtime.node.spark.conf import OWN
from tests.support.golden import Golden


def test_no_setting_is_accepted_that_a_node_leaves_out() -> None:
    for key in OWN:
        with pytest.raises(InvalidParameterValue, match="spark_conf." + key):
            check_conf({key: "x"}, single=False)


def test_no_variable_is_accepted_that_a_node_leaves_out(golden: Golden) -> None:
    assert set(OWNED_VARIABLES) == launch.OWN_VARIABLES
    for name in OWNED_VARIABLES:
        with golden.refused(InvalidParameterValue, f"spark_env_vars.{name} ", OWNED_VARIABLES[name]):
            check_variables({name: "x"})


@pytest.mark.parametrize(
    "conf",
    [
        {"": "x"},
        {" spark.a": "x"},
        {"spark.executor .memory": "4g"},
        {"spark.executor.memory 4g": ""},
        {"spark.a\u00a0": "x"},
        {"spark.a\n": "x"},
        {"spark.a=b": "x"},
        {"spark.a": "\0"},
        {"spark.a": "{{secrets/scope}}"},
        {"spark.a": "{{secrets/scope/a key}}"},
        {"spark.a": "{{secrets/a/b}} {{ secrets/c }}"},
        {"spark.driver.extraJavaOptions": "-Da={{secrets/scope/key}}"},
        {"spark.executor.defaultJavaOptions": "{{secrets/scope/key}}"},
        {"spark.rpc.x": "{{secrets/scope/key}}"},
        {"spark.jars.repositories": "https://u:{{secrets/scope/key}}@host"},
        {"spark.app.name": "{{secrets/scope/key}}"},
        {"spark.master": "local[*]"},
        {"spark.authenticate.secret": "guess"},
        {"spark.deploy.recoveryMode": "NONE"},
        {"spark.submit.deployMode": "cluster"},
    ],
)
def test_bad_settings(conf: dict[str, str]) -> None:
    with pytest.raises(InvalidParameterValue, match="spark_conf"):
        check_conf(conf, single=False)


def test_settings_that_users_do_set() -> None:
    for master in ("local[*]", "local", "local[4]", "local[*, 4]"):
        check_conf({"spark.master": master}, single=True)
    check_conf(
        {
            "spark.databricks.delta.preview.enabled": "true",
            "spark.driver.maxResultSize": "4g",
            "spark.driver.memory": "2g",
            "spark.executor.extraJavaOptions": "-Da=b",
            "spark.hadoop.fs.s3a.endpoint": "http://localhost",
            "spark.sql.shuffle.partitions": "",
            "spark.worker.cleanup.enabled": "true",
            "spark.hadoop.fs.s3a.secret.key": "{{secrets/scope/key}}",
            "spark.ssl.keyPassword": "a{{ secrets/s-1/k.2 }}b{{secrets/x@y/z}}",
        },
        single=False,
    )
    check_variables(
        {
            "PYSPARK_PYTHON": "/databricks/python3/bin/python3",
            "ENVIRONMENT": "production",
            "_A1": "$X {{a}}",
            "B": "{{secrets/s/k}}",
        }
    )


@pytest.mark.parametrize(
    "variables",
    [{"": "x"}, {"1A": "x"}, {"A-B": "x"}, {"A": "\0"}, {"A": "{{ secrets/s }}"}, {"JAVA_TOOL_OPTIONS": "{{secrets/s/k}}"}],
)
def test_bad_variables(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidParameterValue, match="spark_env_vars"):
        check_variables(variables)


# A value that each refused field might carry, where one can be made of its type alone.
EXAMPLES: dict[str, Any] = {
    "data_security_mode": "LEGACY_TABLE_ACL",
    "dependency_mode": "DEPENDENCY_MODE_ENVIRONMENTS",
    "docker_image": DockerImage(url="image"),
    "runtime_engine": "PHOTON",
    "ssh_public_keys": ["ssh-rsa AAAA"],
    "aws_attributes.ebs_volume_type": "GENERAL_PURPOSE_SSD",
    "azure_attributes.log_analytics_info": {"log_analytics_workspace_id": "id"},
    "gcp_attributes.confidential_compute_type": "SEV_SNP",
}


def with_field(path: str, value: Any) -> ClusterSpec:
    for name in reversed(path.split(".")):
        value = {name: msgspec.to_builtins(value)}
    return msgspec.convert(value, ClusterSpec)


def example(path: str) -> Any:
    if path in EXAMPLES:
        return EXAMPLES[path]
    owners: dict[str, Any] = {
        "aws_attributes": AwsAttributes,
        "azure_attributes": AzureAttributes,
        "gcp_attributes": GcpAttributes,
        "driver_node_type_flexibility": NodeTypeFlexibility,
        "worker_node_type_flexibility": NodeTypeFlexibility,
    }
    parent, _, name = path.rpartition(".")
    owner: Any = owners.get(parent, ClusterSpec)
    kind = str(next(field.type for field in msgspec.structs.fields(owner) if field.name == name))
    return True if "bool" in kind else 1 if "int" in kind else "x"


@pytest.mark.parametrize("path", REFUSED)
def test_every_refused_field_is_refused_by_name_with_a_reason(path: str, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, f"{path} ", REFUSED[path][1]):
        check_refused(with_field(path, example(path)))


@pytest.mark.parametrize(
    "body",
    [
        {"ssh_public_keys": [], "init_scripts": [], "policy_id": "", "use_ml_runtime": False, "remote_disk_throughput": 0},
        {"autoscale": {}, "docker_image": {}, "cluster_log_conf": {"dbfs": {}}, "workload_type": {"clients": {}}},
        {"workload_type": {"clients": {"jobs": True, "notebooks": True}}},
        {"runtime_engine": "NULL", "data_security_mode": "NONE", "dependency_mode": "DEPENDENCY_MODE_AUTO"},
        {"aws_attributes": {"availability": "ON_DEMAND", "ebs_volume_count": 0, "instance_profile_arn": ""}},
        {"azure_attributes": {"availability": "SPOT_WITH_FALLBACK_AZURE", "log_analytics_info": {}}},
        {"gcp_attributes": {"confidential_compute_type": "CONFIDENTIAL_COMPUTE_TYPE_NONE", "local_ssd_count": 0}},
    ],
)
def test_values_that_ask_for_nothing_are_accepted(body: dict[str, Any]) -> None:
    check_refused(msgspec.convert(body, ClusterSpec))
