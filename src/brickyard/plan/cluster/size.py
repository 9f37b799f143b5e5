"""The number of workers: it follows the load within a range, and workers are launched and sent away to match."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Instance, Target
from brickyard.domain.events import EventDetails, EventDetailsCause, EventType
from brickyard.domain.node import Phase, Role
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode
from brickyard.plan import autoscale
from brickyard.plan.cluster.passstate import NewNode, Pass
from brickyard.plan.reasons import shortage_text, simple_reason


def end_oversized(p: Pass) -> None:
    """Ends a cluster that has more nodes than any may have, and one that would start with as many. One that is up keeps the
    nodes that it has."""
    limit = p.policy.max_nodes
    if not p.partial and (p.cluster.up or p.wanted() <= limit):
        return
    message = f"The cluster has {p.wanted()} workers, and this workspace allows at most {limit}"
    p.end(
        simple_reason(TerminationReasonCode.INVALID_ARGUMENT, databricks_error_message=message),
        f"{message}. Edit the cluster, or ask an administrator to raise max_nodes.",
    )


def follow_load(p: Pass) -> None:
    """Sets the wanted size from the load, within the cluster's range. The rest of the pass acts on it."""
    driver = p.nodes.driver
    if p.cluster.spec.autoscale is None or not p.cluster.up or driver is None or p.shortage is not None:
        return
    rules = p.policy.autoscale
    if p.load is None or p.unheard(driver):
        p.deadlines.append(p.now + rules.unknown_ms)
        return
    ready = p.registered_workers(driver)
    staying = [node for node in p.nodes.workers if not node.retiring]
    size = p.sizes.get(p.cluster.spec.node_type_id or "")  # the type may no longer be on offer
    cores = int(size.num_cores) if size else next((node.assignment.cores for node in staying if node.assignment), 1)
    growing, shrinking = len(ready) < p.wanted(), len(staying) < p.nodes.num_workers
    at = autoscale.situation(p.cluster, p.load, staying, cores=cores, growing=growing, shrinking=shrinking)
    decided = autoscale.decide(at, now=p.now, rules=rules, window_ms=autoscale.window_ms(p.cluster, rules))
    if decided.due_ms is not None:
        p.deadlines.append(decided.due_ms)
    if decided.target != p.wanted():
        cause = EventDetailsCause.AUTOSCALE
        p.change(target_workers=decided.target, scaled_ms=p.now, sized=False, resize_cause=cause)
        p.event(EventType.RESIZING, p.size_details(len(ready)))


def resize(p: Pass) -> None:
    """Adds or removes workers until there are as many as wanted."""
    if p.shortage is not None:
        _note_shortage(p, p.shortage)
    if p.cluster.target is not Target.RUNNING:
        return
    for node in p.in_turn(p.nodes.workers):
        if node.current_status.leaving and not node.retiring:
            _dismiss(p, node)  # its data moves while there is time, and another worker takes its place
    staying = [node for node in p.nodes.workers if not node.retiring]
    missing = p.wanted() - len(staying)
    if missing > 0:
        if p.cluster.grow_after_ms > p.now:
            p.deadlines.append(p.cluster.grow_after_ms)
        else:
            _grow(p, missing, allowed=p.policy.max_nodes - len(staying))
    # Idle workers go first, then those that hold the least data, as reported by the driver; without a report, the newest.
    loads = autoscale.loads_of(p.load) if missing < 0 else {}
    staying.sort(key=lambda node: autoscale.weight(node, loads.get(node.current_status.worker_address)))
    for node in p.in_turn(staying[: max(0, -missing)]):
        _dismiss(p, node)
    for node in p.in_turn(p.nodes.workers):
        over = p.now >= node.retire_after_ms or p.hangs(node)
        done = over or node.current_status.phase in (Phase.RETIRED, Phase.FAILED)
        if node.retiring and done:
            p.send_away(node)
            p.event(EventType.DECOMMISSION_ENDED, EventDetails(instance_id=node.instance_id))
        elif node.retiring:
            p.deadlines.append(node.retire_after_ms)


def _grow(p: Pass, missing: int, *, allowed: int) -> None:
    """Adds workers. A start fails if the pool has no room; a cluster that is up takes what is available, up to the limit of
    the workspace."""
    for added in range(missing):
        if added >= allowed:
            _note_shortage(p, _over_limit(p))
            return
        if p.full():
            return
        if (short := p.add(Role.WORKER)) is not None:
            if not p.waits_for_pool(Role.WORKER, short):
                _note_shortage(p, short, enough=p.wanted())
            return


def _over_limit(p: Pass) -> TerminationReason:
    message = f"this workspace allows at most {p.policy.max_nodes} workers for one cluster (max_nodes)"
    return simple_reason(TerminationReasonCode.INVALID_ARGUMENT, databricks_error_message=message)


def _note_shortage(p: Pass, reason: TerminationReason, *, enough: int | None = None) -> None:
    """Handles workers that cannot be had. A start goes on if enough can; a cluster that is up says so and retries later."""
    message = shortage_text(reason)
    coming: list[Instance | NewNode] = [node for node in p.nodes.workers if not node.retiring]
    coming += [node for node in p.new if node.role is Role.WORKER]
    if not p.cluster.up and len(coming) < (p.enough() if enough is None else enough):
        p.end(reason, f"Only {len(coming)} of {p.wanted()} workers could be obtained. {message}")
        return
    scale = p.cluster.spec.autoscale
    growth = p.cluster.up and scale is not None and len(coming) >= (scale.min_workers or 0)
    if growth and p.cluster.grow_after_ms > p.now:
        p.change(target_workers=len(coming))  # another refusal within the same attempt
        return
    failures = p.cluster.grow_failures + 1
    pause = min(p.policy.grow_backoff_ms * 2 ** (failures - 1), p.policy.grow_backoff_max_ms)
    p.change(grow_failures=failures, grow_after_ms=p.now + pause, worker_failures=0)
    p.deadlines.append(p.now + pause)  # if nothing was launched, nothing else triggers the next pass
    p.event(
        EventType.AUTOSCALING_FAILED if growth else EventType.ADD_NODES_FAILED,
        msgspec.structs.replace(p.size_details(len(coming)), did_not_expand_reason=message, reason=reason),
    )
    p.change(sized=True)  # the shortage has been reported; growth continues in the background
    if growth:
        p.change(target_workers=len(coming))  # make do with these until the load asks for more again
    elif p.cluster.up:
        p.change(state_message=f"{p.missing_text(len(coming))}. {message}")


def _dismiss(p: Pass, node: Instance) -> None:
    """Sends a worker away: gracefully if it is ready, otherwise at once."""
    if not node.ready or node.assignment is None:
        p.send_away(node)
        return
    retiring = msgspec.structs.replace(node.assignment, version=node.assignment.version + 1, retiring=True)
    p.set(node, assignment=retiring, retire_after_ms=p.now + p.policy.retire_timeout_ms)
    p.deadlines.append(p.now + p.policy.retire_timeout_ms)
    p.event(EventType.DECOMMISSION_STARTED, EventDetails(instance_id=node.instance_id))
