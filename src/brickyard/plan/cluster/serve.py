"""Whether a cluster is up, what its nodes learn of each other, and how its start is shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Instance, StartProgress, Waits
from brickyard.domain.events import EventDetails, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.assignments import libraries_of, spark_context_id
from brickyard.plan.cluster.passstate import Pass
from brickyard.plan.launching import remarks
from brickyard.plan.poolroom import warmth
from brickyard.plan.providermessages import MOST_EVENTS, coming, sentence, waiting, warned
from brickyard.plan.reasons import simple_reason
from brickyard.plan.starts import STARTING, begun_ms


def announce_master(p: Pass) -> None:
    """Tells workers where the master is as soon as it listens, and before that, if they run init scripts, the driver's
    address."""
    driver = p.nodes.driver
    if driver is None:
        return
    host = driver.status.host if driver.state is InstanceState.REGISTERED else ""
    for node in p.in_turn(p.nodes.workers):
        if (before := node.assignment) is None:
            continue
        told = msgspec.structs.replace(
            before,
            master_url=driver.current_status.master_url or before.master_url,
            driver_host=host if before.init_scripts and not before.driver_host else before.driver_host,
        )
        if told != before:
            p.set(node, assignment=msgspec.structs.replace(told, version=before.version + 1))


def announce_libraries(p: Pass) -> None:
    """Tells nodes of libraries that were added, uninstalled or installed again after their assignment was made."""
    wanted = libraries_of(p.cluster)
    driver = p.nodes.driver
    for node in p.in_turn(([driver] if driver is not None else []) + [*p.nodes.workers]):
        if node.assignment is None or node.retiring:
            continue
        told = msgspec.structs.replace(node.assignment, **wanted)
        if told != node.assignment:
            p.set(node, assignment=msgspec.structs.replace(told, version=node.assignment.version + 1))


def serve(p: Pass) -> None:
    """Decides whether the cluster is up, and whether it has the requested size."""
    driver = p.nodes.driver
    ready = p.registered_workers(driver) if driver is not None and driver.ready else []
    if not p.cluster.up:
        _start_or_wait(p, driver, ready)
    elif not p.cluster.sized or p.cluster.grow_failures:
        retiring = any(node.retiring for node in p.nodes.workers)
        if len(ready) == p.wanted() and not retiring and not p.new:
            grown = len(ready) > p.cluster.ready_workers
            if grown:
                p.event(EventType.UPSIZE_COMPLETED, _came_details(p, ready))
            if grown or p.cluster.spec.autoscale is None:  # with autoscale, a shortage lowers the size: that is no success
                p.change(grow_failures=0, grow_after_ms=0)
            p.change(sized=True, ready_workers=len(ready), state_message="")
    if p.cluster.up and p.cluster.sized and len(ready) != p.cluster.ready_workers:
        p.change(ready_workers=len(ready))
    _note_progress(p)


def _start_or_wait(p: Pass, driver: Instance | None, ready: Sequence[Instance]) -> None:
    task = p.cluster.workbench.task
    restored_ms = task.ended_ms if task.incarnation == p.cluster.incarnation else 0
    deadline = max(begun_ms(p.cluster), restored_ms) + p.policy.launch_timeout_ms
    late = p.now >= deadline
    driver_ready = driver is not None and driver.ready
    arrived = {node.instance_id for node in ready}
    pending = [n for n in p.nodes.workers if not n.retiring and n.instance_id not in arrived]
    complete = len(ready) == p.wanted()
    # Fewer workers are enough only when the rest cannot be had: their launch was refused, or their time is over.
    fewer = len(ready) >= p.enough() and (late or (not pending and p.cluster.grow_after_ms > p.now))
    if driver_ready and (complete or fewer):
        _come_up(p, ready, "" if complete else p.missing_text(len(ready)))
    elif late:
        what = "the driver" if not driver_ready else f"{p.wanted() - len(ready)} of {p.wanted()} workers"
        seconds = p.policy.launch_timeout_ms // 1000
        said = [node.provider_message for node in waiting(p.nodes.current)]
        message = f"The cluster did not start within {seconds} s: {what} did not become ready."
        message += f" {sentence(said[0])}." if said else ""
        p.end(simple_reason(TerminationReasonCode.BOOTSTRAP_TIMEOUT, databricks_error_message=message), message)
    else:
        p.deadlines.append(deadline)


def _note_progress(p: Pass) -> None:
    """Records when the steps of a start were over. A cluster that was up before these times were kept has none."""
    cluster, known = p.cluster, p.cluster.progress
    if known.incarnation != cluster.incarnation:
        if cluster.up and cluster.last_restarted_ms != p.now:
            return
        known = StartProgress(incarnation=cluster.incarnation)
    driver = p.nodes.driver
    registered = [node for node in p.nodes.current if node.state is InstanceState.REGISTERED]
    phase = driver.current_status.phase if driver in registered and driver is not None else Phase.IDLE
    reached = (
        cluster.up or (driver in registered and len(registered) > p.wanted()),
        cluster.up or phase in (Phase.STARTING, Phase.READY),
        cluster.up or phase is Phase.READY,
    )
    times = (known.acquired_ms, known.configured_ms, known.served_ms)
    acquired, configured, served = (before or (p.now if now else 0) for before, now in zip(times, reached, strict=True))
    p.change(
        progress=StartProgress(incarnation=cluster.incarnation, acquired_ms=acquired, configured_ms=configured, served_ms=served)
    )


def _come_up(p: Pass, ready: Sequence[Instance], shortfall: str) -> None:
    cluster = p.cluster
    p.change(
        ready_incarnation=cluster.incarnation,
        restarting=False,
        silence_told=False,
        sized=True,
        ready_workers=len(ready),
        spark_context_id=spark_context_id(cluster.cluster_id, cluster.incarnation),
        last_restarted_ms=p.now,
        state_message=shortfall,
        termination_reason=None,
    )
    details = _came_details(p, ready)
    said = [text for text in (details.driver_state_message, remarks(cluster.spec, p.policy, p.sizes)) if text]
    details = msgspec.structs.replace(
        details, did_not_expand_reason=shortfall or None, driver_state_message=". ".join(said) or None
    )
    p.event(EventType.RUNNING, details)
    p.event(EventType.DRIVER_HEALTHY, EventDetails())


def _came_details(p: Pass, ready: Sequence[Instance]) -> EventDetails:
    """How many workers there are, and which nodes started warm from their pool."""
    driver = p.nodes.driver
    nodes = [driver, *ready] if driver is not None else ready
    return msgspec.structs.replace(p.size_details(len(ready)), driver_state_message=warmth(nodes))


def describe(p: Pass) -> None:
    """Shows the progress of a start, for people, and what nodes wait for that a cluster which is up is to get."""
    driver = p.nodes.driver
    waits = waiting(p.nodes.current)
    said = sentence(waits[0].provider_message) if waits else ""
    _tell_waits(p, said, waits)
    if p.cluster.up:
        if said and not p.cluster.sized:
            p.change(state_message=f"{len(waits)} of {p.wanted()} workers wait: {waits[0].provider_message}")
        else:
            _warn(p)
        return
    message = STARTING
    if driver is not None and driver.state is InstanceState.REGISTERED:
        message = driver.current_status.message or "Starting the driver"
        if driver.ready:
            ready = len(p.registered_workers(driver))
            message = f"The driver is ready; {ready} of {p.wanted()} workers have registered"
            message += f", {len(waits)} wait: {waits[0].provider_message}" if waits else ""
    elif driver is not None and driver.provider_message:
        message = sentence(driver.provider_message)
    p.change(state_message=message)


def _warn(p: Pass) -> None:
    """Shows what the provider says of a node that runs, unless there is something else to show."""
    said = warned(p.nodes.current)
    text, shown = sentence(said[0].provider_message) if said else "", p.cluster.state_message
    if text != p.cluster.warning and shown in ("", p.cluster.warning):
        p.change(warning=text, state_message=text)
    elif p.cluster.warning and shown != p.cluster.warning:
        p.change(warning="")


def _tell_waits(p: Pass, said: str, waits: Sequence[Instance]) -> None:
    """Tells in an event what nodes wait for, when that changes; a few times only."""
    before = p.cluster.waits
    if not any(map(coming, p.nodes.current)):
        p.change(waits=Waits())
    elif said and said != before.said and before.times < MOST_EVENTS:
        p.change(waits=Waits(said=said, times=before.times + 1))
        details = EventDetails(instance_id=waits[0].instance_id, target_num_workers=p.wanted(), did_not_expand_reason=said)
        p.event(EventType.AUTOSCALING_BACKOFF, details)
