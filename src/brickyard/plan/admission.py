"""What becomes of a call while the server is behind with the work that it has taken on before.

Each call that makes work makes a dozen units of the background's, so what is taken on must follow what is done: else clusters
that were accepted would wait for ever longer. Between two bounds more and more of these calls are refused, so that the work goes
on at a steady rate instead of by fits and starts. Calls that only read wait a little instead: those who poll without a pause
would take the time in which what they wait for could be done.
"""

from __future__ import annotations

SOON_S = 2.5  # so far behind the server takes on everything,
LATE_S = 5.0  # and from here on nothing: clients wait for a minute at most, and ask again when they are told to
PAUSE_S = 1.5  # before a read is begun, at most


def refused(lag_s: float, draw: float) -> bool:
    """Whether to refuse a call while the oldest work waits since `lag_s`. `draw` is random, at least 0 and below 1."""
    return draw < _behind(lag_s)


def pause_s(lag_s: float) -> float:
    """How long a read waits before it is begun: the longer the further the server is behind."""
    return PAUSE_S * min(1.0, max(0.0, _behind(lag_s)))


def _behind(lag_s: float) -> float:
    """0 at the first bound, 1 at the second."""
    return (lag_s - SOON_S) / (LATE_S - SOON_S)
