"""What a refusal of the Kubernetes API means for the server, and what to do about it. Pure.

A 403 is the answer of authorization, of quotas and of every admission plugin. Only the message says which: "User x cannot create
resource pods" is about rights, everything else about the pod.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from brickyard.providers.base import InvalidError, ProviderError, QuotaError, ThrottledError, TransientError

SEE = "(docs/kubernetes.md)"


class Cause(NamedTuple):
    """Why a pod is forbidden."""

    words: re.Pattern[str]
    error: type[ProviderError]
    remedy: str


def _cause(words: str, remedy: str, error: type[ProviderError] = InvalidError) -> Cause:
    return Cause(re.compile(words, re.IGNORECASE), error, remedy)


_QUOTA = "Raise the ResourceQuota of the namespace, or end a cluster."
CAUSES = (
    _cause(r"exceeded quota", _QUOTA, QuotaError),
    _cause(
        r"insufficient quota to match these scopes", "Allow the priority class of [kubernetes] in a ResourceQuota.", QuotaError
    ),
    _cause(
        r"failed quota: .*must specify",
        "The namespace's ResourceQuota counts something that pods of Brickyard do not request. Set kubernetes.disk_gb if that is "
        "ephemeral-storage; otherwise take it out of the ResourceQuota.",
    ),
    _cause(
        r"status unknown for quota", "It is tried again once Kubernetes has counted for the new ResourceQuota.", TransientError
    ),
    _cause(r"is being terminated", f"Make the namespace again once it is gone {SEE}."),
    _cause(
        r"violates PodSecurity",
        "The namespace's Pod Security level forbids what is listed. It comes from pod and node_types of [kubernetes], or from "
        "seccomp = Unconfined. Remove it there, or allow a lower level for the namespace.",
    ),
    _cause(
        r"(maximum|minimum) \S+ usage per|max limit to request ratio",
        "A LimitRange of the namespace forbids this size. Choose another node type, or change the LimitRange.",
    ),
    _cause(r"PriorityClass", "Create the priority class, or correct priorityClassName in [kubernetes]."),
    _cause(r"RuntimeClass", "Create the runtime class, or correct runtimeClassName in [kubernetes]."),
    _cause(
        r"serviceaccount .* not found|looking up service account",
        "It is tried again until the namespace has its default service account.",
        TransientError,
    ),
    _cause(
        r"^secrets .*cannot set an ownerRef",
        "It is tried again once the secret of an earlier pod of this name is gone.",
        TransientError,
    ),
    _cause(
        r"^networkpolicies.*cannot set an ownerRef",
        f"Grant delete on networkpolicies, as deploy/kubernetes/role.yaml does {SEE}.",
    ),
    _cause(
        r"admission webhook|ValidatingAdmissionPolicy|denied (the )?request",
        "A policy of the Kubernetes cluster forbids it. Change pod and node_types of [kubernetes], or have the policy changed.",
    ),
)
_RIGHTS = re.compile(r"\bcannot (\w+) resource\b", re.IGNORECASE)
_RIGHTS_REMEDY = f"The rights are in deploy/kubernetes/role.yaml {SEE}."
_OTHER_REMEDY = "An admission plugin of the Kubernetes cluster forbids it; its administrator knows the rule."
_FINAL = (400, 404, 405, 413, 415, 422)


def means_rights(message: str) -> bool:
    """Whether a 403 is the answer of authorization."""
    return _RIGHTS.search(message) is not None


def provider_error(code: int, message: str, text: str) -> ProviderError:
    """The error for an answer that is no success. `message`: what the API says; `text`: that, with what was being done."""
    if code == 429:
        return ThrottledError(text)
    if code == 403:
        if means_rights(message):
            return InvalidError(f"{_ended(text)} {_RIGHTS_REMEDY}")
        cause = next((each for each in CAUSES if each.words.search(message)), None)
        if cause is None:
            return InvalidError(f"{_ended(text)} {_OTHER_REMEDY}")
        return cause.error(f"{_ended(text)} {cause.remedy}")
    if code in _FINAL:
        return InvalidError(text)
    return TransientError(text)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
