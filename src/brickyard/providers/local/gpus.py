"""Which GPUs of this machine an instance gets. The record of who has them is the instances' own (`instances.py`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from brickyard.machine.gpus import Gpu
from brickyard.providers.base import TransientError
from brickyard.providers.local.instances import Instances


def choose(count: int, *, found: Sequence[Gpu], held: Collection[int]) -> tuple[Gpu, ...]:
    """GPUs for a new instance, of those that nobody holds. Raises TransientError while too few are free: what ends gives them
    back last, and one that was lost comes back with its driver."""
    free = [each for each in found if each.number not in held]
    if len(free) < count:
        raise TransientError(
            f"{count} GPU{'s are' if count > 1 else ' is'} needed, and {len(free)} of {len(found)} are free now: instances that "
            "are ending have not given theirs back yet, or a GPU was lost"
        )
    return tuple(free[:count])


def held(instances: Instances) -> set[int]:
    """Numbers of the GPUs that an instance has, whether it lives, ends or is dead: until its directory is gone, a process of it
    may still use them. Call it within `Instances.alone`."""
    launched = (instances.launched(instance_id) for instance_id in instances.listed())
    return {number for each in launched if each is not None for number in each.gpus}
