"""The number of workers: it follows the load within a range, and workers are launched and sent away to match."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Instance, Target
from brickyard.domain.events import EventDetails, EventDetailsCause, EventType
from brickyard.domain.node import Phase, Role
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode
from brickyard.plan import autoscale
from brickyard.plan.cluster.nodes import NodePhases
from brickyard.plan.cluster.passstate import NewNode
from brickyard.plan.reasons import shortage_text, simple_reason


class SizePhases(NodePhases):
    """The phases that bring the cluster to its wanted size."""

    def _autoscale(self) -> None:
        """Sets the wanted size from the load, within the cluster's range. The rest of the pass acts on it."""
        driver = self._driver_node()
        if self.cluster.spec.autoscale is None or not self.cluster.up or driver is None or self.shortage is not None:
            return
        rules = self.policy.autoscale
        if self.load is None or self._unheard(driver):
            self.deadlines.append(self.now + rules.unknown_ms)
            return
        ready = self._registered_workers(driver)
        staying = [node for node in self._current_workers() if not node.retiring]
        size = self.sizes.get(self.cluster.spec.node_type_id or "")  # the type may no longer be on offer
        cores = int(size.num_cores) if size else next((node.assignment.cores for node in staying if node.assignment), 1)
        at = autoscale.situation(self.cluster, self.load, staying, cores=cores, growing=len(ready) < self._wanted())
        decided = autoscale.decide(at, now=self.now, rules=rules, window_ms=autoscale.window_ms(self.cluster, rules))
        if decided.due_ms is not None:
            self.deadlines.append(decided.due_ms)
        if decided.target != self._wanted():
            cause = EventDetailsCause.AUTOSCALE
            self._change(target_workers=decided.target, scaled_ms=self.now, sized=False, resize_cause=cause)
            self._event(EventType.RESIZING, self._size_details(len(ready)))

    def _size(self) -> None:
        """Adds or removes workers until there are as many as wanted."""
        if self.shortage is not None:
            self._note_shortage(self.shortage)
        if self.cluster.target is not Target.RUNNING:
            return
        for node in self._in_turn(self._current_workers()):
            if node.current_status.leaving and not node.retiring:
                self._dismiss(node)  # its data moves while there is time, and another worker takes its place
        staying = [node for node in self._current_workers() if not node.retiring]
        missing = self._wanted() - len(staying)
        if missing > 0:
            if self.cluster.grow_after_ms > self.now:
                self.deadlines.append(self.cluster.grow_after_ms)
            else:
                self._grow(missing, allowed=self.policy.max_nodes - len(staying))
        # Idle workers go first, then those that hold the least data, as reported by the driver; without a report, the newest.
        loads = autoscale.loads_of(self.load) if missing < 0 else {}
        staying.sort(key=lambda node: autoscale.weight(node, loads.get(node.current_status.worker_address)))
        for node in self._in_turn(staying[: max(0, -missing)]):
            self._dismiss(node)
        for node in self._in_turn(self._current_workers()):
            over = self.now >= node.retire_after_ms or self._hangs(node)
            done = over or node.current_status.phase in (Phase.RETIRED, Phase.FAILED)
            if node.retiring and done:
                self._send_away(node)
                self._event(EventType.DECOMMISSION_ENDED, EventDetails(instance_id=node.instance_id))
            elif node.retiring:
                self.deadlines.append(node.retire_after_ms)

    def _grow(self, missing: int, *, allowed: int) -> None:
        """Adds workers. A start fails if the pool has no room; a cluster that is up takes what is available, up to the limit of
        the workspace."""
        for added in range(missing):
            if added >= allowed:
                self._note_shortage(self._over_limit())
                return
            if self._full():
                return
            if (short := self._add(Role.WORKER)) is not None:
                self._note_shortage(short, enough=self._wanted())
                return

    def _over_limit(self) -> TerminationReason:
        message = f"this workspace allows at most {self.policy.max_nodes} workers for one cluster (max_nodes)"
        return simple_reason(TerminationReasonCode.INVALID_ARGUMENT, databricks_error_message=message)

    def _note_shortage(self, reason: TerminationReason, *, enough: int | None = None) -> None:
        """Handles workers that cannot be had. A start goes on if enough can; a cluster that is up says so and retries later."""
        message = shortage_text(reason)
        coming: list[Instance | NewNode] = [node for node in self._current_workers() if not node.retiring]
        coming += [node for node in self.new if node.role is Role.WORKER]
        if not self.cluster.up and len(coming) < (self._enough() if enough is None else enough):
            self._end(reason, f"Only {len(coming)} of {self._wanted()} workers could be obtained. {message}")
            return
        scale = self.cluster.spec.autoscale
        growth = self.cluster.up and scale is not None and len(coming) >= (scale.min_workers or 0)
        if growth and self.cluster.grow_after_ms > self.now:
            self._change(target_workers=len(coming))  # another refusal within the same attempt
            return
        failures = self.cluster.grow_failures + 1
        pause = min(self.policy.grow_backoff_ms * 2 ** (failures - 1), self.policy.grow_backoff_max_ms)
        self._change(grow_failures=failures, grow_after_ms=self.now + pause, worker_failures=0)
        self.deadlines.append(self.now + pause)  # if nothing was launched, nothing else triggers the next pass
        self._event(
            EventType.AUTOSCALING_FAILED if growth else EventType.ADD_NODES_FAILED,
            msgspec.structs.replace(self._size_details(len(coming)), did_not_expand_reason=message, reason=reason),
        )
        self._change(sized=True)  # the shortage has been reported; growth continues in the background
        if growth:
            self._change(target_workers=len(coming))  # make do with these until the load asks for more again
        elif self.cluster.up:
            self._change(state_message=f"{self._missing_text(len(coming))}. {message}")

    def _dismiss(self, node: Instance) -> None:
        """Sends a worker away: gracefully if it is ready, otherwise at once."""
        if not node.ready or node.assignment is None:
            self._send_away(node)
            return
        retiring = msgspec.structs.replace(node.assignment, version=node.assignment.version + 1, retiring=True)
        self._set(node, assignment=retiring, retire_after_ms=self.now + self.policy.retire_timeout_ms)
        self.deadlines.append(self.now + self.policy.retire_timeout_ms)
        self._event(EventType.DECOMMISSION_STARTED, EventDetails(instance_id=node.instance_id))
