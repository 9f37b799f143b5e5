"""Room for files, until a test says otherwise."""

from __future__ import annotations

from brickyard.domain.access import Principal


class Room:
    """`why`: why nothing may be added; "": something may."""

    def __init__(self) -> None:
        self.why = ""

    def refusal(self, _principal: Principal) -> str:
        return self.why
