"""Checks whether Spark answers: asks a small question repeatedly and measures how long there has been no answer."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

from py4j.protocol import Py4JError, Py4JNetworkError

ASK_S = 2.0
TICK_S = 1.0
MEASURE_EVERY = 2  # answers; samples are taken every 5 s


class Heart(Protocol):
    """Spark on this node, as the pulse feels it."""

    def beat(self) -> object:
        """Asks Spark a small question. May never return. Raises Py4JError, OSError."""
        ...

    def measure(self) -> None:
        """Takes the numbers that Spark gives of itself, for charts."""
        ...


class Pulse:
    """Asks on its own thread, because it may never return. Any answer counts, even a Java exception: it shows that
    the JVM is alive. Silence is counted in our own ticks, so time during which the machine slept or the whole node was frozen
    does not count."""

    def __init__(self, heart: Heart, *, stop: threading.Event) -> None:
        """It is measured after the first answer and every second one, on the same thread."""
        self._heart = heart
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
                self._heart.beat()
            except (Py4JNetworkError, OSError):
                continue
            except Py4JError:
                pass
            self._ticks = 0
            if answers % MEASURE_EVERY == 0:
                with contextlib.suppress(Exception):  # it is for charts only, so its failure must not look like silence
                    self._heart.measure()
            answers += 1

    def _count(self) -> None:
        while not self._stop.wait(TICK_S):
            self._ticks += 1
