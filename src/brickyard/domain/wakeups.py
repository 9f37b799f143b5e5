"""How other parts ask a loop to look sooner."""

from __future__ import annotations

from typing import Protocol, TypeVar

K_contra = TypeVar("K_contra", str, int, contravariant=True)


class Wake(Protocol[K_contra]):
    """Asks for a pass soon, over the cluster or pool (`Wake[str]`) or the run (`Wake[int]`) that the key names. Merges with one
    that waits already. Called on the event loop."""

    def __call__(self, key: K_contra, /) -> None: ...
