"""What a driver reports of the work that its cluster has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import Clock, now_ms
from ..spark.load import LoadMeter
from .report import Report
from .role import Role

if TYPE_CHECKING:
    from ..spark.activity import Activity
    from ..spark.driver import Driver
    from ..spark.standalone import Master

LAG_S = 12.0  # what executors hold becomes known late: at the next heartbeat (10 s) if they have just sent another one
CALM_S = 10.0  # for this long after the start, only waiting tasks justify the cost of the first sample


class LoadReports:
    """For one thread."""

    def __init__(self, role: Role, report: Report, *, monotonic: Clock) -> None:
        self._role = role
        self._report = report
        self._monotonic = monotonic
        self._meter = LoadMeter()
        self._homes: dict[str, str] = {}
        self._calm_until = monotonic() + CALM_S
        self._quiet = (-1, 0.0)  # the job count at which nothing ran, and `monotonic` since when

    def begin(self) -> None:
        """The driver has started."""
        self._calm_until = self._monotonic() + CALM_S

    def count_tasks(self, driver: Driver, activity: Activity) -> None:
        """Counts the tasks of a driver without workers, for its samples."""
        stages = self._role.sample(driver.stages, None) if activity.busy else None
        running = sum(stage.running for stage in stages or ())
        waiting = sum(max(0, stage.tasks - stage.running - stage.done) for stage in stages or ())
        self._role.numbers.update(tasks_active=running, tasks_waiting=waiting)

    def tell(self, driver: Driver, master: Master, activity: Activity) -> None:
        """Reports the cluster's load while it is active or its workers change."""
        told = not activity.busy and activity.jobs == self._quiet[0] and self._monotonic() - self._quiet[1] > LAG_S
        if told and set(self._homes.values()) == set(self._report.told("alive_workers") or ()):
            return
        stages = self._role.sample(driver.stages, None)
        waiting = any(stage.tasks > stage.running + stage.done for stage in stages or ())
        if stages is None or (not waiting and self._monotonic() < self._calm_until):
            return
        executors = self._role.sample(driver.executors, None)
        if executors is None:
            return
        if {executor["id"] for executor in executors} != self._homes.keys():
            self._homes = self._role.sample(master.homes, self._homes)
        load = self._meter.sample(stages, executors, self._homes, now_ms())
        self._role.numbers.update(
            executor_gc_ms=sum(int(each["totalGCTime"]) for each in executors),
            tasks_done=sum(int(each["completedTasks"]) for each in executors),
        )
        self._report.tell(load=load)
        running = load["pending"] or any(worker[2] for worker in load["workers"])
        if activity.busy or running:
            self._quiet = (-1, 0.0)
        elif activity.jobs != self._quiet[0]:
            self._quiet = (activity.jobs, self._monotonic())
