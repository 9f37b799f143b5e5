"""The events about init scripts."""

from __future__ import annotations

from brickyard.domain.cluster import Instance
from brickyard.domain.events import EventDetails, EventType
from brickyard.domain.node import Role
from brickyard.domain.scripts import FAILURE, GLOBAL_FAILURE
from brickyard.plan.cluster.passstate import PassState
from brickyard.plan.scripts import event_details


class ScriptPhases(PassState):
    """Reports init scripts: once when the first node of an incarnation has begun them, once when the driver has finished them,
    and once for every worker on which one failed. What a failure means is decided by the phases for nodes."""

    def _scripts(self) -> None:
        cluster = self.cluster
        if not (cluster.global_scripts or cluster.spec.init_scripts):
            return
        if cluster.scripts_told != cluster.incarnation and any(node.current_status.scripts for node in self._current()):
            self._change(scripts_told=cluster.incarnation)
            self._event(EventType.INIT_SCRIPTS_STARTED, EventDetails(init_scripts=event_details(cluster, None)))
        for node in self._in_turn(self._current()):
            report = node.current_status.scripts
            if report is None or report.running:
                continue
            if node.role is Role.WORKER:
                if self._a_script_failed(node) and not node.retiring:
                    self._scripts_finished(node)
            elif cluster.scripts_done != cluster.incarnation:
                self._change(scripts_done=cluster.incarnation)
                self._scripts_finished(node)

    def _a_script_failed(self, node: Instance) -> bool:
        failure = self._failure(node)
        return failure is not None and failure.code in (FAILURE, GLOBAL_FAILURE)

    def _scripts_finished(self, node: Instance) -> None:
        """A node may be seen here in several passes: one that failed stays until a phase sends it away."""
        status = node.current_status
        if node.scripts_told == status.generation:
            return
        self._set(node, scripts_told=status.generation)
        details = event_details(self.cluster, status.scripts, node=status.host)
        self._event(EventType.INIT_SCRIPTS_FINISHED, EventDetails(init_scripts=details, instance_id=node.instance_id))
