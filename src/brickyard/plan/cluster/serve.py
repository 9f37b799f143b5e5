"""Whether a cluster is up, how its start is shown, and when it has been inactive for too long."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Instance, StartProgress, Waits
from brickyard.domain.events import EventDetails, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.plan.assignments import spark_context_id, wanted_libraries
from brickyard.plan.cluster.size import SizePhases
from brickyard.plan.gpu import limits
from brickyard.plan.launching import remarks
from brickyard.plan.poolroom import warmth
from brickyard.plan.providermessages import MOST_EVENTS, coming, sentence, waiting, warned
from brickyard.plan.reasons import simple_reason
from brickyard.plan.starts import STARTING, begun_ms

LOOK_MS = 60_000  # how often a time that a person has named is compared with the clock on the wall, which may be set


class ServePhases(SizePhases):
    """The phases that decide whether the cluster is up."""

    def _tell_master(self) -> None:
        """Tells workers where the master is as soon as it listens, and before that, if they run init scripts, the driver's
        address."""
        driver = self._driver_node()
        if driver is None:
            return
        host = driver.status.host if driver.state is InstanceState.REGISTERED else ""
        for node in self._in_turn(self._current_workers()):
            if (before := node.assignment) is None:
                continue
            told = msgspec.structs.replace(
                before,
                master_url=driver.current_status.master_url or before.master_url,
                driver_host=host if before.init_scripts and not before.driver_host else before.driver_host,
            )
            if told != before:
                self._set(node, assignment=msgspec.structs.replace(told, version=before.version + 1))

    def _tell_libraries(self) -> None:
        """Tells nodes of libraries that were added after their assignment was made."""
        wanted = wanted_libraries(self.cluster)
        driver = self._driver_node()
        for node in self._in_turn(([driver] if driver is not None else []) + [*self._current_workers()]):
            if node.assignment is None or node.retiring or node.assignment.libraries == wanted:
                continue
            told = msgspec.structs.replace(node.assignment, version=node.assignment.version + 1, libraries=wanted)
            self._set(node, assignment=told)

    def _serve(self) -> None:
        """Decides whether the cluster is up, and whether it has the requested size."""
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
                if grown or self.cluster.spec.autoscale is None:  # with autoscale, a shortage lowers the size: that is no success
                    self._change(grow_failures=0, grow_after_ms=0)
                self._change(sized=True, ready_workers=len(ready), state_message="")
        if self.cluster.up and self.cluster.sized and len(ready) != self.cluster.ready_workers:
            self._change(ready_workers=len(ready))

    def _start_or_wait(self, driver: Instance | None, ready: Sequence[Instance]) -> None:
        task = self.cluster.workbench.task
        restored_ms = task.ended_ms if task.incarnation == self.cluster.incarnation else 0
        deadline = max(begun_ms(self.cluster), restored_ms) + self.policy.launch_timeout_ms
        late = self.now >= deadline
        driver_ready = driver is not None and driver.ready
        arrived = {node.instance_id for node in ready}
        pending = [n for n in self._current_workers() if not n.retiring and n.instance_id not in arrived]
        complete = len(ready) == self._wanted()
        # Fewer workers are enough only when the rest cannot be had: their launch was refused, or their time is over.
        fewer = len(ready) >= self._enough() and (late or (not pending and self.cluster.grow_after_ms > self.now))
        if driver_ready and (complete or fewer):
            self._come_up(ready, "" if complete else self._missing_text(len(ready)))
        elif late:
            what = "the driver" if not driver_ready else f"{self._wanted() - len(ready)} of {self._wanted()} workers"
            seconds = self.policy.launch_timeout_ms // 1000
            said = [node.provider_message for node in waiting(self._current())]
            message = f"The cluster did not start within {seconds} s: {what} did not become ready."
            message += f" {sentence(said[0])}." if said else ""
            self._end(simple_reason(TerminationReasonCode.BOOTSTRAP_TIMEOUT, databricks_error_message=message), message)
        else:
            self.deadlines.append(deadline)

    def _note_progress(self) -> None:
        """Records when the steps of a start were over. A cluster that was up before these times were kept has none."""
        cluster, known = self.cluster, self.cluster.progress
        if known.incarnation != cluster.incarnation:
            if cluster.up and cluster.last_restarted_ms != self.now:
                return
            known = StartProgress(incarnation=cluster.incarnation)
        driver = self._driver_node()
        registered = [node for node in self._current() if node.state is InstanceState.REGISTERED]
        phase = driver.current_status.phase if driver in registered and driver is not None else Phase.IDLE
        reached = (
            cluster.up or (driver in registered and len(registered) > self._wanted()),
            cluster.up or phase in (Phase.STARTING, Phase.READY),
            cluster.up or phase is Phase.READY,
        )
        times = (known.acquired_ms, known.configured_ms, known.served_ms)
        acquired, configured, served = (before or (self.now if now else 0) for before, now in zip(times, reached, strict=True))
        self._change(
            progress=StartProgress(
                incarnation=cluster.incarnation, acquired_ms=acquired, configured_ms=configured, served_ms=served
            )
        )

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
        said = [text for text in (details.driver_state_message, remarks(cluster.spec, self.policy, self.sizes)) if text]
        details = msgspec.structs.replace(
            details, did_not_expand_reason=shortfall or None, driver_state_message=". ".join(said) or None
        )
        self._event(EventType.RUNNING, details)
        self._event(EventType.DRIVER_HEALTHY, EventDetails())

    def _came_details(self, ready: Sequence[Instance]) -> EventDetails:
        """How many workers there are, and which nodes started warm from their pool."""
        driver = self._driver_node()
        nodes = [driver, *ready] if driver is not None else ready
        return msgspec.structs.replace(self._size_details(len(ready)), driver_state_message=warmth(nodes))

    def _describe(self) -> None:
        """Shows the progress of a start, for people, and what nodes wait for that a cluster which is up is to get."""
        driver = self._driver_node()
        waits = waiting(self._current())
        said = sentence(waits[0].provider_message) if waits else ""
        self._tell_waits(said, waits)
        if self.cluster.up:
            if said and not self.cluster.sized:
                self._change(state_message=f"{len(waits)} of {self._wanted()} workers wait: {waits[0].provider_message}")
            else:
                self._warn()
            return
        message = STARTING
        if driver is not None and driver.state is InstanceState.REGISTERED:
            message = driver.current_status.message or "Starting the driver"
            if driver.ready:
                ready = len(self._registered_workers(driver))
                message = f"The driver is ready; {ready} of {self._wanted()} workers have registered"
                message += f", {len(waits)} wait: {waits[0].provider_message}" if waits else ""
        elif driver is not None and driver.provider_message:
            message = sentence(driver.provider_message)
        self._change(state_message=message)

    def _warn(self) -> None:
        """Shows what the provider says of a node that runs, unless there is something else to show."""
        said = warned(self._current())
        text, shown = sentence(said[0].provider_message) if said else "", self.cluster.state_message
        if text != self.cluster.warning and shown in ("", self.cluster.warning):
            self._change(warning=text, state_message=text)
        elif self.cluster.warning and shown != self.cluster.warning:
            self._change(warning="")

    def _tell_waits(self, said: str, waits: Sequence[Instance]) -> None:
        """Tells in an event what nodes wait for, when that changes; a few times only."""
        before = self.cluster.waits
        if not any(map(coming, self._current())):
            self._change(waits=Waits())
        elif said and said != before.said and before.times < MOST_EVENTS:
            self._change(waits=Waits(said=said, times=before.times + 1))
            details = EventDetails(
                instance_id=waits[0].instance_id, target_num_workers=self._wanted(), did_not_expand_reason=said
            )
            self._event(EventType.AUTOSCALING_BACKOFF, details)

    def _limits(self) -> None:
        """Ends the cluster at the first limit of `auto_terminate` that is reached."""
        found = limits.moments(self.cluster, now=self.now, spent=self.spent, ahead_ms=self.ahead_ms)
        if not found:
            return
        name = min(found, key=found.__getitem__)
        if self.now < found[name]:
            again = found[name] if limits.AT not in found else min(found[name], self.now + LOOK_MS)
            self.deadlines.append(again)
        else:
            self._end(*limits.reason_of(self.cluster, name))

    def _idle(self) -> None:
        """Ends the cluster after a period of inactivity."""
        minutes = self.cluster.spec.autotermination_minutes or 0
        driver = self._driver_node()
        if not (self.cluster.up and minutes and driver) or driver.current_status.busy:
            return
        if self.used_ms > self.cluster.used_ms:
            self._change(used_ms=self.used_ms)
        deadline = max(limits.idle_since(self.cluster, driver) + minutes * 60_000, self.idle_from_ms)
        if self.now < deadline:
            self.deadlines.append(deadline)
        elif self._unheard(driver):
            self.deadlines.append(self.now + 5_000)  # it may be busy without our knowing: check again after its next report
        else:
            reason = TerminationReason(
                code=TerminationReasonCode.INACTIVITY,
                type=TerminationReasonType.SUCCESS,
                parameters={"inactivity_duration_min": str(minutes)},
            )
            self._end(reason, f"Cluster terminated by INACTIVITY: nothing ran on it for {minutes} minutes")
