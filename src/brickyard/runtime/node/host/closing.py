"""What still runs on a driver whose cluster is about to stop. Nothing new begins there any more."""

from __future__ import annotations

from typing import Any


def closing(contexts: Any, driver: Any) -> dict[str, Any]:
    """Returns whether commands run, wait for their turn or have results that are to be read, whether something runs in Spark, and
    how often Spark has been asked that. Returns at once, even if Spark hangs; may be repeated."""
    contexts.take_no_more()
    looks, spark = driver.seen
    return {"commands": contexts.unfinished(), "spark": spark, "looks": looks}
