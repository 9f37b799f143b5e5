"""Runs dbt's commands, one after the other, on a copy of a project of the workspace.

dbt is a library of the cluster. Its profile is made for the task's warehouse, in a file outside the project that only its user
reads. Without a warehouse it is the project's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PROFILE = re.compile(r"^profile:\s*['\"]?([^'\"#\n]+?)['\"]?\s*(?:#.*)?$", re.MULTILINE)
_DBT = "import sys; from dbt.cli.main import cli; sys.argv[0] = 'dbt'; cli()"
_REACH_S = 10.0
_STOP_S = 5.0


class DbtFailed(Exception):
    """dbt cannot run here, or one of its commands has failed; the message says why."""


def run_dbt(task: dict[str, Any], project: Path, directory: Path) -> None:
    """Runs a task's commands on a copy of `project` below `directory`. Raises DbtFailed."""
    if find_spec("dbt") is None:
        raise DbtFailed("dbt is not installed on this cluster. Add dbt-databricks to the task's libraries.")
    config = project / "dbt_project.yml"
    if not config.is_file():
        raise DbtFailed(f"There is no dbt_project.yml in {project}.")
    copy = directory / "dbt" / "project"
    profiles = copy / str(task["profiles"]) if "profiles" in task else directory / "dbt" / "profiles"
    if "profiles" in task:
        if not (project / str(task["profiles"]) / "profiles.yml").is_file():
            raise DbtFailed(f"There is no profiles.yml in {project / str(task['profiles'])}. Add one, or give warehouse_id.")
    else:
        named = _PROFILE.search(config.read_text(encoding="utf-8"))
        if named is None:
            raise DbtFailed("dbt_project.yml names no profile. Add a line such as: profile: databricks")
        _check_reach(str(task["url"]))
        profiles.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_profile(profiles / "profiles.yml", named.group(1), task["profile"])
    shutil.rmtree(str(copy), ignore_errors=True)
    shutil.copytree(str(project), str(copy))
    environment = {
        **os.environ,
        "DBT_PROFILES_DIR": str(profiles),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_USE_COLORS": "false",
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        "PYTHONUNBUFFERED": "1",
    }
    for command in task["commands"]:
        print(f"$ dbt {' '.join(command)}", flush=True)
        if status := _run(command, copy, environment):
            raise DbtFailed(f"dbt {' '.join(command)} has failed with exit status {status}. See the output.")


def _run(command: Sequence[str], directory: Path, environment: dict[str, str]) -> int:
    program = subprocess.Popen(
        [sys.executable, "-c", _DBT, *command],
        cwd=str(directory),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        for line in program.stdout or ():
            print(line, end="", flush=True)
        return program.wait()
    finally:
        if program.poll() is None:  # the task is stopped
            program.terminate()
            try:
                program.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                program.kill()


def _write_profile(file: Path, name: str, output: dict[str, Any]) -> None:
    """Writes a profile as JSON, which is YAML too."""
    file.touch(mode=0o600)
    file.write_text(json.dumps({name: {"target": "databricks", "outputs": {"databricks": output}}}), encoding="utf-8")


def _check_reach(url: str) -> None:
    """Raises DbtFailed if this node does not reach the workspace."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=_REACH_S):  # noqa: S310 - the workspace's own URL
            return
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError) as error:
        raise DbtFailed(
            f"This cluster does not reach the workspace at {url}: {error}. An administrator has to list its address in the"
            " setting network_allow, or to set public_url."
        ) from None
