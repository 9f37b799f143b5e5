"""Time, ids and secrets, injected so that tests can control them."""

from __future__ import annotations

import base64
import functools
import os
import secrets
import string
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
SLEW = 10  # a clock that is to catch up is faster or slower by one part in so many


class Clock(Protocol):
    """Time. Everything that waits or expires uses a clock that does not jump (SystemClock). What compares with a time that a
    person or another machine has named, such as a schedule's or a credential's, uses the machine's (WallClock)."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        ...


class Monotonic(Protocol):
    """Seconds since some moment, which no setting of a clock changes: `time.monotonic`, or a test's."""

    def __call__(self) -> float: ...


def elapsed_ns() -> int:
    """Nanoseconds since some moment, also those while the machine slept. No setting of the machine's clock changes them, and all
    processes of a machine agree on them."""
    return time.monotonic_ns() if _BOOTTIME is None else time.clock_gettime_ns(_BOOTTIME)


class _Clock:
    """Starts at the machine's time."""

    def __init__(self, *, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = elapsed_ns) -> None:
        self._wall_ns, self._monotonic_ns = wall_ns, monotonic_ns
        self._lock = threading.Lock()
        self._now_ns, self._read_ns = wall_ns(), monotonic_ns()

    def now_ms(self) -> int:
        with self._lock:
            read = self._monotonic_ns()
            passed, self._read_ns = read - self._read_ns, read
            self._now_ns = self._then(self._now_ns, passed, self._wall_ns())
            return self._now_ns // 1_000_000

    def _then(self, before: int, passed: int, wall: int) -> int:
        raise NotImplementedError


class WallClock(_Clock):
    """The machine's clock, except that it never goes backwards: when the machine's clock is set back, this one runs at half speed
    until the two agree again."""

    def _then(self, before: int, passed: int, wall: int) -> int:
        return max(wall, before + passed // 2)


class SystemClock(_Clock):
    """A clock that does not jump: when the machine's clock is set, forward or back, this one runs a tenth faster or slower until
    the two agree again.

    So no event precedes its cause, and an age or a wait is wrong by at most a tenth.
    """

    def _then(self, before: int, passed: int, wall: int) -> int:
        even, most = before + passed, passed // SLEW
        return even + max(-most, min(most, wall - even))


@functools.lru_cache(2)
def _stamp(seconds: int) -> str:
    return time.strftime("%m%d-%H%M%S", time.gmtime(seconds))


def timed_name(now_ms: int, number: int) -> str:
    """The name of a context or a command on a node: 12 hex digits of time, and 20 that tell it from others of the same time. By
    their order a node knows which names are too old to begin (`runtime/node/contexts/fence.py`)."""
    return f"{now_ms:012x}{number:020x}"


class _Random:
    """Random bytes of the kernel, each used once. They are fetched many at a time, because every call of the kernel lets another
    thread have the interpreter first. Safe to call from several threads."""

    _PAGE = 1024

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = b""

    def take(self, count: int) -> bytes:
        with self._lock:
            if len(self._left) < count:
                self._left = os.urandom(self._PAGE)
            taken, self._left = self._left[:count], self._left[count:]
            return taken


class Ids:
    """Makes identifiers in the formats that clients expect."""

    _letters = string.digits + string.ascii_lowercase  # in the order in which they are sorted
    _random = _Random()  # one for the process

    def cluster_id(self, now_ms: int) -> str:
        """`MMDD-HHMMSS-xxxxxxxx` in UTC, the format of the Databricks API. The first two of the last eight grow with the
        milliseconds: clusters that are made one after the other are neighbours in every index, so a commit writes fewer pages."""
        seconds, ms = divmod(now_ms, 1000)
        first, second = divmod(ms, len(self._letters))
        return f"{_stamp(seconds)}-{self._letters[first]}{self._letters[second]}{self._word(6)}"

    def pool_id(self, now_ms: int) -> str:
        """`MMDD-HHMMSS-xxxxxx-pool-XXXXXXXX` in UTC, the format of the Databricks API."""
        return f"{_stamp(now_ms // 1000)}-{self._word(6)}-pool-{self._word(8).upper()}"

    def policy_id(self) -> str:
        """16 upper-case hex digits, the format of the Databricks API."""
        return secrets.token_hex(8).upper()

    def number(self) -> int:
        """48 random bits, for jobs and runs: an id that fits into the number type of every client."""
        return int(self.hex(12), 16) or 1

    def instance_id(self) -> str:
        """`i-` followed by 16 hex digits."""
        return f"i-{self._random.take(8).hex()}"

    def node_id(self) -> str:
        """32 hex digits."""
        return self._random.take(16).hex()

    def hex(self, digits: int = 32) -> str:
        """Lower-case hex digits, for context and command ids."""
        return secrets.token_hex((digits + 1) // 2)[:digits]

    def timed(self, now_ms: int) -> str:
        """32 lower-case hex digits that begin with the time, so that what was named later sorts later (`timed_name`)."""
        return timed_name(now_ms, int.from_bytes(self._random.take(10), "big"))

    def spark_context_id(self) -> int:
        """A positive 62-bit integer, new for every driver start."""
        return secrets.randbits(62) | (1 << 61)

    def secret(self) -> str:
        """256 random bits, URL-safe."""
        return base64.urlsafe_b64encode(self._random.take(32)).rstrip(b"=").decode()

    def token(self) -> str:
        """A personal access token: `dapi` and 32 hex digits."""
        return "dapi" + secrets.token_hex(16)

    def _word(self, length: int) -> str:
        number, letters = int.from_bytes(self._random.take(16), "big"), []  # so large that no letter is likelier than another
        for _ in range(length):
            number, place = divmod(number, len(self._letters))
            letters.append(self._letters[place])
        return "".join(letters)


@functools.lru_cache(256)  # an answer shows the same times several times
def rfc3339(ms: int) -> str:
    """The time with milliseconds, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
