"""The objects of an instance, by the official schemas, and the settings that may add to them."""

from __future__ import annotations

import base64
import json
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.unit import Unit
from brickyard.config.load import load
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Setup, SetupError
from brickyard.providers.kubernetes import open_provider, pods
from brickyard.providers.kubernetes.objects import Meta, Pod
from brickyard.providers.kubernetes.section import KubernetesSection
from brickyard.runtime.catalogue import rows
from brickyard.storage.directory import Storage
from tests.kubernetes.schemas import mistakes
from tests.support.golden import Golden

GPU_TYPE = {
    "node_type_id": "train",
    "num_cores": 3.5,
    "memory_mb": 16384,
    "num_gpus": 2,
    "engine": {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        "spec": {
            "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "priorityClassName": "high",
        },
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}], "resources": {"rdma/hca": 1}},
    },
}


def section(**more: Any) -> KubernetesSection:
    values = {"image": "example.org/brickyard:1", "run_as_user": 1000, "node_types": [GPU_TYPE]}
    return msgspec.convert({**values, **more}, KubernetesSection)


def request(kind: str = "k8s.small", **tags: str) -> LaunchRequest:
    train = kind == "train"
    node_type = NodeType(
        node_type_id=kind, num_cores=3.5 if train else 1.0, memory_mb=16384 if train else 2048, category="test",
        num_gpus=2 if train else 0,
    )  # fmt: skip
    return LaunchRequest(
        instance_id="i-0123456789abcdef", node_type=node_type, server_url="https://server:8443", agent_token="secret-a",
        server_token="secret-s", tags={"ClusterId": "0101-000000-abcdefgh", "Role": "driver", **tags},
    )  # fmt: skip


def made(kind: str = "k8s.small", **more: Any) -> dict[str, Any]:
    document = pods.pod(request(kind), section=section(**more), workspace_id="1234", storage_dir="/srv/brickyard")
    assert mistakes(document) == []
    return document


def test_a_pod_is_unprivileged_and_gets_what_its_node_type_says() -> None:
    pod = made(storage_claim="storage", cache_claim="cache", machine_cache_dir="/var/cache/brickyard", disk_gb=20)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"] == {"cpu": "1000m", "memory": "2048Mi", "ephemeral-storage": "20480Mi"}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["brickyard-cache"] == "/var/cache/brickyard"
    assert {each["name"] for each in spec["volumes"]} == set(mounts)
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert "secret-" not in json.dumps(pod), "tokens are in the Secret alone"
    (unit,) = (each["secret"] for each in spec["volumes"] if "secret" in each)
    assert [each["key"] for each in unit["items"]] == ["unit.json"], "and in no file of the container"


def test_autoscalers_leave_its_machine_alone_unless_the_settings_let_them() -> None:
    key, other = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
    assert made()["metadata"]["annotations"].items() >= {key: "false", other: "true"}.items()
    assert made(pod={"metadata": {"annotations": {key: "true"}}})["metadata"]["annotations"][key] == "true"


@pytest.mark.parametrize("top", ["", "/srv", "/srv/brickyard"])
def test_a_pod_has_the_workspaces_files_and_none_of_its_secrets(top: str) -> None:
    pod = made(storage_claim="storage", storage_mount=top)
    mounts = [each for each in pod["spec"]["containers"][0]["volumeMounts"] if each["name"] == "brickyard-storage"]
    inside = PurePosixPath("/srv/brickyard").relative_to(top or "/srv/brickyard")
    shown = {each["mountPath"]: each["subPath"] for each in mounts}
    assert {at: shown[at] for at in ("/dbfs", "/Volumes", "/Workspace")} == {
        "/dbfs": str(inside / "dbfs"), "/Volumes": str(inside / "volumes"), "/Workspace": str(inside / "workspace"),
    }  # fmt: skip
    assert shown["/srv/brickyard/dbfs"] == str(inside / "dbfs")
    assert {path.name for path in Storage(Path("/srv/brickyard")).of_nodes} | {"workspace.id"} == {
        PurePosixPath(at).name for at in shown if at.startswith("/srv/brickyard/")
    }
    assert all(each["subPath"] not in ("", ".", str(inside)) for each in mounts), "the whole storage has keys and tokens in it"
    (identity,) = [each for each in mounts if each["mountPath"].endswith("workspace.id")]
    assert identity["readOnly"]


def test_a_claim_without_the_storage_in_it_is_refused(golden: Golden) -> None:
    with golden.refused(SetupError, "storage_mount"):
        made(storage_claim="storage", storage_mount="/mnt")


def test_where_a_pod_has_the_workspaces_files_nothing_else_is_mounted(golden: Golden) -> None:
    mine = {"container": {"volumeMounts": [{"name": "mine", "mountPath": "/dbfs"}]}}
    section(pod=mine).check()
    with golden.refused(SetupError):
        section(pod=mine, storage_claim="storage").check()


def test_a_node_type_adds_what_the_settings_say() -> None:
    pod = made("train", pod={"spec": {"tolerations": [{"operator": "Exists", "key": "all"}], "nodeSelector": {"zone": "a"}}})
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "zone": "a", "pool": "gpu"}
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu", "all", "dedicated"]
    assert container["resources"]["limits"] == {"cpu": "3500m", "memory": "16384Mi", "nvidia.com/gpu": "2", "rdma/hca": "1"}
    assert container["volumeMounts"][-1] == {"name": "data", "mountPath": "/data"}
    assert (pod["metadata"]["labels"]["team"], spec["priorityClassName"]) == ("vision", "high")
    assert "team" not in made()["metadata"]["labels"], "other node types are left alone"


@pytest.mark.parametrize(
    ("engine", "field"),
    [
        ({"spec": {"containers": []}}, "`containers`"),
        ({"spec": {"serviceAccountName": "admin"}}, "`serviceAccountName`"),
        ({"spec": {"restartPolicy": "Always"}}, "`restartPolicy`"),
        ({"container": {"securityContext": {"privileged": True}}}, "`securityContext`"),
        ({"container": {"command": ["sh"]}}, "`command`"),
        ({"container": {"resources": {"memory": "1Gi"}}}, ""),
        ({"container": {"volumeMounts": [{"name": "brickyard-unit", "mountPath": "/x"}]}}, ""),
        ({"container": {"volumeMounts": [{"name": "x", "mountPath": "/run/brickyard/"}]}}, ""),
        ({"spec": {"volumes": [{"name": "brickyard-unit", "emptyDir": {}}]}}, ""),
        ({"metadata": {"labels": {"brickyard.io/workspace": "9"}}}, ""),
    ],
)
def test_what_is_ours_cannot_be_changed(engine: dict[str, object], field: str, golden: Golden) -> None:
    with golden.refused(SetupError, field):
        section(node_types=[{**GPU_TYPE, "engine": engine}]).check()
    with golden.refused(SetupError, field):
        section(pod=engine).check()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"image": ""}, "kubernetes.image"),
        ({"grace_s": 5}, "kubernetes.grace_s"),
        ({"server_networks": ["server"]}, ""),
        ({"cache_claim": "x"}, "kubernetes.cache_claim"),
    ],
)
def test_settings_that_cannot_work_are_refused(more: dict[str, object], field: str, golden: Golden) -> None:
    with golden.refused(SetupError, field):
        section(**more).check()


@pytest.mark.parametrize("line", ["internet = false", 'network = "isolated"'])
def test_a_promise_that_only_networks_of_ours_keep_is_refused(tmp_path: Path, line: str, golden: Golden) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text(f'provider = "kubernetes"\n{line}\n[kubernetes]\nimage = "x"\nrun_as_user = 1000\n')
    settings = load(config_file=file, environ={}, options={"data_dir": str(tmp_path)})
    with golden.refused(SetupError):
        open_provider(Setup(settings=settings, server_url="http://server:8080", runtimes=rows()))


def test_without_any_cluster_the_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    file = tmp_path / "brickyard.toml"
    file.write_text('provider = "kubernetes"\n[kubernetes]\nimage = "x"\nrun_as_user = 1000\n')
    settings = load(config_file=file, environ={}, options={"data_dir": str(tmp_path)})
    with golden.refused(SetupError, "kubernetes.kubeconfig", "kubernetes.context"):
        open_provider(Setup(settings=settings, server_url="http://server:8080", runtimes=rows()))


def test_the_secret_goes_with_its_pod_and_the_policy_lets_in_the_group_and_the_servers() -> None:
    pod = Pod(metadata=Meta(name="brickyard-i-1", uid="u-1"))
    config = AgentConfig(
        instance_id="i-1", agent_token="secret-a", server_token="secret-s", server_url="https://server", instance_dir="",
        cache_dir="", logs_dir="", node_code_dir="",
    )  # fmt: skip
    unit = Unit(version="1", workspace_id="1234", machine_dir="/m", storage_dir="/s", config=config)
    secret = pods.secret(pod, msgspec.json.encode(unit), workspace_id="1234")
    assert mistakes(secret) == []
    document, tokens = (base64.b64decode(secret["data"][key]) for key in ("unit.json", "tokens"))
    assert b"secret-" not in document and msgspec.json.decode(document, type=Unit).config.server_url == "https://server"
    assert msgspec.json.decode(tokens) == {"agent_token": "secret-a", "server_token": "secret-s"}
    assert secret["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "brickyard-i-1", "uid": "u-1"}]
    group = pods.group_of(request())
    policy = pods.policy(group, section=section(server_networks=["10.1.0.0/16"]), workspace_id="1234")
    assert mistakes(policy) == []
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= made()["metadata"]["labels"].items()
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [
        {"podSelector": policy["spec"]["podSelector"]},
        {"ipBlock": {"cidr": "10.1.0.0/16"}},
        {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "brickyard"}}},
    ]


def test_nodes_of_a_pool_are_one_group_whichever_cluster_uses_them() -> None:
    assert pods.group_of(request()) == "0101-000000-abcdefgh"
    assert pods.group_of(request(InstancePoolId="0101-000000-abcdef-pool-XYZ12345")) == "0101-000000-abcdef-pool-xyz12345"


@pytest.mark.parametrize("name", ["I-1", "i_1", "-i", "i" * 60, "../i", ""])
def test_a_name_that_no_pod_can_have(name: str) -> None:
    assert not pods.is_name(name)
