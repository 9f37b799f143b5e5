"""How a cluster ends, and what its nodes must be gone for: what runs may finish, then nodes go, then its directory is dealt
with."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Phase, Role
from brickyard.plan import graceful
from brickyard.plan.cluster.serve import ServePhases
from brickyard.plan.enforcement import applied
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS


class EndPhases(ServePhases):
    """The phases after which the cluster has no node."""

    def _lets_finish(self) -> bool:
        """Whether what runs on the cluster may still finish, before it stops or restarts. Nothing else is done meanwhile."""
        wait = self.cluster.workbench.graceful
        if not wait.pending:
            return False
        own = [node for node in self._live() if node.generation == wait.generation]
        driver = next((node for node in own if node.role is not Role.WORKER), None)
        status = driver.current_status if driver is not None else NodeStatus()
        if status.told_ms:
            self.cluster = graceful.told(self.cluster, now=self.now)
        if driver is None or driver.state is not InstanceState.REGISTERED or status.phase is Phase.FAILED:
            self._over("The driver has ended")
        elif status.quiet_ms:
            self._over("Nothing ran any more")
        elif self.now >= wait.until_ms:
            self._over(graceful.late(wait).capitalize(), message=graceful.late(wait))
        else:
            self._tell_to_finish(driver)
            self.deadlines.append(wait.until_ms)
            return True
        return False

    def _over(self, said: str, *, message: str = "") -> None:
        self.cluster = graceful.over(self.cluster, now=self.now, said=said, message=message)

    def _tell_to_finish(self, driver: Instance) -> None:
        told = driver.assignment
        if told is not None and not told.closing:
            self._set(driver, assignment=msgspec.structs.replace(told, version=told.version + 1, closing=True))

    def _restores(self) -> bool:
        """Whether the workspace directory is to be restored first. Meanwhile the cluster has no node: that is what lets the
        directory be exchanged."""
        if not self.cluster.workbench.task.pending:
            return False
        self._empty()
        if self._gone():
            self._ready_for_task()
        return True

    def _drain(self) -> None:
        """Nothing is wanted: every instance goes. The cluster has ended when the last one is gone, and its workspace directory
        dealt with."""
        self.deadlines.clear()
        self._empty()
        self.new.clear()
        if self._gone() and not self.cluster.ended:
            if self.cluster.workbench.task.pending:
                self._ready_for_task()
            else:
                self._change(ended=True, terminated_ms=self.now, restarting=False)
                self.cluster, told = applied(self.cluster, now=self.now)
                self.events.extend(told)
        if self.cluster.forget_ms:
            self.deadlines.append(self.cluster.forget_ms)

    def _empty(self) -> None:
        for node in self._in_turn(self._live()):
            self._send_away(node)
        self.deadlines.extend(node.releasing_ms + CLEAN_TIMEOUT_MS for node in self.nodes.values() if node.releasing_ms)

    def _gone(self) -> bool:
        return not self.nodes and not self.partial

    def _ready_for_task(self) -> None:
        """Records since when the cluster has had no node."""
        task = self.cluster.workbench.task
        if not task.ready_ms:
            task = msgspec.structs.replace(task, ready_ms=self.now)
            self._change(workbench=msgspec.structs.replace(self.cluster.workbench, task=task))
