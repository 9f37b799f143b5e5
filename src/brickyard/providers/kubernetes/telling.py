"""What a pod's state means: whether the instance lives, and a sentence for people. Pure."""

from __future__ import annotations

from collections.abc import Callable

from brickyard.agent.unit import CONFIG_EXIT
from brickyard.providers.base import Observed
from brickyard.providers.kubernetes.objects import ContainerStatus, Machine, Pod, Terminated
from brickyard.providers.kubernetes.pods import CONTAINER

ENDED = ("Succeeded", "Failed")
_NEVER = ("InvalidImageName", "ErrImageNeverPull")  # no waiting helps
_IMAGE = ("ImagePullBackOff", "ErrImagePull", "RegistryUnavailable", *_NEVER)
_DISRUPTED = {
    "EvictionByEvictionAPI": "its machine is being drained",
    "PreemptionByScheduler": "a pod with a higher priority takes its place",
    "DeletionByTaintManager": "its machine has a taint that it does not tolerate",
    "DeletionByPodGC": "its machine is gone",
    "TerminationByKubelet": "its machine is short of something, or shuts down",
}


def observed(instance_id: str, pod: Pod | None, *, machine: Callable[[str], Machine | None], grows: bool) -> Observed:
    """`pod`: None if only its name is known yet. `machine`: what is known of one. `grows`: the cluster adds machines itself."""
    if pod is None:
        return Observed(instance_id=instance_id, alive=True)
    status = _agent(pod)
    state = status.state if status is not None else None
    ended = state.terminated if state is not None else None
    if ended is not None or pod.status.phase in ENDED:
        return Observed(instance_id=instance_id, alive=False, message=_why_ended(pod, ended))
    if pod.status.condition("DisruptionTarget").status == "True" or pod.metadata.deletion_timestamp:
        return Observed(instance_id=instance_id, alive=True, message=_why_ending(pod))
    if pod.status.phase == "Pending" or not pod.status.phase:
        waiting = state.waiting if state is not None else None
        never = waiting is not None and waiting.reason in _NEVER
        return Observed(instance_id=instance_id, alive=not never, message=_what_it_waits_for(pod, status, grows=grows))
    return Observed(instance_id=instance_id, alive=True, message=_lost(pod, machine))


def has_ended(pod: Pod) -> bool:
    """Whether nothing of it runs any more."""
    status = _agent(pod)
    ended = status.state.terminated if status is not None and status.state is not None else None
    return ended is not None or pod.status.phase in ENDED


def _agent(pod: Pod) -> ContainerStatus | None:
    return next((each for each in pod.status.container_statuses or () if each.name == CONTAINER), None)


def _why_ended(pod: Pod, ended: Terminated | None) -> str:
    if pod.status.reason == "Evicted":
        return f"Kubernetes has evicted its pod: {_sentence(pod.status.message)}"
    if pod.status.condition("DisruptionTarget").status == "True":
        return _why_ending(pod)
    if ended is None:
        said = _sentence(pod.status.message) or "no reason is given."
        return f"its pod has ended ({pod.status.reason or pod.status.phase}): {said}"
    return _how(ended)


def _how(ended: Terminated) -> str:
    last = (ended.message or "").strip().splitlines()[-1:]
    if ended.reason == "OOMKilled":
        return "its container used more memory than the node type has and was killed (OOMKilled). Choose a larger node type."
    if ended.exit_code == CONFIG_EXIT and last:
        return _sentence(last[0])
    if ended.exit_code == 0:
        return "its agent has ended."
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    named = f", {ended.reason}" if ended.reason not in (None, "", "Error") else ""
    return f"its container has ended ({how}{named})" + (f": {_sentence(last[0])}" if last else ".")


def _why_ending(pod: Pod) -> str:
    disrupted = pod.status.condition("DisruptionTarget")
    if disrupted.status == "True":
        why = _DISRUPTED.get(disrupted.reason or "") or _sentence(disrupted.message).rstrip(".")
        return f"Kubernetes takes its pod away: {why}."
    return "its pod is being deleted."


def _what_it_waits_for(pod: Pod, status: ContainerStatus | None, *, grows: bool) -> str:
    placed = pod.status.condition("PodScheduled")
    if placed.status == "False":
        said = _sentence(placed.message)
        hope = " It waits until the cluster has grown." if grows else " It waits until there is room."
        return f"no machine of the Kubernetes cluster can take its pod: {said}{hope}"
    waiting = status.state.waiting if status is not None and status.state is not None else None
    if waiting is not None and waiting.reason in _IMAGE:
        said = (waiting.message or waiting.reason or "").strip()
        return f"cannot pull image {status.image if status else ''}: {_sentence(said)}"
    if waiting is not None and waiting.reason not in (None, "", "ContainerCreating", "PodInitializing"):
        return f"its container cannot start ({waiting.reason}): {_sentence(waiting.message)}"
    if placed.status == "True":
        return f"its container is being made on {pod.spec.node_name or 'its machine'}."
    return "its pod waits for a machine."


def _lost(pod: Pod, machine: Callable[[str], Machine | None]) -> str:
    found = machine(pod.spec.node_name or "")
    if found is None or found.status.ready.status == "True" or not found.status.ready.type:
        return ""
    since = found.status.ready.last_transition_time
    return f"Kubernetes hears nothing from its machine {found.metadata.name}" + (f" since {since}." if since else ".")


def _sentence(text: str | None) -> str:
    said = " ".join((text or "").split())[:500]
    return said if not said or said.endswith((".", "!", "?")) else f"{said}."
