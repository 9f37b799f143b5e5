"""Checks whether Spark answers: asks a small question repeatedly and measures how long there has been no answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JNetworkError

ASK_S = 2.0
TICK_S = 1.0
MEASURE_EVERY = 2  # answers; samples are taken every 5 s


class Pulse:
    """Asks `question` on its own thread, because it may never return. Any answer counts, even a Java exception: it shows that
    the JVM is alive. Silence is counted in our own ticks, so time during which the machine slept or the whole node was frozen
    does not count."""

    def __init__(
        self, question: Callable[[], object], *, stop: threading.Event, measure: Callable[[], None] = lambda: None
    ) -> None:
        """`measure` is called after the first answer and every second one, on the same thread."""
        self._question = question
        self._measure = measure
        self._stop = stop
        self._ticks = 0

    def start(self) -> None:
        for work in (self._ask, self._count):
            threading.Thread(target=work, name="pulse" + work.__name__, daemon=True).start()

    @property
    def silent_s(self) -> float:
        """Returns for how long there has been no answer; up to about ASK_S while all is well."""
        return self._ticks * TICK_S

    def _ask(self) -> None:
        answers = 0
        while not self._stop.wait(ASK_S):
            try:
                self._question()
            except (Py4JNetworkError, OSError):
                continue
            except Py4JError:
                pass
            self._ticks = 0
            if answers % MEASURE_EVERY == 0:
                with contextlib.suppress(Exception):  # it is for charts only, so its failure must not look like silence
                    self._measure()
            answers += 1

    def _count(self) -> None:
        while not self._stop.wait(TICK_S):
            self._ticks += 1
