"""Stand-ins for GPUs, as `brickyard.machine.gpus.opened` reads them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

MODEL = "NVIDIA Test-80GB"


def describe(file: Path, *values: Mapping[str, float], lost: Collection[int] = ()) -> str:
    """Writes a file with a GPU for each of these, and returns its path. Their device nodes' numbers begin with 3."""
    fresh = file.with_suffix(".fresh")
    listed = [
        {"number": 3 + index, "uuid": f"GPU-{index}", "model": MODEL, "values": each, "lost": index in lost}
        for index, each in enumerate(values)
    ]
    fresh.write_text(json.dumps(listed))
    fresh.replace(file)
    return str(file)
