"""`storage_gb`: how much the workspace directory of a cluster may take. It grows and never shrinks. Pure."""

from __future__ import annotations

from brickyard.domain.strict import Problem


def problems_of_storage(field: str, asked: int | None, *, now: int, most: int) -> list[Problem]:
    """What is wrong with the size that somebody asks for. `now`: the one of now, 0 if there is none; `most`: what `node_disk_gb`
    leaves a driver with its cluster's directories. All in GiB."""
    if asked is None:
        return []
    if asked < 1:
        return [Problem(field=field, reason="it must be at least 1", requested=asked)]
    if asked < now:
        return [Problem(field=field, reason=f"storage only grows, and it is {now} now", requested=asked, available=now)]
    if asked > max(most, now):
        reason = f"a driver and its cluster's directories may take {most} (node_disk_gb)"
        return [Problem(field=field, reason=reason, requested=asked, available=most)]
    return []
