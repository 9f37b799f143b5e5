"""What jobs need of those who make runs."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.access import Principal
from brickyard.domain.run import NewRun, Run
from brickyard.store.tx import Tx


class Runs(Protocol):
    """Those who make runs (`features.runs`). Methods raise ApiError."""

    def check(self, tx: Tx, principal: Principal, new: NewRun) -> None:
        """Raises if the run could not be made with the principal's rights now."""
        ...

    def made(self, tx: Tx, user_name: str, token: str, *, job_id: int) -> int | None:
        """The run of the job and of the user with that idempotency token."""
        ...

    def make(self, tx: Tx, principal: Principal, new: NewRun) -> Run:
        """Inserts a run, due at once."""
        ...

    def repair(self, tx: Tx, principal: Principal, run: Run, new: NewRun) -> int:
        """Begins the run anew with the tasks of `new`, which are some of its own, and returns the id of the repair."""
        ...

    def fail(self, tx: Tx, user_name: str, new: NewRun, message: str) -> Run:
        """Inserts a run that has failed before it began."""
        ...
