"""Builds the web page into the wheel, so that whoever installs it needs no Node.

A page that cannot be built is a warning; with BRICKYARD_PAGE=required in the environment, the build fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebPage(BuildHookInterface[Any]):
    """The bundle is ignored by git, so that it is named as an artifact."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable installation serves what `./dev build-ui` has built."""
        if version == "editable":
            return
        done = subprocess.run([sys.executable, str(Path(self.root) / "ui" / "build.py")], check=False)
        if done.returncode and os.environ.get("BRICKYARD_PAGE") == "required":
            raise RuntimeError("The web page could not be built.")
        if done.returncode:
            self.app.display_warning("The web page could not be built: the server will say so at its address.")
        build_data["artifacts"].append("/src/brickyard/webui/*")

    def dependencies(self) -> list[str]:
        """What building needs besides: uv fetches Node where there is none."""
        return [] if shutil.which("node") else ["uv"]
