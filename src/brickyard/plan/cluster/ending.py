"""How a cluster ends: for a limit or for inactivity, once what runs has finished; then its nodes go, then its directory is dealt
with."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Phase, Role
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.plan import autoterminate, graceful
from brickyard.plan.cluster.passstate import Pass
from brickyard.plan.enforcement import applied
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS

LOOK_MS = 60_000  # how often a time that a person has named is compared with the clock on the wall, which may be set


def end_at_limit(p: Pass) -> None:
    """Ends the cluster at the first limit of `auto_terminate` that is reached."""
    found = autoterminate.moments(p.cluster, now=p.now, spent=p.spent, ahead_ms=p.ahead_ms)
    if not found:
        return
    name = min(found, key=found.__getitem__)
    if p.now < found[name]:
        again = found[name] if autoterminate.AT not in found else min(found[name], p.now + LOOK_MS)
        p.deadlines.append(again)
    else:
        p.end(*autoterminate.reason_of(p.cluster, name))


def let_finish(p: Pass) -> None:
    """Waits for what runs on the cluster, which may finish before the cluster stops or restarts."""
    wait = p.cluster.workbench.graceful
    if not wait.pending:
        return
    own = [node for node in p.nodes.live if node.generation == wait.generation]
    driver = next((node for node in own if node.role is not Role.WORKER), None)
    status = driver.current_status if driver is not None else NodeStatus()
    if status.told_ms:
        p.cluster = graceful.told(p.cluster, now=p.now)
    if driver is None or driver.state is not InstanceState.REGISTERED or status.phase is Phase.FAILED:
        _over(p, "The driver has ended")
    elif status.quiet_ms:
        _over(p, "No commands are running")
    elif p.now >= wait.until_ms:
        _over(p, graceful.late(wait).capitalize(), message=graceful.late(wait))
    else:
        _tell_to_finish(p, driver)
        p.deadlines.append(wait.until_ms)
        p.waiting = True


def _over(p: Pass, said: str, *, message: str = "") -> None:
    p.cluster = graceful.over(p.cluster, now=p.now, said=said, message=message)


def _tell_to_finish(p: Pass, driver: Instance) -> None:
    told = driver.assignment
    if told is not None and not told.closing:
        p.set(driver, assignment=msgspec.structs.replace(told, version=told.version + 1, closing=True))


def restore(p: Pass) -> None:
    """Waits for the workspace directory to be restored. Meanwhile the cluster has no node: that is what lets the directory be
    exchanged."""
    if not p.cluster.workbench.task.pending:
        return
    p.waiting = True
    _empty(p)
    if _gone(p):
        _ready_for_task(p)


def drain(p: Pass) -> None:
    """Nothing is wanted: every instance goes. The cluster has ended when the last one is gone, and its workspace directory
    dealt with."""
    p.deadlines.clear()
    _empty(p)
    p.new.clear()
    if _gone(p) and not p.cluster.ended:
        if p.cluster.workbench.task.pending:
            _ready_for_task(p)
        else:
            p.change(ended=True, terminated_ms=p.now, restarting=False)
            p.cluster, told = applied(p.cluster, now=p.now)
            p.events.extend(told)
    if p.cluster.forget_ms:
        p.deadlines.append(p.cluster.forget_ms)


def _empty(p: Pass) -> None:
    for node in p.in_turn(p.nodes.live):
        p.send_away(node)
    p.deadlines.extend(node.releasing_ms + CLEAN_TIMEOUT_MS for node in p.nodes.values() if node.releasing_ms)


def _gone(p: Pass) -> bool:
    return not p.nodes and not p.partial


def _ready_for_task(p: Pass) -> None:
    """Records since when the cluster has had no node."""
    task = p.cluster.workbench.task
    if not task.ready_ms:
        task = msgspec.structs.replace(task, ready_ms=p.now)
        p.change(workbench=msgspec.structs.replace(p.cluster.workbench, task=task))


def end_idle(p: Pass) -> None:
    """Ends the cluster after a period of inactivity."""
    minutes = p.cluster.spec.autotermination_minutes or 0
    driver = p.nodes.driver
    if not (p.cluster.up and minutes and driver) or driver.current_status.busy:
        return
    if p.used_ms > p.cluster.used_ms:
        p.change(used_ms=p.used_ms)
    deadline = max(autoterminate.idle_since(p.cluster, driver) + minutes * 60_000, p.idle_from_ms)
    if p.now < deadline:
        p.deadlines.append(deadline)
    elif p.unheard(driver):
        p.deadlines.append(p.now + 5_000)  # it may be busy without our knowing: check again after its next report
    else:
        reason = TerminationReason(
            code=TerminationReasonCode.INACTIVITY,
            type=TerminationReasonType.SUCCESS,
            parameters={"inactivity_duration_min": str(minutes)},
        )
        p.end(reason, f"Cluster terminated by INACTIVITY: nothing ran on it for {minutes} minutes")
