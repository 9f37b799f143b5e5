"""What the provider may do: asked of the API server at the start, so that a missing right is named before any launch."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.providers.base import SetupError
from brickyard.providers.kubernetes.api import Api, RefusedError, UnreachableError
from brickyard.providers.kubernetes.objects import Review

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NETWORK = "networking.k8s.io"


class Right(NamedTuple):
    verb: str
    resource: str
    group: str = ""

    @property
    def text(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


NEEDED = (
    *(Right(verb, "pods") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *(Right(verb, "secrets") for verb in ("create", "patch")),
)
POLICIES = tuple(Right(verb, "networkpolicies", NETWORK) for verb in ("create", "patch"))
# Not asked for at the start: only the admission plugin OwnerReferencesPermissionEnforcement (OpenShift has it) demands it of
# whoever adds an owner to a policy. Nothing deletes one.
OWNERS = Right("delete", "networkpolicies", NETWORK)
MACHINES, ALL_PODS = Right("list", "nodes"), Right("list", "pods")  # of the whole cluster; without them less is known


def require(api: Api, namespace: str, *, policies: bool) -> None:
    """Raises SetupError, which names what is missing."""
    try:
        missing = [each.text for each in (*NEEDED, *(POLICIES if policies else ())) if not allowed(api, each, namespace)]
    except RefusedError as error:
        hint = "Check the context's user and its credentials." if error.code in (401, 403) else "Check the server of the context."
        raise SetupError(f"kubernetes: the API server refuses us ({error.code}): {error}. {hint}") from error
    except UnreachableError as error:
        raise SetupError(f"kubernetes: {error}. Check kubernetes.kubeconfig and kubernetes.context.") from error
    if missing:
        raise SetupError(
            f"kubernetes: in namespace {namespace} we may not {', '.join(missing)}. "
            "Bind the Role of deploy/kubernetes/role.yaml to this user or service account."
        )


def allowed(api: Api, right: Right, namespace: str) -> bool:
    """Whether we have a right; with an empty namespace: in the whole cluster."""
    asked = {"verb": right.verb, "resource": right.resource, "group": right.group, "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    return api.create(REVIEWS, review, Review).status.allowed
