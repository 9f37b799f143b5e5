"""The objects of one instance: its pod, the secret with its unit, and its network policy. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from brickyard.agent.unit import ADDRESS_VARIABLE, TOKENS_VARIABLE, apart
from brickyard.providers.base import LaunchRequest
from brickyard.providers.kubernetes.objects import Pod
from brickyard.providers.kubernetes.section import (
    CACHE,
    GPU,
    MACHINE,
    MEMORY,
    OURS,
    STORAGE,
    TREES,
    UNIT,
    UNIT_DIR,
    KubernetesSection,
    Template,
)
from brickyard.storage.directory import Storage

PREFIX = "brickyard-"  # of a pod's name; the rest is the instance's id
CONTAINER = "agent"
UNIT_FILE, TOKENS = "unit.json", "tokens"  # keys of an instance's secret
WORKSPACE, INSTANCE, GROUP = OURS + "workspace", OURS + "instance", OURS + "group"
OF_MACHINES = "k8s."  # begins the names of node types that come from machines, not from the settings
PRODUCT = GPU + ".product"  # the label of a machine that names its GPUs
_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
NAME = {"app.kubernetes.io/name": "brickyard-node", "app.kubernetes.io/managed-by": "brickyard"}
_HOST = "kubernetes.io/hostname"
# Autoscalers leave a machine alone while a node runs there: a driver that is evicted ends its cluster. `pod` may say otherwise.
_STAYS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
_SHARED = "/dev/shm"  # noqa: S108 - 64 MiB unless it is mounted
Document = dict[str, Any]


def is_name(instance_id: str) -> bool:
    """Whether a pod can have this name."""
    return _ID.fullmatch(instance_id) is not None


def selector(workspace_id: str) -> str:
    """The labels of a workspace's pods."""
    return f"{WORKSPACE}={workspace_id}"


def group_of(request: LaunchRequest) -> str:
    """Whose nodes may reach one another: those of one pool, or of one cluster."""
    owner = request.tags.get("InstancePoolId") or request.tags.get("ClusterId") or request.instance_id
    return re.sub(r"[^a-z0-9-]", "-", owner.lower())[:50].strip("-") or "none"


def pod(request: LaunchRequest, *, section: KubernetesSection, workspace_id: str, storage_dir: str) -> Document:
    """The instance's pod. `storage_dir`: where it mounts the workspace's storage."""
    labels = {**NAME, WORKSPACE: workspace_id, INSTANCE: request.instance_id, GROUP: group_of(request)}
    annotations = {OURS + "node-type": request.node_type.node_type_id, **_tags(request.tags), **_STAYS}
    own: Document = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": section.grace_s,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": section.user,
            "runAsGroup": section.user,
            "seccompProfile": {"type": section.seccomp},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": _HOST,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {WORKSPACE: workspace_id, GROUP: group_of(request)}},
            }
        ],
        "containers": [_container(request, section, storage_dir)],
        "volumes": _volumes(request, section),
    }
    meta = {"name": PREFIX + request.instance_id, "labels": labels, "annotations": annotations}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": own}
    if request.node_type.num_gpus:
        own["tolerations"] = [{"key": GPU, "operator": "Exists"}]
        if request.node_type.node_type_id.startswith(OF_MACHINES) and request.node_type.gpu_model:
            own["nodeSelector"][PRODUCT] = request.node_type.gpu_model
    for template in section.template_of(request.node_type.node_type_id):
        _add(made, template)
    return made


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    names = {"ClusterId": "cluster", "InstancePoolId": "pool", "Role": "role"}
    return {OURS + name: tags[tag] for tag, name in names.items() if tags.get(tag)}


def _container(request: LaunchRequest, section: KubernetesSection, storage_dir: str) -> Document:
    kind = request.node_type
    limits: Document = {"cpu": f"{round(kind.num_cores * 1000)}m", "memory": f"{kind.memory_mb}Mi"}
    if kind.num_gpus:
        limits[GPU] = str(kind.num_gpus)
    if section.disk_gb:
        limits["ephemeral-storage"] = f"{round(section.disk_gb * 1024)}Mi"
    mounts = [
        {"name": UNIT, "mountPath": UNIT_DIR, "readOnly": True},
        {"name": MACHINE, "mountPath": str(PurePosixPath(section.machine_place).parent)},
        {"name": MEMORY, "mountPath": _SHARED},
    ]
    if section.storage_claim:
        mounts += _storage_mounts(section, storage_dir)
    if section.cache_claim:
        mounts.append({"name": CACHE, "mountPath": section.machine_cache_dir})
    return {
        "name": CONTAINER,
        "image": section.image,
        "command": [section.python, "-m", "brickyard.agent", "--unit", f"{UNIT_DIR}/{UNIT_FILE}"],
        "env": [
            {"name": ADDRESS_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": TOKENS_VARIABLE, "valueFrom": {"secretKeyRef": {"name": PREFIX + request.instance_id, "key": TOKENS}}},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - of the container; the image knows no such user
        ],
        "resources": {"limits": dict(limits), "requests": dict(limits)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",  # its last lines say why it could not run
        "volumeMounts": mounts,
    }


def _storage_mounts(section: KubernetesSection, storage_dir: str) -> list[Document]:
    """What nodes need of the workspace's storage, and nothing else: code in the container may read it. The workspace's files
    are at their usual places as well."""
    storage, top = Storage(Path(storage_dir)), section.claim_root(storage_dir)

    def mount(path: Path, at: str) -> Document:
        return {"name": STORAGE, "mountPath": at, "subPath": str(path.relative_to(top))}

    identity = {**mount(storage.id_file, str(storage.id_file)), "readOnly": True}
    usual = [mount(path, at) for path, at in zip(storage.trees, TREES, strict=True)]
    return [identity, *(mount(path, str(path)) for path in storage.of_nodes), *usual]


def _volumes(request: LaunchRequest, section: KubernetesSection) -> list[Document]:
    disk = {"sizeLimit": f"{round(section.disk_gb * 1024)}Mi"} if section.disk_gb else {}
    volumes: list[Document] = [
        # Whoever is in the container may read it, so the tokens are not in it.
        {"name": UNIT, "secret": {"secretName": PREFIX + request.instance_id, "items": [{"key": UNIT_FILE, "path": UNIT_FILE}]}},
        {"name": MACHINE, "emptyDir": disk},
        {"name": MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": f"{max(64, request.node_type.memory_mb // 4)}Mi"}},
    ]
    for name, claim in ((STORAGE, section.storage_claim), (CACHE, section.cache_claim)):
        if claim:
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
    return volumes


def _add(made: Document, template: Template) -> None:
    """Adds what the settings say: maps are merged, lists are appended to."""
    meta, spec, container = made["metadata"], made["spec"], made["spec"]["containers"][0]
    meta["labels"] |= template.metadata.labels
    meta["annotations"] |= template.metadata.annotations
    added = template.spec
    spec["nodeSelector"] |= added.node_selector
    for key, more in (
        ("tolerations", added.tolerations),
        ("volumes", added.volumes),
        ("imagePullSecrets", added.image_pull_secrets),
    ):
        if more:
            spec[key] = [*spec.get(key, ()), *more]
    for key, value in (
        ("affinity", added.affinity),
        ("priorityClassName", added.priority_class_name),
        ("runtimeClassName", added.runtime_class_name),
        ("schedulerName", added.scheduler_name),
        ("dnsPolicy", added.dns_policy),
        ("dnsConfig", added.dns_config),
    ):
        if value:
            spec[key] = value
    if added.host_users is not None:
        spec["hostUsers"] = added.host_users
    if added.topology_spread_constraints is not None:
        spec["topologySpreadConstraints"] = list(added.topology_spread_constraints)
    if template.container.image:
        container["image"] = template.container.image
    if template.container.image_pull_policy:
        container["imagePullPolicy"] = template.container.image_pull_policy
    container["volumeMounts"] += template.container.volume_mounts
    for kind in ("limits", "requests"):
        container["resources"][kind] |= {name: str(amount) for name, amount in template.container.resources.items()}


def owner(of: Pod) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "name": of.metadata.name, "uid": of.metadata.uid}


def secret(of: Pod, unit: bytes, *, workspace_id: str) -> Document:
    """The unit, and apart from it the instance's tokens. It goes with the pod."""
    document, tokens = apart(unit)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": of.metadata.name,
            "labels": {**NAME, WORKSPACE: workspace_id},
            "ownerReferences": [owner(of)],
        },
        "data": {UNIT_FILE: base64.b64encode(document).decode(), TOKENS: base64.b64encode(tokens).decode()},
    }


def policy_name(group: str, workspace_id: str) -> str:
    return f"{PREFIX}{workspace_id}-{group}"


def policy(group: str, *, section: KubernetesSection, workspace_id: str) -> Document:
    """Lets in the servers, and the nodes of the same group. It goes with the last of their pods: each becomes an owner."""
    nodes = {"matchLabels": {WORKSPACE: workspace_id, GROUP: group}}
    servers: list[Document] = [{"ipBlock": {"cidr": network}} for network in section.server_networks]
    if section.server_labels:
        servers.append({"podSelector": {"matchLabels": dict(section.server_labels)}})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": policy_name(group, workspace_id), "labels": {**NAME, WORKSPACE: workspace_id}},
        "spec": {
            "podSelector": nodes,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": nodes}, *servers]}],
        },
    }
