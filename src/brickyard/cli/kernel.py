"""`brickyard kernel`: clusters as JupyterLab kernels."""

from __future__ import annotations

import os
from pathlib import Path

import click

from brickyard.cli import CliError
from brickyard.cli.configure import profile_to_use
from brickyard.machine.installing import command as installing


@click.group("kernel")
def command() -> None:
    """Offer clusters to JupyterLab as kernels (docs/jupyter.md)."""


@command.command("install")
@click.argument("cluster")
@click.option("--profile", help="Profile of the workspace: by default the one that `brickyard configure` wrote.")
def install(cluster: str, profile: str | None) -> None:
    """Offer CLUSTER, an id or a name, as a kernel. Notebooks then run their cells in a context there."""
    profile = profile or profile_to_use()
    try:
        import ipykernel  # noqa: F401, PLC0415 - an extra
        from jupyter_core.paths import jupyter_data_dir  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise CliError(f"{error.name} is missing. Install it: {installing('ipykernel>=7,<8')}") from error
    from databricks.sdk import WorkspaceClient  # noqa: PLC0415 - half a second of imports
    from databricks.sdk.errors.base import DatabricksError  # noqa: PLC0415 - as above

    from brickyard.jupyter import kernelspec  # noqa: PLC0415 - only here

    try:
        client = WorkspaceClient(profile=profile)
        found = [each for each in client.clusters.list() if cluster in (each.cluster_id, each.cluster_name)]
    except (DatabricksError, ValueError, OSError) as error:
        raise CliError(
            f"profile {profile} does not point to a workspace: {error}. Write one with `brickyard configure`."
        ) from error
    found = [each for each in found if each.cluster_id == cluster] or found
    if len(found) != 1:
        how = "no cluster has" if not found else f"{len(found)} clusters have"
        raise CliError(f"{how} the id or name {cluster!r}. Give the id of one (brickyard status lists them).")
    config_file = os.environ.get("DATABRICKS_CONFIG_FILE", "")
    wanted = kernelspec.specification(
        cluster_id=str(found[0].cluster_id), cluster_name=found[0].cluster_name or "", profile=profile,
        config_file=str(Path(config_file).expanduser().resolve()) if config_file else "",
    )  # fmt: skip
    try:
        place = kernelspec.install(Path(jupyter_data_dir()) / "kernels", str(found[0].cluster_id), wanted)
    except OSError as error:
        raise CliError(f"cannot write the kernel to {jupyter_data_dir()}: {error.strerror}. Fix its owner.") from error
    click.echo(f"JupyterLab offers it as {wanted['display_name']!r} ({place}).")
    click.echo(f"Remove it with: jupyter kernelspec remove {place.name}")
