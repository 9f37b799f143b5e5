"""`brickyard status`: shows what is running."""

from __future__ import annotations

import functools
import json
import sys
import urllib.error
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard import __version__
from brickyard.cli import CliError, as_called, printable
from brickyard.cli.client import serving
from brickyard.cli.http import get
from brickyard.cli.options import found_by, json_option, place, settings
from brickyard.config.load import file_of
from brickyard.config.providernames import listed
from brickyard.config.settings import Settings
from brickyard.sandbox.probe import allowed_here, network_text
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.server.messages import files_removed

if TYPE_CHECKING:
    from rich.console import Console

NOT_RUNNING = 3
PATIENCE_S = 20.0
PLAIN_WIDTH = 160  # columns if the output is not a terminal: a program cannot use a truncated cluster id
MESSAGE_WIDTH = 110  # with fewer columns, messages go on a line below the table instead of in a column
_FOUND = ("isolation", "isolation_found", "network_found")  # of what the server announces: shown in other words
POOL_COUNTS = ("idle", "used", "pending_idle", "pending_used")
SWITCHED_OFF = "none: switched off"
ELSEWHERE = "as each node's machine allows"
NETWORK_ELSEWHERE = "shared with their machines; what passes between machines is encrypted"
SIMULATED = "none: simulated nodes run no code"


@click.command("status")
@place
@json_option
def command(as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the server, the isolation of clusters, installed runtimes, clusters with their nodes, and pools.

    Exit code 3: no server runs."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    running = workspace.running()
    if running is None and (removed := workspace.removed()) is not None:
        raise CliError(files_removed(chosen.data_dir, removed))
    if running is None and not as_json:
        found = found_by(config_file, **options)
        click.echo(as_called(f"No server runs on {chosen.data_dir} (chosen {found}). Start one with `brickyard up`."))
        sys.exit(NOT_RUNNING)
    about = running.about if running else {}  # what the server reports: its settings count, not those of this command
    report: dict[str, Any] = {
        "version": __version__,
        "data_dir": str(chosen.data_dir),
        "found": found_by(config_file, **options),
        "config": str(file_of(config_file) or ""),
        "running": running is not None,
        "isolation": _isolation(about, chosen),
        "network": _network(about, chosen),
        "runtimes": _runtimes(Path(about.get("cache_dir") or chosen.cache_dir)),
    }
    if running is not None:
        try:
            report |= _of_the_server(workspace)
        except WorkspaceError as error:
            raise CliError(str(error)) from error
    click.echo(json.dumps(report, indent=2)) if as_json else _show(report)
    if running is None:
        sys.exit(NOT_RUNNING)


def _network(about: dict[str, str], chosen: Settings) -> str:
    """The network of clusters: the machine's, or a separate one for each. Found like `_isolation`."""
    if _only_simulated(about, chosen):
        return SIMULATED
    if about.get("isolation", chosen.isolation) == "off":
        return "shared: isolation is switched off"
    return about.get("network_found") or network_text(_here().network, network=chosen.network, internet=chosen.internet)


def _isolation(about: dict[str, str], chosen: Settings) -> str:
    """How clusters are isolated: as the server found, or, if it has not checked yet or none runs, as this command finds."""
    if _only_simulated(about, chosen):
        return SIMULATED
    if about.get("isolation", chosen.isolation) == "off":
        return SWITCHED_OFF
    return about.get("isolation_found") or _here().text


def _only_simulated(about: dict[str, str], chosen: Settings) -> bool:
    return set(listed(about.get("provider", chosen.provider))) == {"simulated"}


_here = functools.cache(allowed_here)  # another Python: only where no server has told


def _runtimes(cache_dir: Path) -> list[dict[str, str]]:
    """The installed runtimes, oldest first."""
    from brickyard.runtime import catalogue  # noqa: PLC0415 - `--help` needs none of it
    from brickyard.runtime.installed import installed  # noqa: PLC0415 - as above

    there = {row.environment: installed(row.environment, cache_dir) for row in catalogue.rows()}
    return [{"key": row.key, "spark_version": row.spark_version} for row in catalogue.rows() if there[row.environment]]


def _of_the_server(workspace: Workspace) -> dict[str, Any]:
    running = serving(workspace)
    said = {name: value for name, value in running.about.items() if name not in _FOUND}
    found: dict[str, Any] = {"pid": running.pid, "url": running.url, **said, "client_url": running.client_url}
    measures = _measures(_ask(f"{running.url}/metrics", ""))
    machine = json.loads(_ask(f"{running.url}/api/2.1/machine", workspace.stored_token()))
    found["providers"] = [_provider(each, machine["nodes"]) for each in machine["providers"]]
    if all(each["where"] == "elsewhere" for each in found["providers"] if each["configured"]):
        found |= {"isolation": ELSEWHERE, "network": NETWORK_ELSEWHERE}
    found["capacity"] = found["providers"][0]["capacity"]
    found["servers"] = int(measures.get('brickyard_servers{state="serving"}', 1))
    found["disk"] = {
        name: measures.get(f"brickyard_{name}_bytes", 0.0) for name in ("disk_size", "disk_free", "dbfs", "dbfs_limit")
    }
    found["inodes"] = {name: int(measures.get(f"brickyard_disk_{name}", 0)) for name in ("inodes", "free_inodes")}
    found["clusters"] = clusters = [_cluster(each) for each in _clusters(running.url, workspace.stored_token())]
    found["nodes"] = sum(each["nodes"] for each in clusters)
    pools = json.loads(_ask(f"{running.url}/api/2.0/instance-pools/list", workspace.stored_token()))
    found["instance_pools"] = [_pool(each) for each in pools.get("instance_pools", [])]
    return found


def _clusters(url: str, token: str) -> list[dict[str, Any]]:
    found, page = [], ""
    while True:
        answer = json.loads(_ask(f"{url}/api/2.1/clusters/list?page_size=100&page_token={page}", token))
        found += answer.get("clusters", [])
        page = answer.get("next_page_token", "")
        if not page:
            return found


def _ask(url: str, token: str) -> str:
    try:
        return get(url, token=token, timeout_s=PATIENCE_S)
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")[:300]
        raise CliError(f"{url} answers {error.code}: {said}. If its token was changed, start it again.") from error
    except OSError as error:
        raise CliError(f"{url} does not answer: {error}. Its log says why; `brickyard down` stops it.") from error


def _measures(text: str) -> dict[str, float]:
    """Parses the part of Prometheus' text format that is needed: name with labels -> value."""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def _cluster(view: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster_id": view["cluster_id"],
        "cluster_name": view.get("cluster_name", ""),
        "state": view.get("state"),
        "nodes": len(view.get("executors") or []) + ("driver" in view),
        "cores": view.get("cluster_cores", 0),
        "memory_mb": view.get("cluster_memory_mb", 0),
        "state_message": view.get("state_message", ""),
    }


def _provider(view: dict[str, Any], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    room = view["room"] or {}
    return {
        "name": view["name"],
        "where": view["where"],
        "trouble": view["trouble"],
        "isolation": Counter(each["isolation"] for each in nodes if each["provider"] == view["name"] and each["isolation"]),
        "configured": view["configured"],
        "node_types": view["node_types"],
        "hidden_node_types": {each["node_type_id"]: each["provider"] for each in view["hidden_node_types"]},
        "nodes": view["nodes"],
        "capacity": {
            name: {"total": room[f"{name}_total"], "left": room[f"{name}_left"]} for name in ("cores", "memory_mb") if room
        },
    }


def _pool(view: dict[str, Any]) -> dict[str, Any]:
    errors = view.get("status", {}).get("pending_instance_errors") or [{}]
    return {
        "instance_pool_id": view["instance_pool_id"],
        "instance_pool_name": view["instance_pool_name"],
        "node_type_id": view["node_type_id"],
        "preloaded_spark_versions": view.get("preloaded_spark_versions") or [],
        **{f"{name}_count": view["stats"].get(f"{name}_count", 0) for name in POOL_COUNTS},
        "max_capacity": view.get("max_capacity"),
        "message": errors[0].get("message", ""),
    }


def _show(report: dict[str, Any]) -> None:
    sparks = dict.fromkeys(each["spark_version"] for each in report["runtimes"])
    click.echo(f"Brickyard {report['version']} at {report['url']} (process {report['pid']})")
    if report["client_url"] != report["url"]:
        click.echo(f"Address for people and clients: {report['client_url']}")
    click.echo(f"Data in {report['data_dir']} (chosen {report['found']}), runtimes in {report.get('cache_dir', 'another place')}")
    if report["config"]:
        click.echo(f"Settings of this command from {report['config']}")
    click.echo(f"Provider: {report.get('provider', 'unknown').replace(',', ', ')}; isolation of clusters: {report['isolation']}")
    if report["servers"] > 1:
        click.echo(f"Servers of this workspace: {report['servers']}")
    click.echo(f"Network of clusters: {report['network']}")
    click.echo(
        f"Installed runtimes: {', '.join(f'Spark {each}' for each in sparks) or 'none yet; the first cluster installs one'}"
    )
    for each in report["providers"]:
        for line in _provider_lines(each, alone=len(report["providers"]) == 1):
            click.echo(line)
    disk = {name: value / 2**30 for name, value in report["disk"].items()}
    inodes = report["inodes"]
    files = f", {inodes['free_inodes']:,} of {inodes['inodes']:,} inodes" if inodes["inodes"] else ""
    click.echo(
        f"Disk: {disk['disk_free']:.1f} of {disk['disk_size']:.1f} GiB{files} free; dbfs:/ uses {disk['dbfs']:.1f} of at most "
        f"{disk['dbfs_limit']:.1f} GiB"
    )
    states = Counter(each["state"] for each in report["clusters"])
    counts = ", ".join(f"{number} {state}" for state, number in states.most_common())
    click.echo(f"Clusters: {len(report['clusters'])}{f' ({counts})' if counts else ''}; nodes: {report['nodes']}")
    if report["clusters"]:
        draw_clusters(report["clusters"])
    if report["instance_pools"]:
        _pool_table(report["instance_pools"])


def _provider_lines(provider: dict[str, Any], *, alone: bool) -> list[str]:
    """What there is to say of one provider: its room, and what is unusual about it."""
    name, nodes = printable(provider["name"]), provider["nodes"]
    if not provider["configured"]:
        are = "is" if nodes == 1 else "are"
        return [
            f"Provider {name} is not in the settings, and {nodes} of its nodes {are} on record: they go on until they are not "
            "wanted any more, and none is replaced. Name it in provider again to manage them."
        ]
    lines = []
    if provider["trouble"]:
        lines.append(
            f"Provider {name} does not answer: {printable(provider['trouble'])}. Its nodes go on; none is launched or ended "
            "until it does."
        )
    if provider["where"] == "elsewhere" and provider["isolation"]:
        kinds = (f"{printable(kind)} ({number})" for kind, number in provider["isolation"].most_common())
        lines.append(f"Isolation on nodes of {name}: {', '.join(kinds)}")
    if capacity := provider["capacity"]:
        cores, memory = capacity["cores"], capacity["memory_mb"]
        lines.append(
            f"Room for nodes{'' if alone else f' of {name}'}: {cores['left']:.0f} of {cores['total']:.0f} cores, "
            f"{memory['left'] / 1024:.0f} of {memory['total'] / 1024:.0f} GiB left"
        )
    elif not alone:
        lines.append(f"Room for nodes of {name}: it does not say")
    for by in sorted(set(provider["hidden_node_types"].values())):
        hidden = sorted(each for each, first in provider["hidden_node_types"].items() if first == by)
        more = f" and {len(hidden) - 5} more" if len(hidden) > 5 else ""
        names = ", ".join(hidden[:5])
        lines.append(f"Node types {names}{more} of provider {name} are hidden, because {printable(by)} offers them too")
    return lines


def _pool_table(pools: list[dict[str, Any]]) -> None:
    from rich.table import Table  # noqa: PLC0415 - only where a table is drawn

    table = Table()
    for name in ("Instance pool", "Name", "Node type", "Preloads"):
        table.add_column(name, no_wrap=name == "Instance pool", overflow="fold")
    for name in (*(count.replace("_", " ").capitalize() for count in POOL_COUNTS), "Limit"):
        table.add_column(name, justify="right")
    table.add_column("Message", overflow="fold")
    for each in pools:
        numbers = (str(each[f"{name}_count"]) for name in POOL_COUNTS)
        names = (each["instance_pool_id"], printable(each["instance_pool_name"]), each["node_type_id"])
        limit = "none" if each["max_capacity"] is None else str(each["max_capacity"])
        table.add_row(*names, ", ".join(each["preloaded_spark_versions"]), *numbers, limit, printable(each["message"]))
    _console().print(table)


def draw_clusters(clusters: list[dict[str, Any]]) -> None:
    """A table of clusters with their messages, as wide as the terminal."""
    from rich.table import Table  # noqa: PLC0415 - only where a table is drawn

    console = _console()
    wide = console.width >= MESSAGE_WIDTH
    table = Table()
    for name in ("Cluster", "Name", "State"):
        table.add_column(name, no_wrap=name != "Name", overflow="fold")
    for name in ("Nodes", "Cores", "GiB"):
        table.add_column(name, justify="right")
    if wide:
        table.add_column("Message", overflow="fold")
    messages = {each["cluster_id"]: printable((each["state_message"].splitlines() or [""])[0]) for each in clusters}
    for each in clusters:
        sizes = (str(each["nodes"]), f"{each['cores']:g}", f"{each['memory_mb'] / 1024:g}") if each["nodes"] else ("", "", "")
        row = (each["cluster_id"], printable(each["cluster_name"]), each["state"], *sizes)
        table.add_row(*row, *((messages[each["cluster_id"]],) if wide else ()))
    console.print(table)
    if not wide:
        for cluster_id, message in messages.items():
            if message:
                click.echo(f"{cluster_id}: {message}")


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 - only where a table is drawn

    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=PLAIN_WIDTH)
