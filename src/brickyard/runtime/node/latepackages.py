"""The runtime's second layer of packages, for a Python process that has begun before the layer was there.

The agent writes this file into the node's Python environment with a call of `follow` at its end; Python imports it when it starts
(a .pth file), so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import FrameType
    from typing import Any, TextIO

# What the layer has at its top: module -> package.
MODULES = {
    "boto3": "boto3", "botocore": "boto3", "certifi": "certifi", "charset_normalizer": "charset-normalizer",
    "databricks": "databricks-sdk", "idna": "idna", "jmespath": "jmespath", "joblib": "joblib", "narwhals": "narwhals",
    "plotly": "plotly", "requests": "requests", "s3transfer": "s3transfer", "scipy": "scipy", "sklearn": "scikit-learn",
    "threadpoolctl": "threadpoolctl", "urllib3": "urllib3", "yaml": "pyyaml",
}  # fmt: skip
NEVER_WAITS = ("databricks",)  # a part of it is there without the layer (databricks.sdk.runtime)
WAIT_S = 240.0  # for a layer that is being installed
BEGIN_S = 20.0  # for an installation that may be about to begin
STALE_S = 30.0  # an installer writes its state every few seconds: one that is older has been killed
LOOK_S, TELL_S = 0.5, 10.0


def follow(site: str, state: str) -> None:
    """Has modules of the layer found from the moment on at which it is there. `site`: its directory, which is on `sys.path`
    already; `state`: the file in which its installer says how far it is."""
    if not os.path.isdir(site):  # noqa: PTH112 - pathlib takes longer than all of this
        sys.meta_path.append(LatePackages(site, state))


class LatePackages:
    """Finds the layer's modules, after everything that is installed. Code of a user's own that imports one too early waits for
    it, as long as it is being installed; libraries, which try what they can do without, do not."""

    def __init__(
        self, site: str, state: str, *, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
        output: TextIO | None = None,
    ) -> None:  # fmt: skip
        self._site, self._state = site, state
        self._clock, self._sleep, self._output = clock, sleep, output
        self._there = False

    def find_spec(self, name: str, path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if path is not None or name not in MODULES:
            return None
        if not self._appeared():
            if name in NEVER_WAITS or not asked_by_user(sys._getframe(1)):
                return None
            self._wait(name)
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [self._site])

    def invalidate_caches(self) -> None:
        """There is none."""

    def _appeared(self) -> bool:
        if not self._there and os.path.isdir(self._site):  # noqa: PTH112 - see above
            import importlib

            self._there = True
            importlib.invalidate_caches()  # the directory counts as missing
        return self._there

    def _wait(self, name: str) -> None:
        """Raises ModuleNotFoundError if the layer does not come."""
        began = told = self._clock()
        while not self._appeared():
            now, (state, message) = self._clock(), self._read()
            if state == "failed" or now - began > (WAIT_S if state else BEGIN_S):
                raise ModuleNotFoundError(self._sentence(name, state, message), name=name)
            if state and (told == began or now - told >= TELL_S):
                told = now
                output = self._output or sys.stderr
                output.write(f"Waiting for {MODULES[name]}, which comes with the runtime and is being installed: {message}\n")
                output.flush()
            self._sleep(LOOK_S)

    def _read(self) -> tuple[str, str]:
        """Returns the installer's state and what it says; "" if none is at work."""
        import json

        try:
            with open(self._state) as file:  # noqa: PTH123 - see above
                found = json.load(file)
            state, at_s = str(found["state"]), float(found["at_ms"]) / 1000
            if state == "failed" or self._clock() - at_s < STALE_S:
                return state, str(found["message"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return "", ""

    def _sentence(self, name: str, state: str, message: str) -> str:
        package = MODULES[name]
        begin = f"No module named {name!r} yet: {package} comes with the runtime in a second layer of packages, "
        if state == "failed":
            why = f"which could not be installed on this machine ({message}). It is tried again every 10 minutes."
        elif state:
            why = f"which is still being installed ({message}). Run the cell again in a while."
        else:
            why = "which this machine has not installed yet. Run the cell again in a while."
        return f"{begin}{why} %pip install {package} installs it for this cluster at once."


def asked_by_user(frame: FrameType | None) -> bool:
    """Whether an import was written in a cell, a program or a function of theirs, and not in a library."""
    while frame is not None and (
        frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_globals.get("__name__") == __name__
    ):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == "__main__"
