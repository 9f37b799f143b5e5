"""What we read of the API's objects. Everything else in them is skipped, which makes a list of a thousand pods cheap to read."""

from __future__ import annotations

import msgspec


class _Read(msgspec.Struct, frozen=True, rename="camel"):
    """The API leaves out or sends null for whatever is empty."""


class Owner(_Read, frozen=True):
    kind: str = ""


class Meta(_Read, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[Owner, ...] | None = None


class Condition(_Read, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class Waiting(_Read, frozen=True):
    reason: str | None = None
    message: str | None = None


class Terminated(_Read, frozen=True):
    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None


class ContainerState(_Read, frozen=True):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Read, frozen=True):
    name: str = ""
    image: str = ""
    state: ContainerState | None = None


class PodStatus(_Read, frozen=True):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None

    def condition(self, kind: str) -> Condition:
        """The condition of that type; an empty one if there is none."""
        return next((each for each in self.conditions or () if each.type == kind), Condition())


class Resources(_Read, frozen=True):
    requests: dict[str, str] | None = None


class Container(_Read, frozen=True):
    resources: Resources | None = None
    restart_policy: str | None = None  # of an init container: "Always" makes it a sidecar


class PodSpec(_Read, frozen=True):
    node_name: str | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: dict[str, str] | None = None


class Pod(_Read, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Mark(_Read, frozen=True):
    """The object of a bookmark: a pod with nothing in it but the version that the watch has come to."""

    metadata: Meta


class Taint(_Read, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""


class MachineSpec(_Read, frozen=True):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class MachineStatus(_Read, frozen=True):
    allocatable: dict[str, str] | None = None
    conditions: tuple[Condition, ...] | None = None

    @property
    def ready(self) -> Condition:
        """Whether its kubelet reports. An empty condition if nothing is said of it."""
        return next((each for each in self.conditions or () if each.type == "Ready"), Condition())


class Machine(_Read, frozen=True):
    """A node of Kubernetes; here a node is an instance that a cluster uses."""

    metadata: Meta
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class ListMeta(_Read, frozen=True):
    resource_version: str = ""


class PodList(_Read, frozen=True):
    metadata: ListMeta
    items: tuple[Pod, ...] | None = None


class MachineList(_Read, frozen=True):
    metadata: ListMeta
    items: tuple[Machine, ...] | None = None


class Column(_Read, frozen=True):
    name: str = ""


class Row(_Read, frozen=True):
    cells: tuple[object, ...] | None = None


class Table(_Read, frozen=True):
    """What kubectl shows: a tenth of the list's bytes."""

    column_definitions: tuple[Column, ...] | None = None
    rows: tuple[Row, ...] | None = None


class Status(_Read, frozen=True):
    """An answer that is no success."""

    code: int = 0
    reason: str | None = None
    message: str | None = None


class Event(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class ReviewStatus(_Read, frozen=True):
    allowed: bool = False


class Review(_Read, frozen=True):
    status: ReviewStatus = ReviewStatus()
