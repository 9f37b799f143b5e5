"""What the planner of runs is told about clusters, and what that means for tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.libraries import Library, LibraryFullStatus, LibraryInstallStatus
from brickyard.domain.run import Attempt
from brickyard.domain.states import State
from brickyard.plan.libraries import key_of

USABLE = (State.RUNNING, State.RESIZING)
_THERE = (LibraryInstallStatus.INSTALLED, LibraryInstallStatus.SKIPPED)


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as its runs see it. `driver_id` is its driver's instance, or "" while that cannot be called."""

    state: State
    incarnation: int
    driver_id: str = ""
    message: str = ""  # why it ended
    libraries: tuple[LibraryFullStatus, ...] = ()
    finishing: int = 0  # the incarnation that may finish what it runs, before the cluster stops or restarts; 0: none

    def runs(self, generation: int) -> bool:
        """Whether what runs there in that incarnation goes on."""
        return self.finishing == generation or (self.state in USABLE and self.incarnation == generation)


def has_libraries(wanted: Sequence[Library], cluster: ClusterFacts) -> bool:
    """Whether the cluster's nodes have all of them."""
    found = {each.library: each.status for each in cluster.libraries}
    return all(found.get(key_of(each)) in _THERE for each in wanted)


def failed_library(wanted: Sequence[Library], cluster: ClusterFacts) -> str:
    """Says which of them the cluster cannot have, and why; "" if there is none."""
    found = {each.library: each for each in cluster.libraries}
    for library in map(key_of, wanted):
        status = found.get(library)
        name = msgspec.json.encode(library).decode()
        if status is None or status.status is LibraryInstallStatus.UNINSTALL_ON_RESTART:
            return f"Library {name} was uninstalled from the cluster before the task began."
        if status.status is LibraryInstallStatus.FAILED:
            return f"Library {name} could not be installed: {' '.join(status.messages)}"
    return ""


def has_left(attempt: Attempt, facts: ClusterFacts) -> bool:
    """Whether nothing of the attempt is on the cluster's driver: it never got there, has left, or the driver is gone."""
    gone = facts.incarnation != attempt.generation or facts.state is State.TERMINATING
    gone = gone and facts.finishing != attempt.generation
    return attempt.left or not attempt.driver_id or gone
