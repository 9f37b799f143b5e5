"""What an agent's report changes: its instance's row, within limits for what agents may say."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, NodeStatus, Phase, StatusReport
from brickyard.domain.scripts import MAX_GLOBAL_SCRIPTS, MAX_SCRIPTS, ScriptsReport
from brickyard.nodes.clocks import with_same_times
from brickyard.store.tx import Tx

_TEXT_LIMIT = 8_000
_MAX_USERS, _MAX_USER_NAME = 1_000, 1_000


class Recorded(NamedTuple):
    """The cluster or pool of an instance whose report was written, None if the instance is not, or no longer, wanted; and whether
    the owner must look at it now. `assignment`: its current one."""

    owner_id: str | None
    wakes: bool = False
    assignment: Assignment | None = None


def record_report(tx: Tx, report: StatusReport, *, now: int) -> Recorded:
    """Writes an agent's report.

    The owner is locked first, as everywhere, so that two writers of one cluster take turns instead of deadlocking.
    """
    instance = tx.lock_owner(report.instance_id)
    if instance is None or not instance.live:
        return Recorded(None)
    if instance.boot_id == report.boot_id and report.moves < instance.moves:
        return Recorded("")  # a late report, from a server that hung: the agent has since told another server its newer status
    status = with_same_times(report.status, instance.status)
    if instance.boot_id and instance.boot_id != report.boot_id and status.generation < instance.status.generation:
        # A new agent process took over the instance and has nothing of the old process's node: that node is lost.
        moved = _lost(instance)
    else:
        moved = instance
    after = msgspec.structs.replace(
        moved,
        state=InstanceState.REGISTERED if moved.live else moved.state,
        registered_ms=instance.registered_ms or now,
        endpoint=report.endpoint,
        boot_id=report.boot_id,
        moves=report.moves,
        pid=report.pid,
        status=status,
        provider_message=instance.provider_message if instance.state is InstanceState.REGISTERED else "",
    )
    tx.instances.update(after)
    wanted = after.assignment if after.live else None
    settled = instance.registered_ms and not status.warm_error and not instance.status.warm_error
    if not instance.cluster_id and settled and status.phase is not Phase.FAILED:
        return Recorded("", assignment=wanted)  # the pool has nothing to decide while an idle instance makes progress
    if after == msgspec.structs.replace(instance, moves=after.moves):
        return Recorded(instance.owner_id)  # the agent only calls another server now
    tx.wake_owner(instance)
    return Recorded(instance.owner_id, wakes=True, assignment=wanted)


def with_scripts(tx: Tx, assignment: Assignment) -> Assignment:
    """The assignment with the contents of global init scripts."""
    if not (digests := {script.digest for script in assignment.init_scripts} - {""}):
        return assignment
    contents = tx.scripts.contents(digests)
    scripts = [msgspec.structs.replace(script, content=contents.get(script.digest, "")) for script in assignment.init_scripts]
    return msgspec.structs.replace(assignment, init_scripts=tuple(scripts))


def _lost(instance: Instance) -> Instance:
    return msgspec.structs.replace(instance, state=InstanceState.TERMINATING, lost="its agent ended unexpectedly")


def bounded(status: NodeStatus) -> NodeStatus:
    """Limits the text that goes into a row, since agents are not trusted to be brief, and removes loads, which are not stored."""
    if status.load is not None:
        status = msgspec.structs.replace(status, load=None)
    failure = status.failure
    longest = max(len(status.message), len(status.silent_reason))
    if failure is None and status.scripts is None and not status.users and longest <= _TEXT_LIMIT:
        return status  # as nearly always
    if failure is not None:
        failure = msgspec.structs.replace(
            failure, message=failure.message[:_TEXT_LIMIT], log_tail=failure.log_tail[-_TEXT_LIMIT:]
        )
    scripts = _bounded_scripts(status.scripts) if status.scripts is not None else None
    users = tuple(each[:_MAX_USER_NAME] for each in status.users[:_MAX_USERS])
    texts = {"message": status.message[:_TEXT_LIMIT], "silent_reason": status.silent_reason[:_TEXT_LIMIT]}
    return msgspec.structs.replace(status, failure=failure, scripts=scripts, users=users, **texts)


def _bounded_scripts(report: ScriptsReport) -> ScriptsReport:
    results = report.results[: MAX_SCRIPTS + MAX_GLOBAL_SCRIPTS]
    cut = [msgspec.structs.replace(result, message=result.message[:_TEXT_LIMIT]) for result in results]
    return msgspec.structs.replace(report, results=tuple(cut))


def complete(assignment: Assignment) -> bool:
    """Whether the row has all of it: it names nothing that is only looked up when it is delivered."""
    return not (assignment.spark_conf or assignment.spark_env_vars or assignment.init_scripts or assignment.logs)
