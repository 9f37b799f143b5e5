"""What execution contexts ask of others, for type checkers: a running node does not import this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..protocol import Log
from .asking import Answerer, Asking
from .client import Kernel
from .process import KernelDirectories
from .progress import RunningJobs


class DriverNode(Log, Protocol):
    """The driver's node, as its contexts see it. Methods may be called from any thread."""

    def cancel_group(self, group: str) -> None:
        """Cancels the Spark jobs of a job group (a command's id). May block."""
        ...

    def jobs_of_group(self, group: str) -> list[dict[str, Any]]:
        """Returns the Spark jobs that a command (its id) runs now (`progress.py`). May block."""
        ...

    def stop_streams(self, pool: str) -> None:
        """Ends the streams whose jobs are in that pool. May block."""
        ...

    def spark_open(self, patience_s: float) -> bool:
        """Waits until the driver accepts sessions, for `patience_s` at most, and returns whether it does."""
        ...

    def ask(self, context_id: str, *, scope: str = "", key: str = "", notebook: str = "") -> dict[str, Any]:
        """Has the workspace's server answer a context's question about secrets, or read a notebook (`host/questions.py`)."""
        ...

    def why_killed(self, began_s: float) -> str:
        """Returns why a process of the cluster was killed since a time (epoch s); "": unknown. May block for seconds."""
        ...


class ContextOwner(Protocol):
    """All contexts of a node, as one of them sees them. Methods may be called from any thread."""

    node: DriverNode
    jobs: RunningJobs

    def start_kernel(self, context_id: str, wanted: Callable[[], bool], after: KernelDirectories | None = None) -> Kernel | None:
        """Returns a connected kernel, or None if it is no longer `wanted`. `after`: the directories of the process that it
        replaces. Raises KernelDied."""
        ...

    def answerer(self, context: Asking) -> Answerer:
        """Returns what answers the questions of a context's kernel."""
        ...

    def cancel_jobs(self, group: str) -> None:
        """Cancels the Spark jobs of a command without waiting for it."""
        ...

    def stop_streams(self, pool: str) -> None:
        """Ends the streams of a context without waiting for it."""
        ...

    def touch(self) -> None:
        """Records that somebody uses the contexts now."""
        ...
