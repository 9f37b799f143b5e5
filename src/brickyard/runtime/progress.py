"""How far an installation is: steps, bytes, the time that is left. Pure; and the file in which others on the machine read it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

PUBLISH_EVERY_S = 0.5
ENOUGH_S = 10.0  # of typical work done, after which the rest can be estimated
SLOWEST, FASTEST = 20.0, 0.5  # what a step may take, in its typical time: packages from a warm cache say nothing of what follows
UNMEASURED = 0.95  # what a step that cannot be measured counts as at most, until it is over


class Step(NamedTuple):
    """One part of an installation. `typical_s` is its share of the whole; `mb` what it writes, where that can be measured."""

    what: str
    typical_s: float
    mb: int = 0


# Measured on two cores. A line with a step must fit into 80 columns behind a cluster's state: at most 21 characters each.
ENVIRONMENT = Step("making a Python", 2)
DOWNLOAD = Step("downloading packages", 20, 880)
BUILD = Step("building the package", 60, 1_320)
UNPACK = Step("installing packages", 25)
JAVA = Step("finding Java", 2)
RUN = Step("running Spark once", 90)
ARCHIVES = Step("preparing fast starts", 25)
STEPS = (ENVIRONMENT, DOWNLOAD, BUILD, UNPACK, JAVA, RUN, ARCHIVES)
ALL_S = sum(step.typical_s for step in STEPS)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is. `note` is a remark for a person that should stay, and there only once."""

    subject: str  # Spark 4.0.5
    step: int = 1  # of STEPS, from 1
    done_mb: int = 0
    total_mb: int = 0  # 0: not measured
    share: float = 0.0  # of the whole
    left_s: int | None = None
    note: str = ""

    @property
    def head(self) -> str:
        """The step in words, without what changes all the time."""
        return f"Installing {self.subject}, step {self.step} of {len(STEPS)}: {STEPS[self.step - 1].what}"

    @property
    def amount(self) -> str:
        """Bytes of bytes, "" where they are not measured."""
        return f"{self.done_mb} of {self.total_mb} MB" if self.total_mb else ""

    @property
    def left(self) -> str:
        """The time that is left, in words; "" while it cannot be told."""
        if self.left_s is None:
            return ""
        return f"{self.left_s // 60} min {self.left_s % 60} s left" if self.left_s >= 60 else f"{self.left_s} s left"

    @property
    def text(self) -> str:
        """All of it in a line."""
        details = ", ".join(filter(None, (self.amount, self.left)))
        return f"{self.head} ({details})" if details else self.head


Progress = Callable[[Report], None]


class Meter:
    """From what an installation does to reports. Times are seconds of any clock that does not go back."""

    def __init__(self, subject: str, *, now: float) -> None:
        self._subject = subject
        self._started = now
        self._begun = now
        self._step = 0
        self._mb = 0
        self._worked_s = 0.0  # what the steps that are over typically take; without those that were not needed

    def begin(self, step: Step, *, now: float) -> None:
        """The next step; one that has begun or is over stays as it is."""
        if (number := STEPS.index(step)) > self._step:
            self._worked_s += STEPS[self._step].typical_s
            self._step, self._begun, self._mb = number, now, 0

    def wrote(self, mb: int) -> None:
        """So much was written in this step: never less than before, since processes take their counts with them."""
        self._mb = max(self._mb, mb)

    def report(self, *, now: float, note: str = "") -> Report:
        step, before_s = STEPS[self._step], sum(each.typical_s for each in STEPS[: self._step])
        worked_s = self._worked_s
        pace = min(max((self._begun - self._started) / worked_s, FASTEST), SLOWEST) if worked_s >= ENOUGH_S else 1.0
        if step.mb:
            within = min(self._mb / step.mb, UNMEASURED)
        else:
            within = min((now - self._begun) / (step.typical_s * pace), UNMEASURED)
        done_s = before_s + within * step.typical_s
        return Report(
            subject=self._subject,
            step=self._step + 1,
            done_mb=self._mb if step.mb else 0,
            total_mb=max(step.mb, self._mb) if step.mb else 0,
            share=done_s / ALL_S,
            left_s=round((ALL_S - done_s) * pace) if worked_s >= ENOUGH_S else None,
            note=note,
        )


class Board:
    """The file beside an environment's lock in which its installer says how far it is, for those that wait."""

    def __init__(self, environment: str, cache_dir: Path) -> None:
        self._path = cache_dir / "locks" / f"{environment}.progress"

    def write(self, report: Report) -> None:
        """Never fails: an installation does not depend on it."""
        draft = self._path.with_suffix(f".{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            draft.write_bytes(msgspec.json.encode(report))
            draft.replace(self._path)

    def read(self) -> Report | None:
        """None where there is nothing to be read. Where its writer was killed, the next installer removes what it left."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Report)
        except (OSError, msgspec.MsgspecError):
            return None

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
