"""What this machine allows, as found by the agent."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

from brickyard.machine import cgroups

LIMIT_S = 60


class Allowed(NamedTuple):
    """How clusters can be isolated (bubblewrap, namespaces, none), the reason if it is none, which limits nodes can have, and
    whether clusters can have separate networks."""

    isolation: str
    reason: str
    limits: str
    network: str

    @property
    def text(self) -> str:
        """The isolation in words."""
        return self.isolation if self.isolation != "none" else f"none: {self.reason}"


def network_text(found: str, *, network: str, internet: bool) -> str:
    """The network of clusters in words, with the settings `network` and `internet`. `found`: `Allowed.network`."""
    if network == "shared":
        return "shared: the settings say so"
    return found if internet or found != "isolated" else "isolated, without the internet"


def allowed_here() -> Allowed:
    """Probes in a separate process, which takes about 0.2 s. Never raises."""
    command_line = [*cgroups.scope(), sys.executable, "-P", "-m", "brickyard.agent", "--probe"]
    try:
        done = subprocess.run(command_line, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        answer = json.loads(done.stdout)
        return Allowed(str(answer["isolation"]), str(answer["reason"]), str(answer["limits"]), str(answer["network"]))
    except subprocess.TimeoutExpired:
        said = "the probe did not end."
    except OSError as error:
        said = f"the probe cannot be started: {error.strerror}."
    except (ValueError, KeyError):
        said = done.stderr.strip()[-300:] or "the probe failed."
    return Allowed("none", said, f"watched: {said}", f"shared: {said}")
