"""Tokens of tasks: each counts for one attempt of a run and for SQL on one warehouse, until the attempt is over.

A token follows from the workspace's secret and its attempt, so every server makes the same one, whatever was killed before.
"""

from __future__ import annotations

import hashlib
import hmac

from brickyard.access.credentials import renewed
from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.identity import CredentialKind, TokenRow, task_token_id
from brickyard.features.credentials.digests import Digests
from brickyard.store.identity import LOCK
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PREFIX = "task-"
LONGEST_MS = 7 * 86_400_000


class TaskTokens:
    """One per server. `key` is the workspace's secret."""

    def __init__(self, *, store: Store, clock: Clock, key: bytes) -> None:
        self._store = store
        self._clock = clock
        self._key = hmac.new(key, b"task tokens", hashlib.sha256).digest()
        self._digests = Digests(key=key)

    async def make(self, *, run_id: int, task_run_id: int, starting_ms: int, warehouse_id: str) -> str:
        """The token of an attempt; "" if the attempt is over, or its owner may do nothing any more."""
        mac = hmac.new(self._key, f"{task_run_id}/{starting_ms}".encode(), hashlib.sha256).hexdigest()
        token, now = PREFIX + mac, self._clock.now_ms()

        def work(tx: Tx) -> bool:
            tx.lock(LOCK, shared=True)
            run = tx.runs.get(run_id)
            attempts = (each for task in run.all_tasks for each in task.attempts) if run is not None else ()
            alive = any(each.task_run_id == task_run_id and not each.decided for each in attempts)
            if run is None or not alive or active_principal(tx, run.creator_user_name) is None:
                return False
            if tx.tokens.get(task_token_id(task_run_id)) is None:
                row = TokenRow(
                    token_id=task_token_id(task_run_id),
                    digest=self._digests.of(token),
                    user_name=run.creator_user_name,
                    comment=f"Run {run_id}",
                    created_ms=now,
                    expiry_ms=now + LONGEST_MS,
                    kind=CredentialKind.TASK,
                    details=warehouse_id,
                )
                tx.tokens.insert(row)
            return True

        return token if await self._store.write(work, background=True) else ""

    async def caller(self, bearer: str, warehouse_id: str) -> Caller | None:
        """The caller with that token at that warehouse; None if it is none, or another warehouse's."""
        if not bearer.startswith(PREFIX):
            return None
        digest, now = self._digests.of(bearer), self._clock.now_ms()

        def work(tx: Tx) -> Caller | None:
            row = tx.tokens.by_hash(digest)
            if row is None or row.kind is not CredentialKind.TASK or row.details != warehouse_id:
                return None
            owner = active_principal(tx, row.user_name)
            known = None if owner is None else caller_of(owner, token_id=row.token_id)
            return None if known is None else renewed(tx, known, now_ms=now, made_by_ms=now)

        return await self._store.read(work)

    async def again(self, caller: Caller) -> Caller | None:
        """The caller with current rights, while its token counts."""
        now = self._clock.now_ms()
        return await self._store.read(lambda tx: renewed(tx, caller, now_ms=now, made_by_ms=now))
