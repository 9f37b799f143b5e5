"""Requests and answers about spend and budgets."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class AskSpend(msgspec.Struct, frozen=True, kw_only=True):
    """A range of time in epoch ms; the last 30 days if none is given. `group_by`: cluster, creator, node_type, role, tag:KEY,
    day, or day with one of the others, such as "day,creator". Days are those of `time_zone`. `top`: the number of keys at most;
    the rest is summed up. `tag` (KEY=VALUE), `creator_user_name` and `cluster_id` select what counts."""

    start_time: int = 0
    end_time: int = 0
    group_by: str = "cluster"
    time_zone: str = "UTC"
    top: int = 0
    tag: str = ""
    creator_user_name: str = ""
    cluster_id: str = ""


class AskClusterSpend(msgspec.Struct, frozen=True, kw_only=True):
    """Of one cluster; from its creation until now if no time is given."""

    cluster_id: str = ""
    start_time: int = 0
    end_time: int = 0


class SpendGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The spend of one cluster, creator, ... `key` is empty for clusters without the tag; names are those of a cluster. `day`
    is a date, where days are asked for. `others`: the sum of the keys beyond `top`."""

    key: str
    day: str = ""
    others: bool = False
    cluster_name: str = ""
    creator_user_name: str = ""
    currency: str
    amount: float
    node_hours: float
    price_per_hour: float


class SpendTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of everything that was asked for, in one currency."""

    currency: str
    amount: float
    node_hours: float
    price_per_hour: float


class SpendScope(StrEnum):
    """Whose spend an answer has: that of all clusters, or of the caller's own."""

    WORKSPACE = "workspace"
    OWN = "own"


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """Sums between two times, the greatest first; with days, the first day first. `left_out`: how many keys `others` sums up."""

    start_time: int
    end_time: int
    groups: list[SpendGroup]
    totals: list[SpendTotal] = []
    left_out: int = 0
    scope: SpendScope = SpendScope.WORKSPACE


class NodePrice(msgspec.Struct, frozen=True, kw_only=True):
    node_type_id: str
    price_per_hour: float


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of the node types on offer."""

    currency: str
    node_types: list[NodePrice]


class SetBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A monthly budget, of everything or of what the filter selects: `tag` (KEY=VALUE), `creator_user_name` or both. It alerts at
    `alert_percent` of the amount. `currency`: that of the price list if none is given."""

    display_name: str
    amount: float
    currency: str = ""
    tag: str = ""
    creator_user_name: str = ""
    alert_percent: int = 80


class ReplaceBudget(SetBudget, frozen=True, kw_only=True):
    budget_id: str


class BudgetId(msgspec.Struct, frozen=True, kw_only=True):
    budget_id: str


class AskBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The month is that of `time_zone`."""

    time_zone: str = "UTC"


class Budget(SetBudget, frozen=True, kw_only=True):
    """As it is stored."""

    budget_id: str


class BudgetState(StrEnum):
    """Whether what was spent is below the alert line, above it, or above the amount."""

    OK = "OK"
    ALERT = "ALERT"
    EXCEEDED = "EXCEEDED"


class BudgetView(Budget, frozen=True, kw_only=True):
    """A budget and what was spent of it since `start_time`, the beginning of the month. `forecast`: the month's sum, if the
    rest of it goes on as now."""

    state: BudgetState
    spent: float
    forecast: float
    start_time: int
    end_time: int


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    budgets: list[BudgetView]
