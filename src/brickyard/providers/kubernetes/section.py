"""The settings of this provider ([kubernetes]), and what an administrator may add to the pods of a node type."""

from __future__ import annotations

import ipaddress
import os
from pathlib import PurePosixPath
from typing import Any, Literal, TypeVar

import msgspec

from brickyard.domain.decoding import converter
from brickyard.providers.base import SetupError
from brickyard.providers.engines.sections import EngineSection, NamedType

OURS = "brickyard.io/"  # the prefix of labels and annotations that we own
GPU = "nvidia.com/gpu"
MACHINE, UNIT, MEMORY, STORAGE, CACHE = ("brickyard-" + name for name in ("machine", "unit", "shm", "storage", "cache"))
UNIT_DIR = "/run/brickyard"
TREES = ("/dbfs", "/Volumes", "/Workspace")  # the workspace's files, where the storage has a claim
_VOLUMES = frozenset((MACHINE, UNIT, MEMORY, STORAGE, CACHE))
_RESOURCES = frozenset(("cpu", "memory", GPU, "ephemeral-storage"))
_Dict = dict[str, Any]


class TemplateMeta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields of a pod's spec, as Kubernetes writes them."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[_Dict, ...] = ()
    affinity: _Dict = {}
    volumes: tuple[_Dict, ...] = ()
    image_pull_secrets: tuple[dict[str, str], ...] = ()
    topology_spread_constraints: tuple[_Dict, ...] | None = None  # in place of ours
    priority_class_name: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
    host_users: bool | None = None
    dns_policy: str = ""
    dns_config: _Dict = {}


class TemplateContainer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields of the agent's container. `resources`: extended ones, like those of other accelerators."""

    image: str = ""
    image_pull_policy: str = ""
    volume_mounts: tuple[_Dict, ...] = ()
    resources: dict[str, str | int] = {}


class Template(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is added to a pod: `kubernetes.pod` to all, `engine` of a node type to its own."""

    metadata: TemplateMeta = TemplateMeta()
    spec: TemplateSpec = TemplateSpec()
    container: TemplateContainer = TemplateContainer()


_to_template = converter(Template)


class KubernetesSection(EngineSection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """docs/kubernetes.md has a line for each."""

    kubeconfig: str = ""  # a file; empty: the pod's service account, $KUBECONFIG or ~/.kube/config
    context: str = ""
    namespace: str = ""  # empty: that of the context or the service account
    image: str = ""  # has this version of Brickyard
    python: str = "python3"  # in the image: the Python that has Brickyard
    run_as_user: int = 0  # 0: this server's user, who owns the storage's files
    storage_claim: str = ""  # a PersistentVolumeClaim, mounted at `storage_mount`
    storage_mount: str = ""  # empty: the workspace's storage directory
    cache_claim: str = ""  # the same for runtimes, at machine_cache_dir; empty: the image has them, or each pod installs its own
    disk_gb: float = 0.0  # ephemeral storage of a pod; 0: no limit
    grace_s: int = 30  # from SIGTERM to SIGKILL
    autoscaler: bool = False  # the cluster grows by itself: what does not fit now waits
    network_policies: bool = True
    server_labels: dict[str, str] = msgspec.field(default_factory=lambda: {"app.kubernetes.io/name": "brickyard"})  # of the
    # servers' pods, in the same namespace
    server_networks: tuple[str, ...] = ()  # from where servers outside of the cluster come
    seccomp: Literal["RuntimeDefault", "Unconfined"] = "RuntimeDefault"
    pod: dict[str, object] = {}  # a Template for all pods

    @property
    def user(self) -> int:
        return self.run_as_user or os.geteuid()

    def claim_root(self, storage_dir: str) -> PurePosixPath:
        """The directory that `storage_claim` is in pods. Raises SetupError if the workspace's storage is not in it."""
        top = PurePosixPath(self.storage_mount or storage_dir)
        if not PurePosixPath(storage_dir).is_relative_to(top):
            raise SetupError(
                f"kubernetes.storage_mount is {top}, and pods have the workspace's storage at {storage_dir}, which is not in it. "
                "Correct storage_mount or machine_storage_dir."
            )
        return top

    def template_of(self, node_type_id: str) -> tuple[Template, Template]:
        """What the settings add to every pod, and to those of this node type."""
        named = next((each for each in self.node_types if each.node_type_id == node_type_id), None)
        return _template(self.pod, "kubernetes.pod"), _template(named.engine if named else {}, _place(named))

    def check(self) -> None:
        """Raises SetupError for what can never work."""
        if not self.image:
            raise SetupError(
                "kubernetes.image is empty; it must name an image with this version of Brickyard (docs/kubernetes.md)."
            )
        if not self.user:
            raise SetupError(
                "kubernetes.run_as_user is 0; pods never run as root. Set it to the user who owns the storage's files, and run "
                "the server as that user."
            )
        if self.grace_s < 15:
            raise SetupError(f"kubernetes.grace_s is {self.grace_s}; an agent needs up to 15 seconds to end its node.")
        for network in self.server_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise SetupError(
                    f"kubernetes.server_networks has {network!r}; each must be a network like 10.0.0.0/8."
                ) from error
        if self.cache_claim and not self.machine_cache_dir:
            raise SetupError("kubernetes.cache_claim needs machine_cache_dir, the directory where pods mount it.")
        places = [(self.pod, "kubernetes.pod"), *((each.engine, _place(each)) for each in self.node_types)]
        mounted = ("", "/dev/shm", UNIT_DIR, *(TREES if self.storage_claim else ()))  # noqa: S108 - a rule about it
        for given, where in places:
            _check(_template(given, where), where, mounted)


def _place(named: NamedType | None) -> str:
    return f"kubernetes.node_types {named.node_type_id}: engine" if named else ""


_Kind = TypeVar("_Kind")


def _template(given: dict[str, object], where: str) -> Template:
    try:
        return _to_template(given)
    except msgspec.ValidationError as error:
        raise SetupError(f"{where} is wrong: {error}. It may have metadata, spec and container (docs/kubernetes.md).") from error


def _check(template: Template, where: str, mounted: tuple[str, ...]) -> None:
    """What we own cannot be changed."""
    for kind in ("labels", "annotations"):
        for key in getattr(template.metadata, kind):
            if key.startswith((OURS, "app.kubernetes.io/")):
                raise SetupError(f"{where}.metadata.{kind} has {key}, which Brickyard sets itself. Use another name.")
    for volume in template.spec.volumes:
        if not volume.get("name") or volume["name"] in _VOLUMES:
            raise SetupError(f"{where}.spec.volumes has {volume.get('name', 'one without a name')!r}; use a name of your own.")
    for mount in template.container.volume_mounts:
        path = str(mount.get("mountPath", ""))
        if mount.get("name") in _VOLUMES or path.rstrip("/") in mounted:
            raise SetupError(f"{where}.container.volumeMounts has {path!r}, which Brickyard mounts itself. Use another path.")
    for name in template.container.resources:
        if name in _RESOURCES:
            raise SetupError(f"{where}.container.resources has {name}; the node type says it (num_cores, memory_mb, num_gpus).")
