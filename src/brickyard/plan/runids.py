"""The ids of attempts and of job clusters, always the same for the same arguments."""

from __future__ import annotations

import hashlib
import time


def task_run_id(run_id: int, task: int, attempt: int) -> int:
    """The id of an attempt: 48 bits, and always the same for the same arguments."""
    digest = hashlib.blake2b(f"{run_id}/{task}/{attempt}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") or 1


def child_run_id(attempt_id: int) -> int:
    """The id of the run of another job that an attempt makes."""
    return task_run_id(attempt_id, 0, -1)


def job_cluster_id(of: str, now: int) -> str:
    """The id of the cluster for an attempt or for a key, in the format of all cluster ids."""
    word = hashlib.blake2b(f"cluster/{of}".encode(), digest_size=8).hexdigest()[:8]
    return f"{time.strftime('%m%d-%H%M%S', time.gmtime(now / 1000))}-{word}"
