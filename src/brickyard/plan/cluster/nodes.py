"""What happened to a cluster's nodes: losses, failures, node types no longer on offer, a driver that hangs."""

from __future__ import annotations

from brickyard.domain.cluster import Instance, Target
from brickyard.domain.events import EventDetails, EventDetailsCause, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Role
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.cluster.scripts import ScriptPhases
from brickyard.plan.launching import reusable, unsupported
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, returned
from brickyard.plan.reasons import failure_reason, launch_reason, shortage_text, simple_reason


class NodePhases(ScriptPhases):
    """The phases that record what happened outside, and replace the driver."""

    def _reap(self) -> None:
        """Removes instances that are gone or are clean and back in their pool; the ones that nobody sent away are losses."""
        # Drivers first: a pass that cannot take in everything must not replace workers of a cluster that has lost its driver.
        for node in self._in_turn(sorted(self.nodes.values(), key=lambda each: each.role is Role.WORKER)):
            if node.releasing_ms and node.live:
                self._release(node)
            if node.state is InstanceState.GONE:
                del self.nodes[node.instance_id]
                self.removed.append(node)
            current = node.generation == self.cluster.incarnation and self.cluster.target is Target.RUNNING
            # A loss counts once, even while its remains are still being cleared: its event comes before any replacement, and no
            # worker is launched for a cluster that ends with its driver.
            if node.lost and current and not node.retiring and not node.loss_told:
                if node.instance_id in self.nodes:
                    self._set(node, loss_told=True)
                self._lost(node, node.lost)

    def _lost(self, node: Instance, why: str) -> None:
        """Handles the loss of a node of the current incarnation: a driver ends the cluster, a worker is replaced."""
        if node.role is not Role.WORKER:
            verb = "was lost" if self.cluster.up else "was lost while the cluster was starting"
            code = TerminationReasonCode.DRIVER_UNREACHABLE
            if not node.registered_ms:  # there was no driver yet
                verb, code = "could not be started", TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE
            self._end(
                simple_reason(
                    TerminationReasonCode.SPOT_INSTANCE_TERMINATION if node.spot else code,
                    instance_id=node.instance_id,
                    databricks_error_message=f"The driver {verb}: {why}",
                ),
                f"The driver {verb}: {why}. Start the cluster again; the kept logs are those of {node.instance_id}.",
                state_loss=self.cluster.up,
            )
            return
        if self.cluster.up or not node.registered_ms:
            self._event(
                EventType.NODES_LOST,
                EventDetails(
                    instance_id=node.instance_id,
                    current_num_workers=self.nodes.num_workers,
                    target_num_workers=self._wanted(),
                    cause=EventDetailsCause.AUTORECOVERY,
                    driver_state_message=why,
                ),
            )
        if self.cluster.up:
            self._change(sized=False, last_state_loss_ms=self.now, resize_cause=EventDetailsCause.AUTORECOVERY)
        if not node.registered_ms:  # another one may end the same way: like one that fails
            self._change(worker_failures=self.cluster.worker_failures + 1)
            if self.cluster.worker_failures >= self.policy.max_worker_failures:
                text = f"A worker could not be started: {why}"
                self.shortage = simple_reason(
                    TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE,
                    instance_id=node.instance_id,
                    databricks_error_message=text,
                )

    def _release(self, node: Instance) -> None:
        """Returns a node to its pool once nothing of the cluster runs on it; ends the node if that takes too long."""
        deadline = node.releasing_ms + CLEAN_TIMEOUT_MS
        if node.clean:
            del self.nodes[node.instance_id]
            self.returned.append(returned(node, now=self.now))
        elif self.now >= deadline:
            self._set(node, state=InstanceState.TERMINATING)
        else:
            self.deadlines.append(deadline)

    def _check_extent(self) -> None:
        """Ends a cluster that has more nodes than any may have, and one that would start with as many. One that is up keeps the
        nodes that it has."""
        limit = self.policy.max_nodes
        if not self.partial and (self.cluster.up or self._wanted() <= limit):
            return
        message = f"The cluster has {self._wanted()} workers, and this workspace allows at most {limit}"
        self._end(
            simple_reason(TerminationReasonCode.INVALID_ARGUMENT, databricks_error_message=message),
            f"{message}. Edit the cluster, or ask an administrator to raise max_nodes.",
        )

    def _check_types(self) -> None:
        """Handles node types that the provider has stopped offering. A cluster that is up keeps its nodes."""
        if self.cluster.up:
            return
        for role in (self._driver_role(), Role.WORKER):
            if (reason := unsupported(self.cluster.spec, role, offered=self.sizes)) is not None:
                self._end(reason, shortage_text(reason))
                return

    def _regenerate(self) -> None:
        """Gives nodes of an earlier incarnation the new assignment if they fit it, and sends the others away."""
        spec = self.cluster.spec
        wanted = {self._driver_role(): 1, Role.WORKER: self._wanted()}
        taken = {role: sum(1 for n in self._current() if n.role is role) for role in Role}
        for node in self._in_turn(sorted(self._live(), key=lambda each: each.role is Role.WORKER)):
            if node.generation == self.cluster.incarnation:
                continue
            room = taken[node.role] < wanted.get(node.role, 0)
            if room and node.state is InstanceState.REGISTERED and reusable(node, spec, offered=self.sizes):
                taken[node.role] += 1
                self._set(node, generation=self.cluster.incarnation, ready_ms=0, cold="", assignment=self._assignment(node))
            else:
                self._send_away(node)

    def _disks(self) -> None:
        """Reports, once, nodes whose files take most of their limit, before their agents end them for it."""
        for node in self._in_turn(self._current()):
            status = node.current_status
            low = bool(status.disk_limit or status.files_limit)
            if low == node.disk_told:
                continue
            self._set(node, disk_told=low)
            if low:
                self._event(EventType.DID_NOT_EXPAND_DISK, _low_disk(node.instance_id, status))

    def _driver(self) -> None:
        drivers = [node for node in self._current() if node.role is not Role.WORKER]
        if not drivers:
            if (short := self._add(self._driver_role())) is not None:
                self._end(short, f"No instance is available for the driver. {shortage_text(short)}")
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
        """Reports a driver whose Spark does not answer, and gives it up if that lasts."""
        driver = self._driver_node()
        if driver is None or not self.cluster.up:
            return
        since_ms, why = driver.current_status.silent_since_ms, driver.current_status.silent_reason
        if not since_ms:
            if self.cluster.silence_told:
                self._change(silence_told=False, state_message="")
                self._event(EventType.DRIVER_HEALTHY, EventDetails())
            return
        hangs, given_up_ms = self._hangs(driver), since_ms + self.policy.give_up_ms
        if self.now >= given_up_ms:
            message = f"The driver is up, but its Spark has not responded for {self.policy.give_up_ms // 1000} s"
            message += f": {why}" if why else ""
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
            message = f"The driver is up but not responsive{f': {why}' if why else ', likely because it collects garbage'}"
            self._change(silence_told=True, state_message=message)
            self._event(EventType.DRIVER_NOT_RESPONDING, EventDetails(driver_state_message=message))

    def _workers(self) -> None:
        """Sends away workers that failed or could not be launched; `_size` decides what that means for the cluster."""
        for node in self._in_turn(self._current_workers()):
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
                    why = f": {reason}" if (reason := node.current_status.silent_reason) else ""
                    self._lost(node, f"its Spark has not responded for {self.policy.silence_ms // 1000} s{why}")
                self._set(node, state=InstanceState.TERMINATING)
            elif node.ready and not node.ready_ms:
                self._set(node, ready_ms=self.now)
                self._change(worker_failures=0)


def _low_disk(instance_id: str, status: NodeStatus) -> EventDetails:
    end = "the node is ended if they exceed the limit"
    if not status.disk_limit:
        why = f"it has {status.files_used:,} of {status.files_limit:,} files; {end}"
        return EventDetails(instance_id=instance_id, did_not_expand_reason=why)
    why = f"its files take {status.disk_used >> 20} of {status.disk_limit >> 20} MiB; {end}"
    free = max(0, status.disk_limit - status.disk_used)
    return EventDetails(instance_id=instance_id, disk_size=status.disk_limit, free_space=free, did_not_expand_reason=why)
