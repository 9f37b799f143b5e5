"""Reads and changes the workspace's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from brickyard.access import Authorizer, conf
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.features.workspaceconf.rules import KEYS, check_keys, checked, shown
from brickyard.store.store import Store
from brickyard.store.tx import Tx

WayIn = Callable[[Tx, str], None]  # raises InvalidState if calls from an source would be refused from now on


class WorkspaceConfService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, authorizer: Authorizer, require_way_in: WayIn) -> None:
        self._store = store
        self._authorizer = authorizer
        self._require_way_in = require_way_in

    async def get(self, caller: Caller, keys: Sequence[str]) -> dict[str, str | None]:
        """The values of these settings."""
        check_keys(keys)

        def work(tx: Tx) -> dict[str, str | None]:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="see the settings of the")
            return {key: shown(key, conf.get(tx, key) if key in KEYS else None) for key in keys}

        return await self._store.read(work)

    async def has_results_download(self) -> bool:
        """Whether the web page offers to save results of commands. Everybody who is logged in may know."""
        return await self._store.read(conf.has_results_download)

    async def change(self, caller: Caller, values: Mapping[str, object], *, source: str) -> None:
        """Sets all of these or none. `source`: where the call comes from, which must not be locked out."""
        given = checked(values)

        def work(tx: Tx) -> None:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="change the settings of the")
            conf.hold(tx)
            for key in given.keys() & KEYS.keys():
                conf.put(tx, key, given[key] or None)
            if conf.IP_ACCESS_LISTS in given:
                self._require_way_in(tx, source)

        await self._store.write(work)
