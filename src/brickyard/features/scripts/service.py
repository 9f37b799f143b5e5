"""The Global Init Scripts API's calls. All are for administrators: the scripts run on every node of every cluster."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.scripts import (
    MAX_GLOBAL_SCRIPTS,
    CreateGlobalInitScript,
    GlobalInitScriptDetails,
    GlobalInitScriptDetailsWithContent,
    GlobalScript,
    ListGlobalInitScriptsResponse,
    UpdateGlobalInitScript,
)
from brickyard.plan.scripts import check_global_name, check_global_script, moved
from brickyard.store.scripts import ScriptRows
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class GlobalScriptService:
    """One per server. Methods raise ApiError. A change takes effect at the next start of each cluster."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer

    async def create(self, caller: Caller, request: CreateGlobalInitScript) -> str:
        """Creates a script and returns its id."""

        def work(tx: Tx) -> str:
            self._require(tx, caller, to="create global init scripts in the")
            name, digest = check_global_name(request.name), _keep(tx, request.script)
            tx.lock(ScriptRows.SCRIPTS)
            scripts, now = tx.scripts.all(), self._clock.now_ms()
            if len(scripts) >= MAX_GLOBAL_SCRIPTS:
                raise QuotaExceeded(f"There are {len(scripts)} global init scripts; delete one before you create another.")
            script = GlobalScript(
                script_id=self._ids.hex(16).upper(), name=name, digest=digest, enabled=request.enabled, created_ms=now,
                created_by=caller.user_name, updated_ms=now, updated_by=caller.user_name,
            )  # fmt: skip
            _write(tx, [*scripts, script], moved([each.script_id for each in scripts], script.script_id, request.position))
            return script.script_id

        return await self._store.write(work)

    async def update(self, caller: Caller, request: UpdateGlobalInitScript) -> None:
        """Changes the fields that are given."""

        def work(tx: Tx) -> None:
            self._require(tx, caller, to="change global init scripts in the")
            tx.lock(ScriptRows.SCRIPTS)
            scripts = tx.scripts.all()
            script = scripts[_find(scripts, request.script_id)]
            changes: dict[str, object] = {"updated_ms": self._clock.now_ms(), "updated_by": caller.user_name}
            if request.name is not None:
                changes["name"] = check_global_name(request.name)
            if request.script is not None:
                changes["digest"] = _keep(tx, request.script)
            if request.enabled is not None:
                changes["enabled"] = request.enabled
            changed = msgspec.structs.replace(script, **changes)
            order = moved([each.script_id for each in scripts], script.script_id, request.position)
            _write(tx, [changed if each is script else each for each in scripts], order)

        await self._store.write(work)

    async def delete(self, caller: Caller, script_id: str) -> None:
        """Deletes a script; those after it move up."""

        def work(tx: Tx) -> None:
            self._require(tx, caller, to="delete global init scripts of the")
            tx.lock(ScriptRows.SCRIPTS)
            scripts = tx.scripts.all()
            del scripts[_find(scripts, script_id)]
            tx.scripts.replace(scripts)

        await self._store.write(work)

    async def get(self, caller: Caller, script_id: str) -> GlobalInitScriptDetailsWithContent:
        """One script, with its content."""

        def work(tx: Tx) -> GlobalInitScriptDetailsWithContent:
            self._require(tx, caller, to="see global init scripts of the")
            scripts = tx.scripts.all()
            position = _find(scripts, script_id)
            content = tx.scripts.contents([scripts[position].digest])[scripts[position].digest]
            shown = msgspec.structs.asdict(_details(scripts[position], position))
            return GlobalInitScriptDetailsWithContent(**shown, script=content)

        return await self._store.read(work)

    async def list(self, caller: Caller) -> ListGlobalInitScriptsResponse:
        """All scripts in their order, without their contents."""

        def work(tx: Tx) -> ListGlobalInitScriptsResponse:
            self._require(tx, caller, to="see global init scripts of the")
            return ListGlobalInitScriptsResponse(
                scripts=[_details(script, position) for position, script in enumerate(tx.scripts.all())]
            )

        return await self._store.read(work)

    def _require(self, tx: Tx, caller: Caller, *, to: str) -> None:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)


def _keep(tx: Tx, script: str) -> str:
    """Stores the content of a script and returns its digest."""
    content = check_global_script(script)
    digest = hashlib.sha256(content).hexdigest()
    tx.lock(ScriptRows.SCRIPTS)
    tx.scripts.keep(digest, base64.b64encode(content).decode())
    return digest


def _write(tx: Tx, scripts: Sequence[GlobalScript], order: Sequence[str]) -> None:
    by_id = {script.script_id: script for script in scripts}
    tx.scripts.replace([by_id[script_id] for script_id in order])


def _find(scripts: Sequence[GlobalScript], script_id: str) -> int:
    for position, script in enumerate(scripts):
        if script.script_id == script_id:
            return position
    raise ResourceDoesNotExist(f"There is no global init script with id {script_id[:64]}.")


def _details(script: GlobalScript, position: int) -> GlobalInitScriptDetails:
    return GlobalInitScriptDetails(
        script_id=script.script_id, name=script.name, position=position, enabled=script.enabled, created_at=script.created_ms,
        created_by=script.created_by, updated_at=script.updated_ms, updated_by=script.updated_by,
    )  # fmt: skip
