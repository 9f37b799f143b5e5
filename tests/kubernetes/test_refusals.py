"""What is said of a 403, and what it means. The messages are those of a real API server (1.34)."""

from __future__ import annotations

import pytest

from brickyard.providers.base import InvalidError, ProviderError, QuotaError, ThrottledError, TransientError
from brickyard.providers.kubernetes.refusals import provider_error
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.conftest import Open
from tests.kubernetes.test_pods import request
from tests.support.patience import until

RIGHTS = "role.yaml"
REFUSED = 'pods "x" is forbidden: '


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (
            'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "lab"',
            InvalidError,
            RIGHTS,
        ),
        (
            'pods "x" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "lab"',
            InvalidError,
            RIGHTS,
        ),
        (f"{REFUSED}exceeded quota: q, requested: cpu=4, used: cpu=0, limited: cpu=1", QuotaError, "Raise the ResourceQuota"),
        (f"{REFUSED}failed quota: q: must specify requests.ephemeral-storage for: agent", InvalidError, "disk_gb"),
        (f"{REFUSED}insufficient quota to match these scopes: [{{PriorityClass In [high]}}]", QuotaError, "priority class"),
        (
            f'{REFUSED}violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "a" must set ...)',
            InvalidError,
            "Pod Security level",
        ),
        (
            f"{REFUSED}[minimum memory usage per Container is 2Gi, but request is 1Gi, maximum cpu usage per ...]",
            InvalidError,
            "LimitRange",
        ),
        (f"{REFUSED}no PriorityClass with name high was found", InvalidError, "priorityClassName"),
        (f'{REFUSED}pod rejected: RuntimeClass "kata" not found', InvalidError, "runtimeClassName"),
        (
            f'{REFUSED}error looking up service account lab/default: serviceaccount "default" not found',
            TransientError,
            "default service account",
        ),
        (f"{REFUSED}status unknown for quota: q, resources: cpu,memory,pods", TransientError, "counted"),
        (
            'secrets "x" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=9, limited: secrets=9',
            QuotaError,
            "Raise the ResourceQuota",
        ),
        (
            'secrets "x" is forbidden: cannot set an ownerRef on a resource you can\'t delete: , <nil>',
            TransientError,
            "an earlier pod",
        ),
        (
            'networkpolicies.networking.k8s.io "x" is forbidden: cannot set an ownerRef on a resource you can\'t delete: , <nil>',
            InvalidError,
            "Grant delete on networkpolicies",
        ),
        (
            f"{REFUSED}unable to create new content in namespace lab because it is being terminated",
            InvalidError,
            "namespace again",
        ),
        ('admission webhook "policy.example.org" denied the request: no images of that registry', InvalidError, "A policy"),
        (f"{REFUSED}something that nobody has thought of", InvalidError, "admission plugin"),
    ],
)
def test_a_403_is_told_by_its_cause(message: str, error: type[ProviderError], said: str) -> None:
    found = provider_error(403, message, f"instance i-1 cannot be launched: {message}")
    assert type(found) is error
    assert message in str(found)
    assert said in str(found)
    about_rights = said == RIGHTS or "on networkpolicies" in said
    assert (RIGHTS in str(found)) is about_rights, "only what is about rights speaks of them"


@pytest.mark.parametrize(
    ("code", "error"),
    [(429, ThrottledError), (404, InvalidError), (422, InvalidError), (409, TransientError), (503, TransientError)],
)
def test_other_codes(code: int, error: type[ProviderError]) -> None:
    assert type(provider_error(code, "why", "doing: why")) is error


def test_a_quota_of_secrets_refuses_a_launch_and_leaves_nothing(cluster: Cluster, opened: Open) -> None:
    """The pod is there before its secret is refused."""
    provider, wanted = opened(), request()
    message = 'secrets "x" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=9, limited: secrets=9'
    cluster.api.expect("patch", "secrets", "refuse", code=403, message=message)
    with pytest.raises(QuotaError):
        provider.launch(wanted)
    assert provider.observe()[wanted.instance_id].alive
    provider.terminate(wanted.instance_id, reason="its launch was refused")
    until(lambda: provider.observe() == {})
    assert cluster.names("pods") == cluster.names("secrets") == cluster.names("networkpolicies") == set()
