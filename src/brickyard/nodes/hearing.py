"""Keeps track of which agents have been heard from.

A server that is alone keeps this in memory. Servers that share a database write it there once a second, in one statement, and the
server that monitors instances uses what all of them have written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import structlog

from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import DatabaseTrouble
from brickyard.nodes.loads import OLD_S, Loads
from brickyard.plan.silence import Silence
from brickyard.store.heard import Heard
from brickyard.store.store import Store

log = structlog.get_logger(__name__)

WRITE_S = 1.0
BEHIND_S = 10.0  # a server that could not write for this long might as well not have heard anything
PAUSE_S = 10.0  # the longest pause between two checks; the monitor checks at least every 5 s
PRUNE_S = 60.0
JUDGE_S = 2.0  # between two judgements, if silence may last for many times as long


class Hearing:
    """One per server. `forget` is called for removed instances, in case another server handled their end."""

    def __init__(self, *, store: Store, loads: Loads, silence_s: float, monotonic: Monotonic = time.monotonic) -> None:
        self._store = store
        self._loads = loads
        self._monotonic = monotonic
        self._heard: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}
        self._unwritten_since: float | None = None
        self._writing_since: float | None = None
        self._silence = Silence(after_s=silence_s, pause_s=PAUSE_S)
        self._judge_s = min(JUDGE_S, silence_s / 20)
        self._shared = False
        self._verdict: frozenset[str] = frozenset()
        self._judged = float("-inf")
        self._pruned = monotonic()

    def hear(self, instance_id: str) -> None:
        """Records that the instance's agent has just called."""
        now = self._heard[instance_id] = self._monotonic()
        if not self._store.alone:
            self._unwritten[instance_id] = now
            if self._unwritten_since is None:
                self._unwritten_since = now

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._heard.pop(instance_id, None)
        self._unwritten.pop(instance_id, None)

    @property
    def behind(self) -> bool:
        """Whether this server has been unable for too long to tell others what it heard: agents must switch to another server."""
        since = [at for at in (self._writing_since, self._unwritten_since) if at is not None]
        return bool(since) and not self._store.alone and self._monotonic() - min(since) > BEHIND_S

    async def judge(self, registered: Iterable[str]) -> frozenset[str]:
        """The registered instances whose agents no server has heard from for too long, as far as this server could see what the
        others heard. Call at least every PAUSE_S. Raises DatabaseTrouble."""
        registered, shared = set(registered), not self._store.alone
        if shared and self._shared and self._monotonic() - self._judged < WRITE_S:
            return self._verdict & registered
        if not (shared or self._shared or self._verdict) and self._monotonic() - self._judged < self._judge_s:
            return self._verdict  # nobody was silent a moment ago
        if shared != self._shared:  # marks come from another source now: start over
            self._shared = shared
            self._silence.forget()
        marks: Mapping[str, float] = self._heard
        if shared:
            try:
                marks = await self._store.write(lambda tx: tx.heard.marks(), background=True)
            except DatabaseTrouble:
                self._silence.forget()
                raise
        self._judged = self._monotonic()
        self._verdict = self._silence.look(registered, marks, now_s=self._judged)
        return self._verdict

    def silent(self) -> frozenset[str]:
        """The result of the last `judge`, if that was recent."""
        return self._verdict if self._monotonic() - self._judged <= PAUSE_S else frozenset()

    async def write(self) -> None:
        """Writes down what was heard since the last time, unless this server is alone. Raises DatabaseTrouble."""
        batch, self._unwritten = self._unwritten, {}
        since, self._unwritten_since = self._unwritten_since, None
        if self._store.alone or not batch:
            return
        self._writing_since, now = since, self._monotonic()
        rows = [
            Heard(id=instance_id, age_ms=int((now - at) * 1000), load=self._loads.told(instance_id))
            for instance_id, at in batch.items()
        ]
        try:
            await self._store.write(lambda tx: tx.heard.note(rows), background=True)
        except BaseException:
            self._unwritten = batch | self._unwritten
            self._unwritten_since = since
            raise
        finally:
            self._writing_since = None

    async def tell_others(self, forget: Callable[[str], None]) -> None:
        """Write as `write` does, and from time to time call `forget` for removed instances, in case another server handled their
        end."""
        await self.write()
        if self._monotonic() - self._pruned > PRUNE_S:
            self._pruned = self._monotonic()
            await self._prune(forget)

    async def _prune(self, forget: Callable[[str], None]) -> None:
        if self._store.alone:
            return
        await self._store.write(lambda tx: tx.heard.prune(), background=True)
        known = frozenset(self._heard)  # before the read, so that an agent that first calls meanwhile is kept
        states = await self._store.read(lambda tx: tx.instances.states(), background=True)
        for instance_id in known - states.keys():
            forget(instance_id)
        for instance_id, at in self._heard.items():
            if self._monotonic() - at > OLD_S:  # its agent calls another server, so what it told this one is out of date
                self._loads.forget(instance_id)
