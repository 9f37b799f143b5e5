"""`brickyard doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from brickyard.cli.options import place, settings
from brickyard.cli.up import isolation_here
from brickyard.config import Settings
from brickyard.lifecycle.packageindex import uv_environment
from brickyard.lifecycle.workspace import Workspace


class Finding(NamedTuple):
    """One check: "ok", "note" (works without it) or "broken", and a sentence that says what to do."""

    name: str
    state: str
    text: str


@click.command("doctor")
@place
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Check Python, Java, disk, port, package index, GPU and isolation. Exit code 1 when something needed is broken."""
    chosen = settings(config_file, **options)
    findings = [
        _python(),
        _java(),
        _disk("data directory", chosen.data_dir, 1_000),
        _disk("cache directory", chosen.cache_dir, 1_500),
        _port(chosen),
        _index(),
        _gpu(),
        _isolation(chosen),
        _cgroups(),
    ]
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.state:7} {finding.name:16} {finding.text}")
    sys.exit(any(finding.state == "broken" for finding in findings))


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _java() -> Finding:
    from brickyard.runtime import catalogue, java  # noqa: PLC0415 - with this command only

    found = java.find(catalogue.default().java)
    if found:
        return Finding("Java", "ok", f"{found.version} at {found.home}")
    return Finding("Java", "ok", "none that suits; each runtime brings one")


def _disk(name: str, path: Path, needed_mb: int) -> Finding:
    there = next(each for each in (path, *path.parents) if each.exists())
    free = shutil.disk_usage(there).free // 2**20
    if not os.access(there, os.W_OK):
        return Finding(name, "broken", f"{path} cannot be written. Fix its owner, or choose another.")
    if free < needed_mb:
        return Finding(name, "broken", f"{path} has {free} MB free; {needed_mb} MB are needed. Free space, or choose another.")
    return Finding(name, "ok", f"{path}, {free // 1024} GiB free")


def _port(chosen: Settings) -> Finding:
    running = Workspace(chosen.data_dir).running()
    if running:
        return Finding("port", "ok", f"a server runs: process {running.pid} at {running.url}")
    with socket.socket(socket.AF_INET6 if ":" in chosen.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((chosen.host, chosen.port))
        except OSError as error:
            return Finding("port", "broken", f"{chosen.host}:{chosen.port}: {error.strerror}. Choose another with --port.")
    return Finding("port", "ok", f"{chosen.host}:{chosen.port} is free")


def _index() -> Finding:
    from brickyard.runtime.python import PythonMissing, uv_binary  # noqa: PLC0415 - with this command only

    try:
        uv = uv_binary()
    except PythonMissing as error:
        return Finding("package index", "broken", str(error))
    asked = subprocess.run(
        [uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "-"],
        input="pyspark", text=True, capture_output=True, check=False, timeout=120,
        env={**os.environ, **uv_environment(os.environ)},
    )  # fmt: skip
    if asked.returncode == 0:
        return Finding("package index", "ok", "reached; runtimes can be installed")
    return Finding(
        "package index",
        "note",
        "not reached: new runtimes cannot be installed. Check the network and pip's index.",
    )


def _gpu() -> Finding:
    from brickyard.providers.nodetypes import gpus_here  # noqa: PLC0415 - with this command only

    count, model = gpus_here()
    return Finding("GPU", "ok", f"{count} x {model}" if count else "none; GPU node types are not offered")


def _isolation(chosen: Settings) -> Finding:
    if chosen.isolation == "off":
        return Finding("isolation", "note", "switched off: code on clusters can read whatever this user can")
    kind, reason = isolation_here()
    if kind != "none":
        return Finding("isolation", "ok", f"clusters run in {kind}")
    state = "broken" if chosen.isolation == "required" else "note"
    return Finding("isolation", state, f"clusters are not isolated: {reason} Allow user namespaces, or install bubblewrap.")


def _cgroups() -> Finding:
    writable = any(os.access(path, os.W_OK) for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"))
    if writable:
        return Finding("control groups", "ok", "can be written: nodes have memory and process limits")
    return Finding("control groups", "note", "cannot be written: nodes share the machine without limits")
