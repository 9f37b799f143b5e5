"""What a job runs. It holds no secret: operators and, on some sites, other users can read it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import PurePath

from brickyard.agent.unit import ADDRESS_VARIABLE

UNIT, TAKEN = "unit.json", "taken"
OUTPUT = "output"  # what the job writes
_TOLD = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "JAVA_HOME", "SSL_CERT_FILE", "PYTHONPATH")
_TOLD_PREFIXES = ("LC_", "PIP_", "UV_")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")

_SCRIPT = """#!/bin/sh
# Instance {instance} of a Brickyard workspace. Its document is taken only once: neither a requeued job
# nor a second one starts the instance again.
unset SLURM_JWT  # Slurm hands on the submitter's token, if there is one
if [ "${{SLURM_RESTART_COUNT:-0}}" != 0 ]; then echo "requeued; not started again"; exit 0; fi
cd {directory} || exit 0
mv {unit} "{taken}.$SLURM_JOB_ID" 2>/dev/null
if ! [ -f "{taken}.$SLURM_JOB_ID" ]; then echo "already started or terminated; nothing to do"; exit 0; fi
{prelude}exec <"{taken}.$SLURM_JOB_ID" || exit 1
rm -f "{taken}.$SLURM_JOB_ID"
exec {python} -m brickyard.agent --unit - --with-parent
"""
_NODE_ADDRESS = f"""{ADDRESS_VARIABLE}=$(
  scontrol --oneliner show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p'
)
export {ADDRESS_VARIABLE}
"""


def script(instance_id: str, directory: PurePath, *, python: str, prelude: str = "", node_address: bool = False) -> str:
    """The text of the batch script. `directory` has the instance's document, and is the same on all machines."""
    before = prelude.rstrip() + "\n" if prelude.strip() else ""
    return _SCRIPT.format(
        instance=instance_id,
        directory=shlex.quote(str(directory)),
        unit=UNIT,
        taken=TAKEN,
        prelude=before + (_NODE_ADDRESS if node_address else ""),
        python=shlex.quote(python),
    )


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job: what finds programs, packages and the way out. Operators can see it."""
    told = {
        key: value for key, value in environ.items() if key in _TOLD or key.startswith(_TOLD_PREFIXES) or key.lower() in _PROXIES
    }
    if "PYTHONPATH" in told:
        told["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in told["PYTHONPATH"].split(os.pathsep) if path)  # noqa: PTH100 - links stay
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **told}
