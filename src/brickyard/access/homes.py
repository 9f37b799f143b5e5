"""What those who make users know of homes in the workspace's tree."""

from __future__ import annotations

from typing import Protocol

from brickyard.store.tx import Tx


class Homes(Protocol):
    """Implemented by `FormerHomes`."""

    def retire(self, tx: Tx, user_name: str) -> None:
        """Moves away what an earlier user of the name has left. Call it within the transaction that creates the user. Raises
        ApiError."""
        ...

    def make(self, user_name: str) -> None:
        """Makes a user's home unless it exists. Blocks, and does not raise."""
        ...
