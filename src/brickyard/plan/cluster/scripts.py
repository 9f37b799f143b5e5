"""The events about init scripts."""

from __future__ import annotations

from brickyard.domain.cluster import Instance
from brickyard.domain.events import EventDetails, EventType
from brickyard.domain.node import Role
from brickyard.domain.scripts import FAILURE, GLOBAL_FAILURE
from brickyard.plan.cluster.passstate import Pass
from brickyard.plan.scripts import event_details


def report_scripts(p: Pass) -> None:
    """Reports init scripts: once when the first node of an incarnation has begun them, once when the driver has finished them,
    and once for every worker on which one failed. What a failure means is decided by the phases for nodes."""
    cluster = p.cluster
    if not (cluster.global_scripts or cluster.spec.init_scripts):
        return
    if cluster.scripts_told != cluster.incarnation and any(node.current_status.scripts for node in p.nodes.current):
        p.change(scripts_told=cluster.incarnation)
        p.event(EventType.INIT_SCRIPTS_STARTED, EventDetails(init_scripts=event_details(cluster, None)))
    for node in p.in_turn(p.nodes.current):
        report = node.current_status.scripts
        if report is None or report.running:
            continue
        if node.role is Role.WORKER:
            if _script_failed(p, node) and not node.retiring:
                _report_end(p, node)
        elif cluster.scripts_done != cluster.incarnation:
            p.change(scripts_done=cluster.incarnation)
            _report_end(p, node)


def _script_failed(p: Pass, node: Instance) -> bool:
    failure = p.failure_of(node)
    return failure is not None and failure.code in (FAILURE, GLOBAL_FAILURE)


def _report_end(p: Pass, node: Instance) -> None:
    """A node may be seen here in several passes: one that failed stays until a phase sends it away."""
    status = node.current_status
    if node.scripts_told == status.generation:
        return
    p.set(node, scripts_told=status.generation)
    details = event_details(p.cluster, status.scripts, node=status.host)
    p.event(EventType.INIT_SCRIPTS_FINISHED, EventDetails(init_scripts=details, instance_id=node.instance_id))
