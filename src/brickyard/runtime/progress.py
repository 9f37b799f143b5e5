"""Tracks the progress of an installation or a training: steps, bytes, remaining time. Pure, except for the file that shares it
with other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

PUBLISH_EVERY_S = 0.5
ENOUGH_S = 10.0  # seconds of typical work done before the rest can be estimated
SLOWEST, FASTEST = 20.0, 0.5  # bounds of a step's time relative to typical: a warm package cache says nothing about later steps
UNMEASURED = 0.95  # the most that an unmeasurable step counts as before it is over


class Step(NamedTuple):
    """One part of an installation. `typical_s` is its share of the whole; `mb` is what it reads, if that can be measured."""

    what: str
    typical_s: float
    mb: int = 0


# Measured on two cores. A line with a step must fit into 80 columns after a cluster's state: at most 21 characters each.
# Spark, the packages and Java are fetched side by side; the step is the one that is waited for.
ENVIRONMENT = Step("making a Python", 1)
DOWNLOAD = Step("getting Spark", 20, 440)
PACKAGES = Step("installing packages", 4)
JAVA = Step("getting Java", 1)
CLASSES = Step("compiling classes", 8)
STEPS = (ENVIRONMENT, DOWNLOAD, PACKAGES, JAVA, CLASSES)

RUN = Step("running Spark once", 90)
AGAIN = Step("running Spark again", 90)
ARCHIVES = Step("making the archives", 25)
TRAINING = (RUN, AGAIN, ARCHIVES)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an installation, or of a training. `note` is a remark for users that should be shown once and stay."""

    subject: str  # for example "Spark 4.0.5"
    training: bool = False
    step: int = 1  # of STEPS, or of TRAINING, from 1
    done_mb: int = 0
    total_mb: int = 0  # 0: unknown
    share: float = 0.0  # of the whole installation
    left_s: int | None = None
    note: str = ""

    @property
    def head(self) -> str:
        """The step in words, without the parts that change constantly."""
        what, steps = ("Preparing fast starts of", TRAINING) if self.training else ("Installing", STEPS)
        return f"{what} {self.subject}, step {self.step} of {len(steps)}: {steps[self.step - 1].what}"

    @property
    def amount(self) -> str:
        """Bytes out of the total, or "" if they are not measured."""
        return f"{self.done_mb} of {self.total_mb} MB" if self.total_mb else ""

    @property
    def left(self) -> str:
        """The remaining time in words, or "" while it is unknown."""
        if self.left_s is None:
            return ""
        return f"{self.left_s // 60} min {self.left_s % 60} s left" if self.left_s >= 60 else f"{self.left_s} s left"

    @property
    def text(self) -> str:
        """Everything in one line."""
        details = ", ".join(filter(None, (self.amount, self.left)))
        return f"{self.head} ({details})" if details else self.head


_decode_report = msgspec.json.Decoder(Report).decode


Progress = Callable[[Report], None]


class Meter:
    """Turns an installation's events into reports. Times are seconds of any clock that does not go back."""

    def __init__(self, subject: str, *, now: float, steps: tuple[Step, ...] = STEPS) -> None:
        self._subject = subject
        self._steps = steps
        self._started = now
        self._begun = now
        self._step = 0
        self._mb = 0
        self._worked_s = 0.0  # typical time of the finished steps, without skipped ones

    def begin(self, step: Step, *, now: float) -> None:
        """Begins the next step; does nothing for a step that has begun or is over."""
        if (number := self._steps.index(step)) > self._step:
            self._worked_s += self._steps[self._step].typical_s
            self._step, self._begun, self._mb = number, now, 0

    def moved(self, mb: int) -> None:
        """Records the megabytes read in this step. They never decrease."""
        self._mb = max(self._mb, mb)

    def report(self, *, now: float, note: str = "") -> Report:
        step, before_s = self._steps[self._step], sum(each.typical_s for each in self._steps[: self._step])
        all_s = sum(each.typical_s for each in self._steps)
        worked_s = self._worked_s
        pace = min(max((self._begun - self._started) / worked_s, FASTEST), SLOWEST) if worked_s >= ENOUGH_S else 1.0
        within = self._mb / step.mb if step.mb else (now - self._begun) / (step.typical_s * pace)
        estimated = worked_s >= ENOUGH_S and (bool(step.mb) or within <= 1)  # what takes longer than that ends nobody knows when
        within = min(within, UNMEASURED)
        done_s = before_s + within * step.typical_s
        return Report(
            subject=self._subject,
            training=self._steps is TRAINING,
            step=self._step + 1,
            done_mb=self._mb if step.mb else 0,
            total_mb=max(step.mb, self._mb) if step.mb else 0,
            share=done_s / all_s,
            left_s=max(1, round((all_s - done_s) * pace)) if estimated else None,
            note=note,
        )


class Board:
    """The file beside an environment's lock through which its installer, or trainer, shows its progress to other processes."""

    def __init__(self, environment: str, cache_dir: Path, *, training: bool = False) -> None:
        self._path = cache_dir / "locks" / f"{environment}.{'training' if training else 'progress'}"

    def write(self, report: Report) -> None:
        """Never fails: an installation does not depend on it."""
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        with contextlib.suppress(OSError):
            draft.write_bytes(msgspec.json.encode(report))
            draft.replace(self._path)

    def read(self) -> Report | None:
        """Returns None if there is nothing to read. If the writer was killed, the next installer removes the file."""
        try:
            return _decode_report(self._path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None

    def written_s(self) -> float:
        """When it was last written, in seconds since the epoch; 0.0 if there is nothing."""
        try:
            return self._path.stat().st_mtime
        except OSError:
            return 0.0

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
