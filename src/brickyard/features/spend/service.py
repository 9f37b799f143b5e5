"""What clusters cost: their price per hour now, and sums over a range."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster
from brickyard.clusters.missing import existing_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeTypes
from brickyard.domain.spend import Charge
from brickyard.features.spend.model import (
    AskClusterSpend,
    AskSpend,
    NodePrice,
    PriceList,
    Spend,
    SpendGroup,
    SpendScope,
    SpendTotal,
)
from brickyard.features.spend.rules import Group, Sums, check_tag, days_of, fits, grouped, grouping, zone_of
from brickyard.store.store import Store
from brickyard.store.tx import Tx

DAY_MS = 24 * 3_600_000
MAX_RANGE_MS = 400 * DAY_MS


class SpendService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        node_types: NodeTypes,
        currency: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._node_types = node_types
        self._currency = currency

    async def workspace(self, caller: Caller, request: AskSpend) -> Spend:
        """The spend of all clusters, also of those that were permanently deleted; for users who are no administrators, of the
        clusters that they own."""
        now = self._clock.now_ms()
        start, end = _range(request.start_time, request.end_time, now=now, default_ms=30 * DAY_MS)
        by = grouping(request.group_by, request.top)
        check_tag(request.tag)
        zone = zone_of(request.time_zone)
        if end > now + MAX_RANGE_MS:
            raise InvalidParameterValue("end_time is more than 400 days ahead.")
        days = days_of(start, end, zone) if by.by_day else ()

        def work(tx: Tx) -> Spend:  # all of it: adding up and sorting 100,000 groups would hold the event loop
            self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the spend of the")
            sums, about = Sums(by.key, start_ms=start, end_ms=end, now=now, days=days), dict[str, Charge]()
            for charge in tx.charges.each_between(start, end, cluster_id=request.cluster_id):
                if not caller.is_admin and charge.creator_user_name != caller.user_name:
                    continue
                if not fits(charge, tag=request.tag, creator=request.creator_user_name):
                    continue
                sums.add(charge)
                if by.of_clusters:
                    known = about.get(charge.cluster_id)
                    if known is None or charge.started_ms >= known.started_ms:
                        about[charge.cluster_id] = charge
            groups, left_out = sums.groups(by.top)
            return Spend(
                start_time=start,
                end_time=end,
                groups=[_view(each, about.get(each.key)) for each in groups],
                totals=[SpendTotal(currency=currency, **total._asdict()) for currency, total in sums.totals()],
                left_out=left_out,
                scope=SpendScope.WORKSPACE if caller.is_admin else SpendScope.OWN,
            )

        return await self._store.read(work)

    async def cluster(self, caller: Caller, request: AskClusterSpend) -> Spend:
        """The spend of one cluster."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> tuple[int, int, Sequence[Charge]]:
            cluster = existing_cluster(tx, request.cluster_id)
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(cluster), to="see the spend of")
            begun = max(1, min(now - cluster.created_ms, MAX_RANGE_MS))
            start, end = _range(request.start_time, request.end_time, now=now, default_ms=begun)
            return start, end, tx.charges.between(start, end, cluster_id=request.cluster_id)

        start, end, charges = await self._store.read(work)
        groups = grouped(charges, lambda charge: charge.cluster_id, start_ms=start, end_ms=end, now=now)
        last = max(charges, key=lambda charge: charge.started_ms, default=None)
        return Spend(start_time=start, end_time=end, groups=[_view(each, last) for each in groups])

    async def prices(self, caller: Caller) -> PriceList:
        """The price list."""
        to = "see the prices of the"
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to=to))
        types = self._node_types()
        return PriceList(
            currency=self._currency,
            node_types=[NodePrice(node_type_id=each.node_type_id, price_per_hour=each.price_per_hour) for each in types],
        )


def _range(start: int, end: int, *, now: int, default_ms: int) -> tuple[int, int]:
    end = end or now
    start = start or end - default_ms
    if not 0 <= start < end:
        raise InvalidParameterValue(
            f"start_time is {start} and end_time is {end}; start_time must be the earlier one, in epoch ms."
        )
    if end - start > MAX_RANGE_MS:
        raise InvalidParameterValue("start_time and end_time are more than 400 days apart; spend is kept for that long.")
    return start, end


def _view(group: Group, about: Charge | None) -> SpendGroup:
    return SpendGroup(
        **group._asdict(),
        cluster_name=about.cluster_name if about is not None else "",
        creator_user_name=about.creator_user_name if about is not None else "",
    )
