"""Monthly budgets: what may be spent, and what was."""

from __future__ import annotations

import math

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist, ResourceLimitExceeded
from brickyard.features.spend.model import (
    AskBudgets,
    Budget,
    BudgetId,
    Budgets,
    BudgetState,
    BudgetView,
    ReplaceBudget,
    SetBudget,
)
from brickyard.features.spend.rules import Sum, Sums, check_tag, fits, month_of, zone_of
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_BUDGETS = 100
MAX_AMOUNT = 1e12
_META = "budgets"  # all of them, as one JSON list: they are few, and are read together
_decode = msgspec.json.Decoder(list[Budget]).decode


class BudgetService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, currency: str) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._currency = currency

    async def shown(self, caller: Caller, request: AskBudgets) -> Budgets:
        """Budgets with what was spent this month. Administrators see all, others those of their own clusters alone."""
        now = self._clock.now_ms()
        start, end = month_of(now, zone_of(request.time_zone))

        def work(tx: Tx) -> list[BudgetView]:
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the budgets of the")
            shown = [each for each in _read(tx) if caller.is_admin or each.creator_user_name == caller.user_name]
            sums = [Sums(None, start_ms=start, end_ms=now, now=now) for _ in shown]
            for charge in tx.charges.each_between(start, now) if shown else ():
                for each, total in zip(shown, sums, strict=True):
                    if charge.currency == each.currency and fits(charge, tag=each.tag, creator=each.creator_user_name):
                        total.add(charge)
            spent = [next((found for _, found in total.totals()), Sum()) for total in sums]
            return [view(each, found, start=start, end=end, now=now) for each, found in zip(shown, spent, strict=True)]

        return Budgets(budgets=await self._store.read(work))

    async def create(self, caller: Caller, request: SetBudget) -> Budget:
        """Creates a budget, which counts from the beginning of this month."""
        made = self._checked(request, self._ids.hex(16))

        def work(tx: Tx) -> Budget:
            budgets = self._begin(tx, caller, to="create budgets in the")
            if len(budgets) >= MAX_BUDGETS:
                raise ResourceLimitExceeded(f"The workspace has {MAX_BUDGETS} budgets, which is the limit. Delete one first.")
            _write(tx, [*budgets, made])
            return made

        return await self._store.write(work)

    async def replace(self, caller: Caller, request: ReplaceBudget) -> Budget:
        """Sets every field of a budget."""
        made = self._checked(request, request.budget_id)

        def work(tx: Tx) -> Budget:
            budgets = self._begin(tx, caller, to="change budgets of the")
            _find(budgets, made.budget_id)
            _write(tx, [made if each.budget_id == made.budget_id else each for each in budgets])
            return made

        return await self._store.write(work)

    async def delete(self, caller: Caller, request: BudgetId) -> None:
        """Deletes a budget. What was spent stays."""

        def work(tx: Tx) -> None:
            budgets = self._begin(tx, caller, to="delete budgets of the")
            _find(budgets, request.budget_id)
            _write(tx, [each for each in budgets if each.budget_id != request.budget_id])

        await self._store.write(work)

    def _begin(self, tx: Tx, caller: Caller, *, to: str) -> list[Budget]:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)
        tx.lock("budgets")
        return _read(tx)

    def _checked(self, request: SetBudget, budget_id: str) -> Budget:
        """Raises InvalidParameterValue."""
        name = request.display_name.strip()
        if not 1 <= len(name) <= 100:
            raise InvalidParameterValue("display_name must have 1 to 100 characters.")
        if not (math.isfinite(request.amount) and 0 < request.amount <= MAX_AMOUNT):
            raise InvalidParameterValue(f"amount is {request.amount}; it must be above 0 and at most {MAX_AMOUNT:.0f}.")
        if not 1 <= request.alert_percent <= 100:
            raise InvalidParameterValue(f"alert_percent is {request.alert_percent}; it must be from 1 to 100.")
        for field in ("currency", "tag", "creator_user_name"):
            if len(getattr(request, field)) > 400:
                raise InvalidParameterValue(f"{field} must have at most 400 characters.")
        check_tag(request.tag)
        return Budget(
            budget_id=budget_id,
            display_name=name,
            amount=request.amount,
            currency=request.currency or self._currency,
            tag=request.tag,
            creator_user_name=request.creator_user_name,
            alert_percent=request.alert_percent,
        )


def view(budget: Budget, spent: Sum, *, start: int, end: int, now: int) -> BudgetView:
    """The budget with its state. The forecast adds what runs now, until the end of the month."""
    share = spent.amount / budget.amount
    state = BudgetState.EXCEEDED if share > 1 else BudgetState.ALERT if share * 100 >= budget.alert_percent else BudgetState.OK
    return BudgetView(
        **msgspec.structs.asdict(budget),
        state=state,
        spent=spent.amount,
        forecast=round(spent.amount + spent.price_per_hour * (end - now) / 3_600_000, 2),
        start_time=start,
        end_time=end,
    )


def _read(tx: Tx) -> list[Budget]:
    return _decode(tx.get_meta(_META) or "[]")


def _write(tx: Tx, budgets: list[Budget]) -> None:
    tx.set_meta(_META, msgspec.json.encode(budgets).decode())


def _find(budgets: list[Budget], budget_id: str) -> None:
    if not any(each.budget_id == budget_id for each in budgets):
        raise ResourceDoesNotExist(f"Budget {budget_id[:64]!r} does not exist.")
