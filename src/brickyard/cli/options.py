"""Options shared by several commands, and the settings derived from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from brickyard.cli import CliError
from brickyard.config.load import load, source
from brickyard.config.settings import ConfigError, Settings

F = TypeVar("F", bound=Callable[..., Any])


def place(function: F) -> F:
    """--data-dir, --cache-dir and --config: the location of a workspace."""
    for option in (
        click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML file with settings."),
        click.option("--cache-dir", type=click.Path(path_type=Path), help="Where Spark runtimes are kept."),
        click.option("--storage-url", help="Directory of the workspace's files; by default the data directory."),
        click.option("--data-dir", type=click.Path(path_type=Path), help="Directory for the server's data."),
    ):
        function = option(function)
    return function


def serving(function: F) -> F:
    """All other settings, which `up` and `quickstart` pass to the server that they start (docs/configuration.md)."""
    for option in (
        click.option("--log-format", help="console or json."),
        click.option("--log-level", help="debug, info, warning or error."),
        click.option("--keep-nodes", is_flag=True, default=None, help="Leave nodes running when the server stops."),
        click.option("--ends-with", type=int, help="Process id: the server stops when that process ends."),
        click.option("--default-runtime", help="Default runtime key for `quickstart` and `runtime install`."),
        click.option(
            "--task-files-dir",
            type=click.Path(path_type=Path),
            help="Directory of Python files that tasks may run (file:/...).",
        ),
        click.option("--node-prices", type=click.Path(path_type=Path), help="TOML file with prices per hour of node types."),
        click.option(
            "--policy-checks",
            help="When a cluster policy with mistakes is refused: strict (when it is saved), or lax (when it is used).",
        ),
        click.option("--max-nodes", type=int, help="The most workers of one cluster, and instances of one instance pool."),
        click.option("--photon", help="What a cluster that asks for Photon gets: refuse (an error), or standard."),
        click.option(
            "--autoscale-down-after-s", type=float, help="Idle seconds after which a worker leaves an autoscaling cluster."
        ),
        click.option(
            "--autoscale-up-after-s", type=float, help="Seconds of waiting tasks after which an autoscaling cluster grows."
        ),
        click.option("--log-days", type=float, help="Days after which the logs that nodes leave are removed."),
        click.option("--log-delivery-s", type=float, help="Seconds between two deliveries of a cluster's logs."),
        click.option("--launch-timeout-s", type=float, help="Seconds that a cluster may take to start."),
        click.option("--init-script-timeout-s", type=float, help="Seconds that each init script may run."),
        click.option(
            "--driver-give-up-s", type=float, help="Seconds without an answer from a driver's Spark after which its cluster ends."
        ),
        click.option(
            "--spark-silence-s", type=float, help="Seconds without an answer after which a node's Spark is considered hung."
        ),
        click.option("--agent-silence-s", type=float, help="Seconds of silence after which a node is considered lost."),
        click.option("--orphan-grace-s", type=float, help="Seconds without a server after which nodes end themselves."),
        click.option("--dbfs-gb", type=float, help="Limit for the workspace's files, in GiB."),
        click.option("--snapshot-gb", type=float, help="Limit for the files in one snapshot of a workspace directory, in GiB."),
        click.option("--snapshots-gb", type=float, help="Limit for all snapshots together, compressed, in GiB."),
        click.option("--snapshot-days", type=float, help="Days after which snapshots are removed; 0: never."),
        click.option("--node-disk-gb", type=float, help="Limit for the files of one node, in GiB."),
        click.option("--memory-guard-share", type=float, help="Share of its memory below which a node is not ended for others."),
        click.option("--min-free-disk-gb", type=float, help="GiB of the storage's disk to keep free."),
        click.option("--memory-overcommit", type=float, help="Memory offered, as a multiple of this machine's memory."),
        click.option("--cpu-overcommit", type=float, help="Cores offered, as a multiple of this machine's cores."),
        click.option("--admin-user", help="The first administrator's name."),
        click.option("--admin-token", help="The first administrator's token (better: BRICKYARD_ADMIN_TOKEN)."),
        click.option("--encryption-key", help="Key that encrypts secrets, 64 hex digits (better: BRICKYARD_ENCRYPTION_KEY)."),
        click.option("--isolation", help="auto, required or off."),
        click.option(
            "--network-allow", help="ADDRESS:PORT of this machine that isolated clusters can reach anyway, comma-separated."
        ),
        click.option(
            "--internet/--no-internet", default=None, help="Whether clusters with their own networks can reach other networks."
        ),
        click.option(
            "--machine-credentials/--no-machine-credentials",
            default=None,
            help="Whether object stores get the machine's own credentials where a cluster has none.",
        ),
        click.option(
            "--machine-credentials-endpoints",
            help="URLs that a user may name as an object store and that get these credentials all the same, comma-separated.",
        ),
        click.option(
            "--background-training/--no-background-training",
            default=None,
            help="Whether installed runtimes are trained while the machine has nothing else to do.",
        ),
        click.option("--port-addresses", help="Addresses besides loopback for tcp port mappings, comma-separated."),
        click.option("--network", help="auto, isolated or shared: whether every cluster has its own network."),
        click.option("--database-url", help="postgresql://...; by default SQLite in the data directory."),
        click.option("--database-wait-s", type=float, help="Seconds that a start waits for the database's address."),
        click.option(
            "--simulated-knobs",
            type=click.Path(path_type=Path),
            help="TOML file that defines how the simulated provider's nodes behave.",
        ),
        click.option(
            "--provider",
            help="Where nodes run: local, ray, slurm, simulated (they compute nothing, for tests), or another installed one. "
            "Several, separated by commas: the first is the default.",
        ),
        click.option(
            "--agent-ca",
            type=click.Path(path_type=Path),
            help="PEM certificates that nodes on other machines trust, where a proxy has the server's certificate.",
        ),
        click.option(
            "--agent-port",
            type=int,
            help="TLS port for nodes on other machines; by default that of --public-url. 0: a proxy has it.",
        ),
        click.option("--public-url", help="http://HOST:PORT of this server that nodes on other machines call."),
        click.option("--host-names", help="Names by which clients call the workspace, comma-separated (default: any)."),
        click.option("--tls-self-signed", is_flag=True, default=None, help="Create a certificate for the Spark Connect port."),
        click.option("--tls-key", type=click.Path(path_type=Path), help="Key of --tls-cert, PEM."),
        click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate of the Spark Connect port, PEM."),
        click.option(
            "--connect-start-clusters",
            is_flag=True,
            default=None,
            help="Start a terminated cluster when a client connects to it.",
        ),
        click.option("--rate-limits", help="Limits of calls a second, like dbfs=100,*=50, or off (docs/clients.md)."),
        click.option("--audit-log-days", type=float, help="How long entries of the audit log are kept (default 365)."),
        click.option("--metrics-token", help="Token that /metrics requires (better: BRICKYARD_METRICS_TOKEN)."),
        click.option("--oidc-groups", help="VALUE=GROUP, comma-separated: the provider's groups, and the workspace's."),
        click.option("--oidc-groups-claim", help="Claim with the provider's groups (default groups)."),
        click.option("--oidc-single-log-out", is_flag=True, default=None, help="Log out at the provider as well."),
        click.option("--oidc-create-users", is_flag=True, default=None, help="Create users at their first log-in."),
        click.option("--oidc-domains", help="Domains of user names that may log in with the provider, comma-separated."),
        click.option("--oidc-user-claim", help="Claim that is the user's name (default email)."),
        click.option("--oidc-scopes", help="Scopes to ask the provider for (default: openid profile email)."),
        click.option("--oidc-name", help="Name of the provider on the log-in page."),
        click.option("--oidc-client-secret", help="Client secret at the provider (better: BRICKYARD_OIDC_CLIENT_SECRET)."),
        click.option("--oidc-client-id", help="Client id at the provider."),
        click.option("--oidc-issuer", help="Issuer URL of an external OpenID Connect provider that people log in with."),
        click.option("--session-lifetime-s", type=float, help="Seconds after which every browser session ends."),
        click.option("--session-idle-s", type=float, help="Seconds without use after which a browser session ends."),
        click.option("--trusted-proxies", help="Comma-separated addresses of proxies whose X-Forwarded-* headers are trusted."),
        click.option("--connect-port", type=int, help="Port for Spark Connect (15002); 0 disables it."),
        click.option("--port", type=int, help="Port to listen on; 0 picks a free one."),
        click.option("--host", help="Address to listen on."),
    ):
        function = option(function)
    return function


def settings(config_file: Path | None, **options: Any) -> Settings:
    """The settings merged from all sources. Raises CliError."""
    try:
        chosen = load(config_file=config_file, options=options)
    except ConfigError as error:
        raise CliError(str(error)) from error
    if chosen.default_runtime:
        from brickyard.runtime.catalogue import find, unknown  # noqa: PLC0415 - rarely needed

        if find(chosen.default_runtime) is None:
            where = source("default_runtime", config_file=config_file, options=options)
            raise CliError(f"{where}: {unknown(chosen.default_runtime)}")
    return chosen


def found_by(config_file: Path | None, **options: Any) -> str:
    """Says how the data directory, and so the server, was chosen: words to follow the directory's name in a message."""
    return f"by {source('data_dir', config_file=config_file, options=options)}"
