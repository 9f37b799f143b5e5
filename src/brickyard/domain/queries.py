"""Questions to the store that are more than "this row": filters, orders and positions of lists."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.access import EVERYTHING, Visible
from brickyard.domain.events import EventType
from brickyard.domain.states import ClusterSource, State


class ClusterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which clusters; all that are given must hold. Permanently deleted ones never match.

    `ended_after_ms`: leave out clusters that are TERMINATED since before that moment, unless they are pinned.
    """

    sources: tuple[ClusterSource, ...] = ()
    states: tuple[State, ...] = ()
    is_pinned: bool | None = None
    policy_id: str | None = None
    ended_after_ms: int = 0
    visible: Visible = EVERYTHING


class ClusterOrder(StrEnum):
    """CREATED: newest first by default; NAME: by cluster_name, then id."""

    CREATED = "CREATED"
    NAME = "NAME"


class ClusterPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A place in an order: the sort value and the id of the last row of a page. The next page holds the rows strictly behind
    it, so rows that come and go meanwhile neither repeat nor hide others."""

    value: int | str
    cluster_id: str


class ClusterSort(msgspec.Struct, frozen=True, kw_only=True):
    """An order and its direction."""

    by: ClusterOrder = ClusterOrder.CREATED
    descending: bool = True


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of one cluster. Times are epoch milliseconds, both ends included; 0 is open."""

    cluster_id: str
    types: tuple[EventType, ...] = ()
    start_ms: int = 0
    end_ms: int = 0


class EventPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A place in a cluster's events: those strictly behind it, in the direction that is read, come next."""

    timestamp: int
    seq: int


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs; all that are given must hold. Times, of a run's start, are epoch ms, both ends included; 0 is open."""

    job_id: int | None = None
    active: bool | None = None
    start_ms: int = 0
    end_ms: int = 0
    visible: Visible = EVERYTHING


class RunPosition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A place among runs in the order of their start."""

    created_ms: int
    run_id: int
