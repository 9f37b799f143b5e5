"""The cluster planner: what to do next about one cluster, from what is wanted and what is.

`plan` is a pure function. It runs inside the transaction that read its inputs and that writes its result, so no other writer can
come between: a decision is never made on stale rows. What must happen outside (launch, terminate) is left as the state of
instances, and done after the commit, again and again until the provider agrees.

A pass has small phases in a fixed order: first reflect what the world did (`_reap`), then act on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.events import EventDetails, EventDetailsCause, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Load, Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.plan import autoscale
from brickyard.plan.assignments import spark_context_id
from brickyard.plan.books import Books, NewNode, Plan
from brickyard.plan.launching import remarks, reusable, unsupported
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, Room, returned, warmth
from brickyard.plan.reasons import failure_reason, launch_reason, shortage_text, simple_reason

__all__ = ["NewNode", "Plan", "plan"]

FINDING = "Finding instances for new nodes, acquiring more instances if necessary"


def plan(
    cluster: Cluster,
    instances: Sequence[Instance],
    *,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
    silent: frozenset[str] = frozenset(),
    load: Load | None = None,
    rooms: Mapping[str, Room] = MappingProxyType({}),
) -> Plan:
    """Decide about one cluster.

    `sizes` are the node types by id. `silent` are the instances that this process has not heard from lately: nothing is
    concluded from their idleness. `load` is what the driver said last of its work; None: this process does not know.
    `rooms` are those of the pools of `poolroom.pools_needed` that exist; the plan takes from them.
    """
    books = _Pass(cluster, instances, now=now, sizes=sizes, policy=policy, silent=silent, load=load, rooms=rooms)
    return books.run()


class _Pass(Books):
    """The phases, each owning one condition."""

    def run(self) -> Plan:
        self._reap()
        if self.cluster.target is Target.RUNNING:
            self._check_types()
        if self.cluster.target is Target.RUNNING:
            self._regenerate()
            self._disks()
            self._driver()
        if self.cluster.target is Target.RUNNING:
            self._heartbeat()
        if self.cluster.target is Target.RUNNING:
            self._workers()
            self._autoscale()
            self._size()
        if self.cluster.target is Target.RUNNING:
            self._tell_master()
            self._serve()
        if self.cluster.target is Target.RUNNING:
            self._describe()
            self._idle()
        if self.cluster.target is Target.TERMINATED:
            self._drain()
        return Plan(
            cluster=self.cluster,
            instances={key: node for key, node in self.nodes.items() if key not in self.before or node != self.before[key]},
            new=self.new,
            removed=self.removed,
            events=self.events,
            due_ms=min(self.deadlines, default=None),
            returned=self.returned,
            purge=self.cluster.ended and (bool(self.cluster.deleted_ms) or 0 < self.cluster.forget_ms <= self.now),
        )

    # -- phases ------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Instances that are gone, or clean and back in their pool, leave the books; those that nobody sent away are losses."""
        for node in list(self.nodes.values()):
            if node.releasing_ms and node.live:
                self._release(node)
            if node.state is InstanceState.GONE:
                del self.nodes[node.instance_id]
                self.removed.append(node)
            current = node.generation == self.cluster.incarnation and self.cluster.target is Target.RUNNING
            # A loss counts once, and while its remains are still being cleared: its event comes before whatever replaces the
            # node, and no worker is launched for a cluster that ends with its driver.
            if node.lost and current and not node.retiring and not node.loss_told:
                if node.instance_id in self.nodes:
                    self._set(node, loss_told=True)
                self._lost(node, node.lost)

    def _lost(self, node: Instance, why: str) -> None:
        """A node of the present incarnation is lost: the driver ends the cluster, a worker is replaced."""
        if node.role is not Role.WORKER:
            verb = "was lost" if self.cluster.up else "was lost while the cluster was starting"
            self._end(
                simple_reason(
                    TerminationReasonCode.SPOT_INSTANCE_TERMINATION if node.spot else TerminationReasonCode.DRIVER_UNREACHABLE,
                    instance_id=node.instance_id,
                    databricks_error_message=f"The driver {verb}: {why}",
                ),
                f"The driver {verb}: {why}. Start the cluster again; the kept logs are those of {node.instance_id}.",
                state_loss=self.cluster.up,
            )
        elif self.cluster.up:
            self._event(
                EventType.NODES_LOST,
                EventDetails(
                    instance_id=node.instance_id,
                    current_num_workers=len(self._current_workers()),
                    target_num_workers=self._wanted(),
                    cause=EventDetailsCause.AUTORECOVERY,
                    driver_state_message=why,
                ),
            )
            self._change(sized=False, last_state_loss_ms=self.now, resize_cause=EventDetailsCause.AUTORECOVERY)

    def _release(self, node: Instance) -> None:
        """Nothing of the cluster runs on it any more: then it is its pool's. Or it takes too long: then it ends."""
        deadline = node.releasing_ms + CLEAN_TIMEOUT_MS
        if node.clean:
            del self.nodes[node.instance_id]
            self.returned.append(returned(node, now=self.now))
        elif self.now >= deadline:
            self._set(node, state=InstanceState.TERMINATING)
        else:
            self.deadlines.append(deadline)

    def _check_types(self) -> None:
        """The provider may have stopped offering a type since the cluster was specified. One that is up keeps its nodes."""
        if self.cluster.up:
            return
        for role in (self._driver_role(), Role.WORKER):
            if (reason := unsupported(self.cluster.spec, role, offered=self.sizes)) is not None:
                self._end(reason, shortage_text(reason))
                return

    def _regenerate(self) -> None:
        """Nodes of an earlier incarnation get the new one's assignment where they fit it, and go where they do not."""
        spec = self.cluster.spec
        wanted = {self._driver_role(): 1, Role.WORKER: self._wanted()}
        taken = {role: sum(1 for n in self._current() if n.role is role) for role in Role}
        for node in self._live():
            if node.generation == self.cluster.incarnation:
                continue
            room = taken[node.role] < wanted.get(node.role, 0)
            if room and node.state is InstanceState.REGISTERED and reusable(node, spec, offered=self.sizes):
                taken[node.role] += 1
                self._set(node, generation=self.cluster.incarnation, ready_ms=0, cold="", assignment=self._assignment(node))
            else:
                self._send_away(node)

    def _disks(self) -> None:
        """Nodes whose files take most of what they may: told once, before their agents end them for it."""
        for node in self._current():
            status = node.current_status
            if bool(status.disk_limit) == node.disk_told:
                continue
            self._set(node, disk_told=bool(status.disk_limit))
            if status.disk_limit:
                why = f"its files take {status.disk_used >> 20} of {status.disk_limit >> 20} MiB; with more the node is ended"
                free = max(0, status.disk_limit - status.disk_used)
                details = EventDetails(
                    instance_id=node.instance_id, disk_size=status.disk_limit, free_space=free, did_not_expand_reason=why
                )
                self._event(EventType.DID_NOT_EXPAND_DISK, details)

    def _driver(self) -> None:
        drivers = [node for node in self._current() if node.role is not Role.WORKER]
        if not drivers:
            if (short := self._add(self._driver_role())) is not None:
                self._end(short, f"No instance could be had for the driver. {shortage_text(short)}")
            return
        driver = drivers[0]
        if driver.launch_error is not None:
            if not self._retry_launch(driver):
                reason, message = launch_reason(driver.launch_error, what="the driver")
                self._end(reason, message)
            return
        if (failure := self._failure(driver)) is not None:
            reason, message = failure_reason(failure, what="The driver")
            self._end(reason, message, state_loss=self.cluster.up)

    def _heartbeat(self) -> None:
        """A driver whose Spark answers nothing is told of, and given up when that lasts."""
        driver = self._driver_node()
        if driver is None or not self.cluster.up:
            return
        since_ms = driver.current_status.silent_since_ms
        if not since_ms:
            if self.cluster.silence_told:
                self._change(silence_told=False, state_message="")
                self._event(EventType.DRIVER_HEALTHY, EventDetails())
            return
        hangs, given_up_ms = self._hangs(driver), since_ms + self.policy.give_up_ms
        if self.now >= given_up_ms:
            message = f"The driver is up, but Spark on it has not responded for {self.policy.give_up_ms // 1000} s"
            self._end(
                simple_reason(
                    TerminationReasonCode.DRIVER_UNRESPONSIVE,
                    instance_id=driver.instance_id,
                    databricks_error_message=message,
                ),
                f"{message}. Commands that ran on it have failed. Start the cluster again; the kept logs are those of "
                f"{driver.instance_id}.",
                state_loss=True,
            )
            return
        self.deadlines.append(given_up_ms)
        if hangs and not self.cluster.silence_told:
            message = "The driver is up but not responsive, likely because it collects garbage"
            self._change(silence_told=True, state_message=message)
            self._event(EventType.DRIVER_NOT_RESPONDING, EventDetails(driver_state_message=message))

    def _workers(self) -> None:
        """Workers that failed or could not be launched go; what that means for the cluster is decided in `_size`."""
        for node in self._current_workers():
            if node.launch_error is not None:
                if not self._retry_launch(node):
                    self.shortage = launch_reason(node.launch_error, what="a worker")[0]
                    self._set(node, state=InstanceState.TERMINATING)
            elif (failure := self._failure(node)) is not None and not node.retiring:
                self._change(worker_failures=self.cluster.worker_failures + 1)
                if self.cluster.up:
                    self._lost(node, failure.message)
                if self.cluster.worker_failures >= self.policy.max_worker_failures:
                    self.shortage = failure_reason(failure, what="A worker")[0]
                self._set(node, state=InstanceState.TERMINATING)
            elif self._hangs(node) and not node.retiring:
                if self.cluster.up:
                    self._lost(node, f"Spark on it has not responded for {self.policy.silence_ms // 1000} s")
                self._set(node, state=InstanceState.TERMINATING)
            elif node.ready and not node.ready_ms:
                self._set(node, ready_ms=self.now)
                self._change(worker_failures=0)

    def _autoscale(self) -> None:
        """Follow the load within the cluster's range. The rest of the pass makes the size so."""
        driver = self._driver_node()
        if self.cluster.spec.autoscale is None or not self.cluster.up or driver is None or self.shortage is not None:
            return
        rules = self.policy.autoscale
        if self.load is None or self._unheard(driver):
            self.deadlines.append(self.now + rules.unknown_ms)
            return
        ready = self._registered_workers(driver)
        staying = [node for node in self._current_workers() if not node.retiring]
        size = self.sizes.get(self.cluster.spec.node_type_id or "")  # which may be offered no more
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
        """More workers, or fewer, until they are as many as wanted."""
        if self.shortage is not None:
            self._note_shortage(self.shortage)
        if self.cluster.target is not Target.RUNNING:
            return
        staying = [node for node in self._current_workers() if not node.retiring]
        missing = self._wanted() - len(staying)
        if missing > 0:
            if self.cluster.grow_after_ms > self.now:
                self.deadlines.append(self.cluster.grow_after_ms)
            else:
                self._grow(missing)
        # Those that do no work go first, then those that hold the least: as the driver sees it, or else the newest.
        loads = autoscale.loads_of(self.load) if missing < 0 else {}
        staying.sort(key=lambda node: autoscale.weight(node, loads.get(node.current_status.worker_address)))
        for node in staying[: max(0, -missing)]:
            self._dismiss(node)
        for node in self._current_workers():
            over = self.now >= node.retire_after_ms or self._hangs(node)
            done = over or node.current_status.phase in (Phase.RETIRED, Phase.FAILED)
            if node.retiring and done:
                self._send_away(node)
                self._event(EventType.DECOMMISSION_ENDED, EventDetails(instance_id=node.instance_id))
            elif node.retiring:
                self.deadlines.append(node.retire_after_ms)

    def _grow(self, missing: int) -> None:
        """More workers. A start that the pool has no room for fails; a cluster that is up takes what there is."""
        for _ in range(missing):
            if (short := self._add(Role.WORKER)) is not None:
                self._note_shortage(short, enough=self._wanted())
                return

    def _note_shortage(self, reason: TerminationReason, *, enough: int | None = None) -> None:
        """Some workers cannot be had now. A start goes on if enough can; a cluster that is up says so and tries again later."""
        message = shortage_text(reason)
        coming: list[Instance | NewNode] = [node for node in self._current_workers() if not node.retiring]
        coming += [node for node in self.new if node.role is Role.WORKER]
        if not self.cluster.up and len(coming) < (self._enough() if enough is None else enough):
            self._end(reason, f"Only {len(coming)} of {self._wanted()} workers could be had. {message}")
            return
        scale = self.cluster.spec.autoscale
        growth = self.cluster.up and scale is not None and len(coming) >= (scale.min_workers or 0)
        if growth and self.cluster.grow_after_ms > self.now:
            self._change(target_workers=len(coming))  # one more refusal of the same attempt
            return
        failures = self.cluster.grow_failures + 1
        pause = min(self.policy.grow_backoff_ms * 2 ** (failures - 1), self.policy.grow_backoff_max_ms)
        self._change(grow_failures=failures, grow_after_ms=self.now + pause, worker_failures=0)
        self.deadlines.append(self.now + pause)  # where nothing was launched, nothing else brings the next pass
        self._event(
            EventType.AUTOSCALING_FAILED if growth else EventType.ADD_NODES_FAILED,
            msgspec.structs.replace(self._size_details(len(coming)), did_not_expand_reason=message, reason=reason),
        )
        self._change(sized=True)  # the shortage has been reported; growing goes on in the background
        if growth:
            self._change(target_workers=len(coming))  # what there is must do until the load asks again
        elif self.cluster.up:
            self._change(state_message=f"{self._missing_text(len(coming))}. {message}")

    def _dismiss(self, node: Instance) -> None:
        """Send a worker away: gracefully when it works, at once when it does not yet."""
        if not node.ready or node.assignment is None:
            self._send_away(node)
            return
        retiring = msgspec.structs.replace(node.assignment, version=node.assignment.version + 1, retiring=True)
        self._set(node, assignment=retiring, retire_after_ms=self.now + self.policy.retire_timeout_ms)
        self.deadlines.append(self.now + self.policy.retire_timeout_ms)
        self._event(EventType.DECOMMISSION_STARTED, EventDetails(instance_id=node.instance_id))

    def _tell_master(self) -> None:
        """Workers learn where the master is as soon as it listens."""
        driver = self._driver_node()
        master = driver.current_status.master_url if driver else ""
        if not master:
            return
        for node in self._current_workers():
            if node.assignment is not None and node.assignment.master_url != master:
                told = msgspec.structs.replace(node.assignment, version=node.assignment.version + 1, master_url=master)
                self._set(node, assignment=told)

    def _serve(self) -> None:
        """Decide whether the cluster is up, and whether it has the size that was asked for."""
        driver = self._driver_node()
        ready = self._registered_workers(driver) if driver is not None and driver.ready else []
        if not self.cluster.up:
            self._start_or_wait(driver, ready)
        elif not self.cluster.sized or self.cluster.grow_failures:
            retiring = any(node.retiring for node in self._current_workers())
            if len(ready) == self._wanted() and not retiring and not self.new:
                grown = len(ready) > self.cluster.ready_workers
                if grown:
                    self._event(EventType.UPSIZE_COMPLETED, self._came_details(ready))
                if grown or self.cluster.spec.autoscale is None:  # with autoscale, a shortage lowers the size: no success
                    self._change(grow_failures=0, grow_after_ms=0)
                self._change(sized=True, ready_workers=len(ready), state_message="")
        if self.cluster.up and self.cluster.sized and len(ready) != self.cluster.ready_workers:
            self._change(ready_workers=len(ready))

    def _start_or_wait(self, driver: Instance | None, ready: Sequence[Instance]) -> None:
        deadline = self.cluster.launch_started_ms + self.policy.launch_timeout_ms
        late = self.now >= deadline
        driver_ready = driver is not None and driver.ready
        pending = [n for n in self._current_workers() if not n.retiring and n not in ready]
        complete = len(ready) == self._wanted()
        # Fewer are enough only when the rest cannot be had: they were refused, or their time is over.
        fewer = len(ready) >= self._enough() and (late or (not pending and self.cluster.grow_after_ms > self.now))
        if driver_ready and (complete or fewer):
            self._come_up(ready, "" if complete else self._missing_text(len(ready)))
        elif late:
            what = "the driver" if not driver_ready else f"{self._wanted() - len(ready)} of {self._wanted()} workers"
            seconds = self.policy.launch_timeout_ms // 1000
            message = f"The cluster did not start within {seconds} s: {what} did not become ready."
            self._end(simple_reason(TerminationReasonCode.BOOTSTRAP_TIMEOUT, databricks_error_message=message), message)
        else:
            self.deadlines.append(deadline)

    def _come_up(self, ready: Sequence[Instance], shortfall: str) -> None:
        cluster = self.cluster
        self._change(
            ready_incarnation=cluster.incarnation,
            restarting=False,
            silence_told=False,
            sized=True,
            ready_workers=len(ready),
            spark_context_id=spark_context_id(cluster.cluster_id, cluster.incarnation),
            last_restarted_ms=self.now,
            state_message=shortfall,
            termination_reason=None,
        )
        details = self._came_details(ready)
        said = [text for text in (details.driver_state_message, remarks(cluster.spec, self.policy)) if text]
        details = msgspec.structs.replace(
            details, did_not_expand_reason=shortfall or None, driver_state_message=". ".join(said) or None
        )
        self._event(EventType.RUNNING, details)
        self._event(EventType.DRIVER_HEALTHY, EventDetails())

    def _came_details(self, ready: Sequence[Instance]) -> EventDetails:
        """How many workers there are, and how warm they and the driver came from their pool."""
        driver = self._driver_node()
        nodes = [driver, *ready] if driver is not None else ready
        return msgspec.structs.replace(self._size_details(len(ready)), driver_state_message=warmth(nodes))

    def _idle(self) -> None:
        """Auto-termination after inactivity."""
        minutes = self.cluster.spec.autotermination_minutes or 0
        driver = self._driver_node()
        if not (self.cluster.up and minutes and driver) or driver.current_status.busy:
            return
        idle_since = max(driver.current_status.last_activity_ms, self.cluster.last_restarted_ms)
        deadline = idle_since + minutes * 60_000
        if self.now < deadline:
            self.deadlines.append(deadline)
        elif self._unheard(driver):
            self.deadlines.append(self.now + 5_000)  # it may be busy without our knowing: ask again once it has spoken
        else:
            reason = TerminationReason(
                code=TerminationReasonCode.INACTIVITY,
                type=TerminationReasonType.SUCCESS,
                parameters={"inactivity_duration_min": str(minutes)},
            )
            self._end(reason, f"Cluster terminated by INACTIVITY: nothing ran on it for {minutes} minutes")

    def _describe(self) -> None:
        """Progress of a start, for a person."""
        if self.cluster.up:
            return
        driver = self._driver_node()
        message = FINDING
        if driver is not None and driver.state is InstanceState.REGISTERED:
            message = driver.current_status.message or "Starting the driver"
            if driver.ready:
                ready = len(self._registered_workers(driver))
                message = f"The driver is ready; {ready} of {self._wanted()} workers have registered"
        self._change(state_message=message)

    def _drain(self) -> None:
        """Nothing is wanted: every instance goes, and the cluster has ended when the last one is gone."""
        self.deadlines.clear()
        for node in self._live():
            self._send_away(node)
        self.deadlines.extend(node.releasing_ms + CLEAN_TIMEOUT_MS for node in self.nodes.values() if node.releasing_ms)
        self.new.clear()
        if not self.nodes and not self.cluster.ended:
            self._change(ended=True, terminated_ms=self.now, restarting=False)
        if self.cluster.forget_ms:
            self.deadlines.append(self.cluster.forget_ms)
