"""Store queries beyond a single row: filters, sort orders and list positions."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.access import EVERYTHING, Visible
from brickyard.domain.events import EventType
from brickyard.domain.run import RunType
from brickyard.domain.states import ClusterSource, State


class ClusterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects clusters that meet all the given conditions. Permanently deleted clusters never match.

    `ended_after_ms` leaves out clusters that have been TERMINATED since before that time, unless they are pinned.
    """

    sources: tuple[ClusterSource, ...] = ()
    states: tuple[State, ...] = ()
    is_pinned: bool | None = None
    policy_id: str | None = None
    ended_after_ms: int = 0
    visible: Visible = EVERYTHING


class ClusterOrder(StrEnum):
    """CREATED: newest first by default. NAME: by cluster_name, then id."""

    CREATED = "CREATED"
    NAME = "NAME"


class ClusterPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A position in a sort order: the sort value and id of the last row of a page. The next page holds the rows strictly after
    it, so rows that are added or removed meanwhile neither repeat nor hide others."""

    value: int | str
    cluster_id: str


class ClusterSort(msgspec.Struct, frozen=True, kw_only=True):
    """A sort order and its direction."""

    by: ClusterOrder = ClusterOrder.CREATED
    descending: bool = True


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects events of one cluster. Times are epoch milliseconds, both ends included; 0 means no limit."""

    cluster_id: str
    types: tuple[EventType, ...] = ()
    start_ms: int = 0
    end_ms: int = 0


class EventPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A position in a cluster's events: the next page holds those strictly after it, in the reading direction."""

    timestamp: int
    seq: int


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects runs that meet all the given conditions. Start times are epoch ms, both ends included; 0 means no limit."""

    job_id: int | None = None
    active: bool | None = None
    start_ms: int = 0
    end_ms: int = 0
    type: RunType | None = None
    visible: Visible = EVERYTHING


class JobPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A position in the list of jobs, ordered by creation."""

    created_ms: int
    job_id: int


class RunPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A position in the list of runs, ordered by start time."""

    created_ms: int
    run_id: int
