"""Makes a cluster known to Jupyter by a kernel specification, which holds no secret."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

CLUSTER_VARIABLE = "BRICKYARD_CLUSTER_ID"


def specification(*, cluster_id: str, cluster_name: str, profile: str, config_file: str = "") -> dict[str, Any]:
    """`kernel.json` of a cluster. The token is read from the profile each time a kernel starts."""
    env = {CLUSTER_VARIABLE: cluster_id, "DATABRICKS_CONFIG_PROFILE": profile}
    if config_file:
        env["DATABRICKS_CONFIG_FILE"] = config_file
    return {
        # -P: a code.py or random.py beside the notebook stands for no module here.
        "argv": [sys.executable, "-P", "-m", "brickyard.jupyter", "-f", "{connection_file}"],
        "display_name": f"Brickyard: {cluster_name or cluster_id}",
        "language": "python",
        "interrupt_mode": "message",
        "env": env,
    }


def kernel_name(cluster_id: str) -> str:
    """The directory's name: one kernel per cluster; installing it again replaces it."""
    return "brickyard-" + re.sub(r"[^a-z0-9-]", "-", cluster_id.lower())


def install(kernels: Path, cluster_id: str, wanted: dict[str, Any]) -> Path:
    """Writes it below a directory of kernels (`<Jupyter's data directory>/kernels`). Raises OSError."""
    place = kernels / kernel_name(cluster_id)
    place.mkdir(parents=True, exist_ok=True)
    draft = place / "kernel.json.tmp"
    draft.write_text(json.dumps(wanted, indent=2) + "\n")
    draft.replace(place / "kernel.json")
    return place
