"""`brickyard runtime`: Spark runtimes of this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, as_called
from brickyard.cli.options import json_option, place, settings
from brickyard.cli.progress import installing
from brickyard.cli.runtimetransfer import export_runtimes, import_runtimes
from brickyard.domain.runtimes import Runtime, RuntimeManifest
from brickyard.runtime import catalogue, installer
from brickyard.runtime.installed import installed, runtime_home
from brickyard.runtime.inuse import RuntimeInUse
from brickyard.runtime.layers import last_failure as last_failure_of
from brickyard.runtime.layers import missing, with_layers
from brickyard.runtime.layerwork import install_layers
from brickyard.runtime.packages import NoRuntime, PackagesFailed, install_packages, is_missing, read_state
from brickyard.runtime.training import NothingToTrain, TrainingFailed, is_trained, last_failure, train

UNTRAINED = 4  # exit code


class Untrained(CliError):
    """The runtime is installed, and its training has failed."""

    exit_code = UNTRAINED


@click.group("runtime")
def command() -> None:
    """Install, train, list and remove Spark runtimes."""


@command.command("list")
@json_option
@place
def list_runtimes(*, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the available runtimes."""
    cache = settings(config_file, **options).cache_dir
    if as_json:
        click.echo(
            json.dumps([_described(each, installed(each.environment, cache), cache) for each in catalogue.rows()], indent=2)
        )
        return
    width = max(len(each.key) for each in catalogue.rows())
    manifests = {environment: installed(environment, cache) for environment in {each.environment for each in catalogue.rows()}}
    for runtime in catalogue.rows():
        title = runtime.name.replace("includes Apache ", "")  # a terminal has 80 columns
        click.echo(f"{runtime.key:{width}}  {'installed' if manifests[runtime.environment] else '':9}  {title}")
    _tell_lacking(manifests, cache)


def _tell_lacking(manifests: Mapping[str, RuntimeManifest | None], cache: Path) -> None:
    """What installed runtimes do not have, or not yet. `manifests`: by environment."""
    runtimes = [each for each in catalogue.rows() if not each.photon]  # with Photon it is the same installation
    there = [(each, manifest) for each in runtimes if (manifest := manifests[each.environment]) is not None]
    if without := [each.key for each, manifest in there if not manifest.has_connect]:
        click.echo(f"Installed without Spark Connect: {', '.join(without)}.")
    if lacking := [each for each in runtimes if is_missing(each.environment, cache)]:
        click.echo(f"Without the packages of docs/packages.md yet: {', '.join(each.key for each in lacking)}.")
        for environment in {each.environment: each for each in lacking}:
            state = read_state(runtime_home(environment, cache))
            if state is not None and state.state == "failed":
                click.echo(f"  the last installation in {environment} failed: {state.message}")
    for environment in {each.environment: each for each in runtimes}:
        _tell_missing(environment, cache)
    if slower := [each for each, manifest in there if not is_trained(manifest)]:
        click.echo(f"Not trained yet, so starts are slower: {', '.join(each.key for each in slower)}.")
        for environment in {each.environment: each for each in slower}:
            if (failure := last_failure(environment, cache)) is not None:
                click.echo(f"  the last training in {environment} failed: {failure.message}")
        now = as_called("`brickyard runtime train KEY` does so now")
        click.echo(f"A server trains them when the machine has nothing else to do; {now}.")


def _tell_missing(environment: str, cache: Path) -> None:
    for layer in missing(environment, cache):
        failure = last_failure_of(layer, environment, cache)
        click.echo(f"Without {layer.title} in {environment} yet{f': {failure.message}' if failure else '.'}")


def _described(runtime: Runtime, manifest: RuntimeManifest | None, cache: Path) -> dict[str, Any]:
    found = {"key": runtime.key, "name": runtime.name, "installed": manifest is not None}
    if manifest is None:
        return found
    packages = not is_missing(runtime.environment, cache)
    return {
        **found,
        "home": str(manifest.home),
        "trained": is_trained(manifest),
        "connect": manifest.has_connect,
        "packages": packages,
        "layers": sorted(with_layers(manifest, runtime.key).layers),
    }


@command.command("install")
@click.argument("key", default="")
@click.option(
    "--training/--no-training",
    default=True,
    show_default=True,
    help="Also run Spark once, so that later starts are faster. A server does it later, in the background.",
)
@click.option(
    "--packages/--no-packages",
    default=True,
    show_default=True,
    help="Also install what notebooks usually import (docs/packages.md). A server does it later, in the background.",
)
@click.option(
    "--layers/--no-layers",
    default=True,
    show_default=True,
    help="Also install Delta Lake, where it suits (docs/tables.md). A server does it later, in the background.",
)
@place
def install(key: str, training: bool, packages: bool, layers: bool, config_file: Path | None, **options: Any) -> None:
    """Install the runtime KEY (by default the newest LTS on Spark 4), and train it. Exit code 4: it is installed, but its
    training has failed."""
    chosen = settings(config_file, **options)
    runtime = _find(key or chosen.default_runtime)
    try:
        with installing() as progress:
            manifest = installer.install(runtime, cache_dir=chosen.cache_dir, progress=progress)
    except installer.InstallError as error:
        raise CliError(
            f"{runtime.key} cannot be installed: {error}\nSee what `brickyard doctor` says about the package index and the disk, "
            "then run it again."
        ) from error
    click.echo(f"{runtime.key} is installed in {manifest.home}.")
    again = f"To try again: brickyard runtime remove {runtime.key}, and install it again."
    if not manifest.has_connect:
        click.echo(f"It has no Spark Connect server: {manifest.connect_missing or 'it was not searched for'}. {again}")
    if runtime.iceberg and not manifest.has_iceberg:
        click.echo(f"It has no Iceberg tables: {manifest.iceberg_missing or 'Iceberg was not searched for'}. {again}")
    if layers:
        _layers(runtime, chosen.cache_dir)
    if packages:
        _packages(runtime, chosen.cache_dir)
    if training and not is_trained(manifest):
        _train(runtime, chosen.cache_dir)


@command.command("train")
@click.argument("key", default="")
@place
def train_runtime(key: str, config_file: Path | None, **options: Any) -> None:
    """Run the Spark of the installed runtime KEY once, so that later starts are faster."""
    chosen = settings(config_file, **options)
    _train(_find(key or chosen.default_runtime), chosen.cache_dir)


def _layers(runtime: Runtime, cache_dir: Path) -> None:
    """A runtime works without them: what failed is told, and a server tries again."""
    try:
        problems = install_layers(runtime.environment, cache_dir=cache_dir, progress=lambda text: click.echo(f"{text}."))
    except NoRuntime:  # removed meanwhile
        return
    for problem in problems:
        click.echo(f"Going on without it: {problem}", err=True)


def _packages(runtime: Runtime, cache_dir: Path) -> None:
    """A runtime works without them: what failed is told, and a server tries again."""
    if is_missing(runtime.environment, cache_dir):
        click.echo("Installing what notebooks usually import.")
    try:
        install_packages(runtime.environment, cache_dir=cache_dir)
    except (PackagesFailed, NoRuntime) as error:
        click.echo(f"Going on without the packages of docs/packages.md: {error}", err=True)


def _train(runtime: Runtime, cache_dir: Path) -> None:
    try:
        with installing() as progress:
            train(runtime.environment, f"Spark {runtime.spark_version}", cache_dir=cache_dir, progress=progress)
    except NothingToTrain as error:
        raise CliError(f"{runtime.key} is not installed. Install it with `brickyard runtime install {runtime.key}`.") from error
    except TrainingFailed as error:
        raise Untrained(
            f"{runtime.key} is installed, but its starts stay slower, since its training failed: {error}\n"
            f"To try again: brickyard runtime train {runtime.key}."
        ) from error
    click.echo(f"{runtime.key} is trained: starts are fast from now on.")


@command.command("remove")
@click.argument("key")
@place
def remove(key: str, config_file: Path | None, **options: Any) -> None:
    """Remove the runtime KEY, and with it those that share its environment."""
    runtime = _find(key)
    try:
        removed = installer.remove(runtime.environment, cache_dir=settings(config_file, **options).cache_dir)
    except RuntimeInUse as error:
        raise CliError(
            f"{runtime.key} is in use: nodes of this machine run on it, of clusters or of pools that keep it warm, or the "
            "Spark UI of past runs does. Terminate those, or stop their server with `brickyard down`, then run it again."
        ) from error
    click.echo(f"{runtime.key} is removed." if removed else f"{runtime.key} was not installed.")


def _find(key: str) -> Runtime:
    runtime = catalogue.find(key) if key else catalogue.default()
    if runtime is None:
        raise CliError(catalogue.unknown(key))
    return runtime


command.add_command(export_runtimes)
command.add_command(import_runtimes)
