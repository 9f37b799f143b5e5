"""The events about init scripts."""

from __future__ import annotations

from brickyard.domain.cluster import Instance
from brickyard.domain.events import EventDetails, EventType
from brickyard.domain.node import Role
from brickyard.domain.scripts import FAILURE, GLOBAL_FAILURE
from brickyard.plan.cluster.books import Books
from brickyard.plan.scripts import event_details


class ScriptPhases(Books):
    """Reports init scripts: once when the first node of an incarnation has begun them, once when the driver has finished them,
    and for every worker on which one failed. What a failure means is decided by the phases for nodes."""

    def _scripts(self) -> None:
        cluster = self.cluster
        if not (cluster.global_scripts or cluster.spec.init_scripts):
            return
        if cluster.scripts_told != cluster.incarnation and any(node.current_status.scripts for node in self._current()):
            self._change(scripts_told=cluster.incarnation)
            self._event(EventType.INIT_SCRIPTS_STARTED, EventDetails(init_scripts=event_details(cluster, None)))
        for node in self._current():
            report = node.current_status.scripts
            if report is None or report.running:
                continue
            if node.role is Role.WORKER:
                # Its state changes in this same pass, so this happens once.
                if (
                    (failure := self._failure(node)) is not None
                    and failure.code in (FAILURE, GLOBAL_FAILURE)
                    and not node.retiring
                ):
                    self._scripts_finished(node)
            elif cluster.scripts_done != cluster.incarnation:
                self._change(scripts_done=cluster.incarnation)
                self._scripts_finished(node)

    def _scripts_finished(self, node: Instance) -> None:
        status = node.current_status
        details = event_details(self.cluster, status.scripts, node=status.host)
        self._event(EventType.INIT_SCRIPTS_FINISHED, EventDetails(init_scripts=details, instance_id=node.instance_id))
