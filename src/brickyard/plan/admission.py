"""Admission control: which calls to refuse or delay while the background work is behind.

Each call that creates work makes about a dozen units of background work, so the server must accept no more than it can do;
otherwise accepted clusters would wait longer and longer. Between two bounds it refuses a growing share of these calls, so that
the work proceeds at a steady rate. Calls that only read are delayed a little instead: clients that poll without a pause would
take the time needed for the work they are waiting for.
"""

from __future__ import annotations

SOON_S = 2.5  # up to this delay the server accepts everything;
LATE_S = 5.0  # from this one on, nothing: clients wait for at most a minute, and retry when told to
PAUSE_S = 1.5  # the longest delay of a read


def refused(lag_s: float, draw: float) -> bool:
    """Whether to refuse a call when the oldest work has waited for `lag_s`. `draw` is random, at least 0 and below 1."""
    return draw < _behind(lag_s)


def pause_s(lag_s: float) -> float:
    """How long to delay a read: the further the server is behind, the longer."""
    return PAUSE_S * min(1.0, max(0.0, _behind(lag_s)))


def _behind(lag_s: float) -> float:
    """0 at the first bound, 1 at the second."""
    return (lag_s - SOON_S) / (LATE_S - SOON_S)
