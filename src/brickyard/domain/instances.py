"""The lifecycle of instances, the machine-sized units of compute."""

from __future__ import annotations

from enum import StrEnum


class InstanceState(StrEnum):
    """The lifecycle state of an instance, as the server knows it."""

    REQUESTED = "REQUESTED"  # the intent is recorded; the provider may not have received it yet
    LAUNCHED = "LAUNCHED"  # the provider has accepted it; its agent has not called yet
    REGISTERED = "REGISTERED"  # its agent has called home
    TERMINATING = "TERMINATING"  # it is being ended; the call is repeated until the provider no longer lists it
    GONE = "GONE"  # the provider no longer lists it; the row is removed once its cluster has seen that


# Every legal transition, with its reason. Any other is a bug and raises.
EDGES: dict[tuple[InstanceState, InstanceState], str] = {
    (InstanceState.REQUESTED, InstanceState.LAUNCHED): "the provider accepted the launch",
    (InstanceState.REQUESTED, InstanceState.REGISTERED): "the agent called before the launch call returned",
    (InstanceState.REQUESTED, InstanceState.TERMINATING): "no longer wanted, or the provider refused the launch",
    (InstanceState.LAUNCHED, InstanceState.REGISTERED): "the agent called home",
    (InstanceState.LAUNCHED, InstanceState.TERMINATING): "no longer wanted, or it never called",
    (InstanceState.LAUNCHED, InstanceState.GONE): "it died before its agent called",
    (InstanceState.REGISTERED, InstanceState.TERMINATING): "no longer wanted",
    (InstanceState.REGISTERED, InstanceState.GONE): "the provider no longer lists it: crashed, preempted or killed",
    (InstanceState.TERMINATING, InstanceState.GONE): "the provider no longer lists it, as asked",
}


def check_edge(old: InstanceState, new: InstanceState) -> None:
    """Raises ValueError unless an instance may go from `old` to `new`. Staying in a state is always legal."""
    if old is not new and (old, new) not in EDGES:
        raise ValueError(f"an instance cannot go from {old} to {new}")
