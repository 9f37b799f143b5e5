"""What happened to a cluster's nodes: losses, failures, node types no longer on offer, a driver that hangs."""

from __future__ import annotations

from brickyard.domain.cluster import Instance, Target
from brickyard.domain.events import EventDetails, EventDetailsCause, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Role
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.cluster.passstate import Pass
from brickyard.plan.launching import market_of, reusable, unsupported
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, returned
from brickyard.plan.reasons import failure_reason, launch_reason, shortage_text, simple_reason


def reap(p: Pass) -> None:
    """Removes instances that are gone or are clean and back in their pool; the ones that nobody sent away are losses."""
    # Drivers first: a pass that cannot take in everything must not replace workers of a cluster that has lost its driver.
    for node in p.in_turn(sorted(p.nodes.values(), key=lambda each: each.role is Role.WORKER)):
        if node.releasing_ms and node.live:
            _release(p, node)
        if node.state is InstanceState.GONE:
            del p.nodes[node.instance_id]
            p.removed.append(node)
        current = node.generation == p.cluster.incarnation and p.cluster.target is Target.RUNNING
        # A loss counts once, even while its remains are still being cleared: its event comes before any replacement, and no
        # worker is launched for a cluster that ends with its driver.
        if node.lost and current and not node.retiring and not node.loss_told:
            if node.instance_id in p.nodes:
                p.set(node, loss_told=True)
            _lose(p, node, node.lost)


def _lose(p: Pass, node: Instance, why: str) -> None:
    """Handles the loss of a node of the current incarnation: a driver ends the cluster, a worker is replaced."""
    if node.role is not Role.WORKER:
        verb = "was lost" if p.cluster.up else "was lost while the cluster was starting"
        code = TerminationReasonCode.DRIVER_UNREACHABLE
        if not node.registered_ms:  # there was no driver yet
            verb, code = "could not be started", TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE
        p.end(
            simple_reason(
                TerminationReasonCode.SPOT_INSTANCE_TERMINATION if node.spot else code,
                instance_id=node.instance_id,
                databricks_error_message=f"The driver {verb}: {why}",
            ),
            f"The driver {verb}: {why}. Start the cluster again; the kept logs are those of {node.instance_id}.",
            state_loss=p.cluster.up,
        )
        return
    if p.cluster.up or not node.registered_ms:
        p.event(
            EventType.NODES_LOST,
            EventDetails(
                instance_id=node.instance_id,
                current_num_workers=p.nodes.num_workers,
                target_num_workers=p.wanted(),
                cause=EventDetailsCause.AUTORECOVERY,
                driver_state_message=why,
            ),
        )
    if p.cluster.up:
        p.change(sized=False, last_state_loss_ms=p.now, resize_cause=EventDetailsCause.AUTORECOVERY)
    if not node.registered_ms:  # another one may end the same way: like one that fails
        p.change(worker_failures=p.cluster.worker_failures + 1)
        if p.cluster.worker_failures >= p.policy.max_worker_failures:
            text = f"A worker could not be started: {why}"
            p.shortage = simple_reason(
                TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE,
                instance_id=node.instance_id,
                databricks_error_message=text,
            )


def _release(p: Pass, node: Instance) -> None:
    """Returns a node to its pool once nothing of the cluster runs on it; ends the node if that takes too long."""
    deadline = node.releasing_ms + CLEAN_TIMEOUT_MS
    if node.clean:
        del p.nodes[node.instance_id]
        p.returned.append(returned(node, now=p.now))
    elif p.now >= deadline:
        p.set(node, state=InstanceState.TERMINATING)
    else:
        p.deadlines.append(deadline)


def end_without_types(p: Pass) -> None:
    """Handles node types that the provider has stopped offering. A cluster that is up keeps its nodes."""
    if p.cluster.up:
        return
    for role in (p.driver_role(), Role.WORKER):
        if (reason := unsupported(p.cluster.spec, role, offered=p.sizes)) is not None:
            p.end(reason, shortage_text(reason))
            return


def regenerate(p: Pass) -> None:
    """Gives nodes of an earlier incarnation the new assignment if they fit it, and sends the others away."""
    spec = p.cluster.spec
    wanted = {p.driver_role(): 1, Role.WORKER: p.wanted()}
    taken = {role: sum(1 for n in p.nodes.current if n.role is role) for role in Role}
    first, replaced = market_of(spec).first_on_demand, 0
    # The driver, then workers on demand: a spot instance stays only behind as many nodes on demand as the cluster has by now.
    for node in p.in_turn(sorted(p.nodes.live, key=lambda each: (each.role is Role.WORKER, each.spot))):
        if node.generation == p.cluster.incarnation:
            continue
        worker, room = node.role is Role.WORKER, taken[node.role] < wanted.get(node.role, 0)
        on_demand = p.nodes.on_demand + replaced + int(worker and p.nodes.driver is None)
        if room and node.spot and on_demand < first:
            replaced += worker
            p.send_away(node)
        elif room and node.state is InstanceState.REGISTERED and reusable(node, spec, offered=p.sizes):
            taken[node.role] += 1
            p.set(node, generation=p.cluster.incarnation, ready_ms=0, cold="", assignment=p.assignment(node))
        else:
            p.send_away(node)


def report_disks(p: Pass) -> None:
    """Reports, once, nodes whose files take most of their limit, before their agents end them for it."""
    for node in p.in_turn(p.nodes.current):
        status = node.current_status
        low = bool(status.disk_limit or status.files_limit)
        if low == node.disk_told:
            continue
        p.set(node, disk_told=low)
        if low:
            p.event(EventType.DID_NOT_EXPAND_DISK, _low_disk(node.instance_id, status))


def keep_driver(p: Pass) -> None:
    """Launches the driver, and ends the cluster if it failed or cannot be had."""
    drivers = [node for node in p.nodes.current if node.role is not Role.WORKER]
    if not drivers:
        role = p.driver_role()
        if (short := p.add(role)) is not None and not p.waits_for_pool(role, short):
            p.end(short, f"No instance is available for the driver. {shortage_text(short)}")
        return
    driver = drivers[0]
    if driver.launch_error is not None:
        if not p.retry_launch(driver):
            reason, message = launch_reason(driver.launch_error, what="the driver")
            p.end(reason, message)
        return
    if (failure := p.failure_of(driver)) is not None:
        reason, message = failure_reason(failure, what="The driver", instance_id=driver.instance_id)
        p.end(reason, message, state_loss=p.cluster.up)


def check_heartbeat(p: Pass) -> None:
    """Reports a driver whose Spark does not answer, and gives it up if that lasts."""
    driver = p.nodes.driver
    if driver is None or not p.cluster.up:
        return
    since_ms, why = driver.current_status.silent_since_ms, driver.current_status.silent_reason
    if not since_ms:
        if p.cluster.silence_told:
            p.change(silence_told=False, state_message="")
            p.event(EventType.DRIVER_HEALTHY, EventDetails())
        return
    hangs, given_up_ms = p.hangs(driver), since_ms + p.policy.give_up_ms
    if p.now >= given_up_ms:
        message = f"The driver is up, but its Spark has not responded for {p.policy.give_up_ms // 1000} s"
        message += f": {why}" if why else ""
        p.end(
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
    p.deadlines.append(given_up_ms)
    if hangs and not p.cluster.silence_told:
        message = f"The driver is up but not responsive{f': {why}' if why else ', likely because it collects garbage'}"
        p.change(silence_told=True, state_message=message)
        p.event(EventType.DRIVER_NOT_RESPONDING, EventDetails(driver_state_message=message))


def drop_failed_workers(p: Pass) -> None:
    """Sends away workers that failed or could not be launched; `resize` decides what that means for the cluster."""
    for node in p.in_turn(p.nodes.workers):
        if node.launch_error is not None:
            if not p.retry_launch(node):
                p.shortage = launch_reason(node.launch_error, what="a worker")[0]
                p.set(node, state=InstanceState.TERMINATING)
        elif (failure := p.failure_of(node)) is not None and not node.retiring:
            p.change(worker_failures=p.cluster.worker_failures + 1)
            if p.cluster.up:
                _lose(p, node, failure.message)
            if p.cluster.worker_failures >= p.policy.max_worker_failures:
                p.shortage = failure_reason(failure, what="A worker", instance_id=node.instance_id)[0]
            p.set(node, state=InstanceState.TERMINATING)
        elif p.hangs(node) and not node.retiring:
            if p.cluster.up:
                why = f": {reason}" if (reason := node.current_status.silent_reason) else ""
                _lose(p, node, f"its Spark has not responded for {p.policy.silence_ms // 1000} s{why}")
            p.set(node, state=InstanceState.TERMINATING)
        elif node.ready and not node.ready_ms:
            p.set(node, ready_ms=p.now)
            p.change(worker_failures=0)


def _low_disk(instance_id: str, status: NodeStatus) -> EventDetails:
    end = "the node is ended if they exceed the limit"
    if not status.disk_limit:
        why = f"it has {status.files_used:,} of {status.files_limit:,} files; {end}"
        return EventDetails(instance_id=instance_id, did_not_expand_reason=why)
    why = f"its files take {status.disk_used >> 20} of {status.disk_limit >> 20} MiB; {end}"
    free = max(0, status.disk_limit - status.disk_used)
    return EventDetails(instance_id=instance_id, disk_size=status.disk_limit, free_space=free, did_not_expand_reason=why)
