"""What clusters cost: their price per hour now, and sums over a range."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster
from brickyard.clusters.missing import existing_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeTypes
from brickyard.domain.spend import Charge
from brickyard.features.spend.model import AskClusterSpend, AskSpend, NodePrice, PriceList, Spend, SpendGroup
from brickyard.features.spend.rules import Group, grouped
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_TAG = "tag:"
_KEYS: dict[str, Callable[[Charge], str]] = {
    "cluster": lambda charge: charge.cluster_id,
    "creator": lambda charge: charge.creator_user_name,
    "node_type": lambda charge: charge.node_type_id,
    "role": lambda charge: charge.role,
}
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
        """The spend of all clusters, also of those that were permanently deleted."""
        now = self._clock.now_ms()
        start, end = _range(request.start_time, request.end_time, now=now, default_ms=30 * DAY_MS)
        key = _key(request.group_by)

        def work(tx: Tx) -> Sequence[Charge]:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="see the spend of the")
            return tx.charges.between(start, end)

        charges = await self._store.read(work)
        about = {charge.cluster_id: charge for charge in charges} if request.group_by == "cluster" else {}
        groups = grouped(charges, key, start_ms=start, end_ms=end, now=now)
        return Spend(start_time=start, end_time=end, groups=[_view(each, about.get(each.key)) for each in groups])

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
        groups = grouped(charges, _KEYS["cluster"], start_ms=start, end_ms=end, now=now)
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


def _key(asked: str) -> Callable[[Charge], str]:
    if asked.startswith(_TAG) and (tag := asked.removeprefix(_TAG)):
        return lambda charge: charge.tags.get(tag, "")
    if asked not in _KEYS:
        raise InvalidParameterValue(f"group_by is {asked[:140]!r}; it must be {', '.join(_KEYS)} or tag:KEY.")
    return _KEYS[asked]


def _view(group: Group, about: Charge | None) -> SpendGroup:
    return SpendGroup(
        **group._asdict(),
        cluster_name=about.cluster_name if about is not None else "",
        creator_user_name=about.creator_user_name if about is not None else "",
    )
