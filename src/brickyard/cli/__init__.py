"""The brickyard command. Subcommands are loaded when they are run: `brickyard --help` imports none of them."""

from __future__ import annotations

import importlib
import os
import sys

import click

from brickyard import __version__

_COMMANDS = {
    "up": "Start a workspace server",
    "down": "Stop the server and end its nodes",
    "status": "What runs: server, clusters, nodes, isolation",
    "quickstart": "A real cluster, a query over 336,776 flights, the answer checked",
    "configure": "Write a profile that Databricks tools read",
    "doctor": "Check what this machine has, and say what to do",
    "runtime": "Install, list and remove Spark runtimes",
    "version": "Show the version",
}


class CliError(click.ClickException):
    """One line that says what is wrong and what to do; exit code 1."""

    def show(self, file: object = None) -> None:
        click.echo(f"brickyard: {self.message}", err=True)


class _Lazy(click.Group):
    """Knows its commands' names and one-liners by heart."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"brickyard.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="brickyard")
def cli() -> None:
    """Real Spark and GPU clusters behind the Databricks compute API, on machines of your own."""


def main() -> None:
    """Entry point: errors are one line, unless BRICKYARD_DEBUG asks for more."""
    try:
        cli(prog_name="brickyard")
    except Exception as error:
        if os.environ.get("BRICKYARD_DEBUG"):
            raise
        detail = f"{type(error).__name__}: {error}".splitlines()[0]
        click.echo(f"brickyard: {detail}. Set BRICKYARD_DEBUG=1 to see where it comes from.", err=True)
        sys.exit(1)
