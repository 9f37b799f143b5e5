"""Instances as pods of a Kubernetes cluster (docs/kubernetes.md). Needs the extra `kubernetes`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from brickyard.machine.installing import command
from brickyard.providers.base import Setup, SetupError
from brickyard.providers.kubernetes.section import KubernetesSection
from brickyard.storage.directory import Storage

if TYPE_CHECKING:  # it needs lightkube
    from brickyard.providers.kubernetes.provider import KubernetesProvider

__all__ = ["KubernetesSection", "open_provider"]


def open_provider(setup: Setup) -> KubernetesProvider:
    """The factory registered as `kubernetes`."""
    section = setup.section(KubernetesSection, "kubernetes")
    section.check()
    if section.storage_claim:
        section.claim_root(section.machine_storage_dir or str(setup.settings.storage_dir))
        try:  # a kubelet would make those that are missing, as root
            for path in Storage(setup.settings.storage_dir).of_nodes:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(f"cannot make {error.filename}, which nodes mount: {error.strerror}.") from error
    if not setup.settings.internet or setup.settings.network == "isolated":
        raise SetupError(
            "provider kubernetes makes no networks: internet = false and network = isolated have no effect there. "
            "Leave them out, and limit what pods reach by a NetworkPolicy with egress rules."
        )
    if importlib.util.find_spec("lightkube") is None:
        raise SetupError(f"provider kubernetes needs lightkube. Install it: {command('lightkube>=1.0,<2')}")
    from brickyard.providers.kubernetes import rights  # noqa: PLC0415 - after lightkube was found
    from brickyard.providers.kubernetes.api import Api, RefusedError, UnreachableError, connected  # noqa: PLC0415 - as above
    from brickyard.providers.kubernetes.known import Known  # noqa: PLC0415 - as above
    from brickyard.providers.kubernetes.provider import KubernetesProvider  # noqa: PLC0415 - as above

    client, namespace = connected(kubeconfig=section.kubeconfig, context=section.context)
    api, namespace = Api(client), section.namespace or namespace
    try:
        rights.require(api, namespace, policies=section.network_policies)
        known = Known(api, machines=rights.allowed(api, rights.MACHINES, ""), pods=rights.allowed(api, rights.ALL_PODS, ""))
    except (SetupError, RefusedError, UnreachableError) as error:
        api.close()
        raise SetupError(f"kubernetes: {error}") if not isinstance(error, SetupError) else error from error
    return KubernetesProvider(setup=setup, section=section, api=api, namespace=namespace, known=known)
