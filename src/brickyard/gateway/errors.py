"""Why a gateway cannot serve."""

from __future__ import annotations


class GatewayError(Exception):
    """The gateway cannot serve; the message says why and what to do. `fatal`: the reason is not just that its port is taken."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal
