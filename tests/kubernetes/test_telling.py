"""What is said of a pod, and whether its instance counts as alive."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brickyard.providers.kubernetes.objects import Machine, Pod
from brickyard.providers.kubernetes.telling import observed
from tests.support.golden import Golden


def pod(phase: str = "Pending", *, state: dict[str, Any] | None = None, deleted: bool = False, **status: Any) -> Pod:
    statuses = [{"name": "sidecar", "state": {}}, {"name": "agent", "image": "b:1", "state": state}] if state else None
    return msgspec.convert(
        {
            "metadata": {"name": "brickyard-i-1", "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None},
            "spec": {"nodeName": "one", "containers": []},
            "status": {"phase": phase, "containerStatuses": statuses, **status},
        },
        Pod,
    )


def condition(kind: str, status: str, reason: str = "", message: str = "") -> list[dict[str, str]]:
    return [{"type": kind, "status": status, "reason": reason, "message": message}]


def ended(**more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "reason": "Error", **more}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


NO_GPU = condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
PLACED = condition("PodScheduled", "True")


@pytest.mark.parametrize(
    ("given", "alive"),
    [
        (pod(), True),
        (pod(conditions=NO_GPU), True),
        (pod(conditions=PLACED, state=waits("ContainerCreating")), True),
        (pod(conditions=PLACED, state=waits("ImagePullBackOff", "not found")), True),
        (pod(conditions=PLACED, state=waits("InvalidImageName", "bad")), False),
        (pod(conditions=PLACED, state=waits("ConfigError", "no secret")), True),
        (pod("Running", state={"running": {}}), True),
        (pod("Running", state={"running": {}}, deleted=True), True),
        (
            pod("Running", conditions=condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")),
            True,
        ),
        (pod("Failed", state=ended(exitCode=137, reason="OOMKilled")), False),
        (pod("Failed", state=ended(exitCode=78, message="noise\nthe storage of workspace 1 must be at /srv\n")), False),
        (pod("Failed", state=ended(message="Traceback\nMemoryError")), False),
        (pod("Failed", state=ended(exitCode=137, signal=9)), False),
        (pod("Succeeded", state=ended(exitCode=0, reason="Completed")), False),
        (pod("Failed", reason="Evicted", message="The node was low on resource: memory"), False),
        (pod("Failed", reason="NodeShutdown", message="shutting down"), False),
    ],
)
def test_words(given: Pod, alive: bool, golden: Golden) -> None:
    seen = observed("i-1", given, machine=lambda _name: None, grows=False)
    assert seen.alive is alive
    golden(seen.message)


def test_where_the_cluster_grows_a_pod_that_does_not_fit_waits_for_that(golden: Golden) -> None:
    seen = observed("i-1", pod(conditions=NO_GPU), machine=lambda _name: None, grows=True)
    assert seen.alive
    golden(seen.message)


def test_a_silent_machine_is_named_and_its_pod_is_not_taken_for_dead(golden: Golden) -> None:
    conditions = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    silent = msgspec.convert({"metadata": {"name": "one"}, "status": {"conditions": conditions}}, Machine)
    seen = observed("i-1", pod("Running", state={"running": {}}), machine=lambda _name: silent, grows=False)
    assert seen.alive, "its container may run; only its agent's silence says more"
    golden(seen.message, "machine one", "2026-01-01T00:00:00Z")


def test_a_pod_of_which_only_the_name_is_known_lives() -> None:
    assert observed("i-1", None, machine=lambda _name: None, grows=False).alive
