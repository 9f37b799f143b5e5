"""The official SDK. Once this module is imported, its waiters look for what they wait for 20 times a second: they would sleep for
1 s, then 2 s, up to 10 s, which was most of a start on the simulated provider.
"""

from __future__ import annotations

import time
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute, jobs

__all__ = ["WorkspaceClient"]


class _Naps:
    """`time` for the waiters. Its clock is the true one, so timeouts are what they say."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))


for _module in (compute, jobs):
    vars(_module)["time"] = _Naps()
