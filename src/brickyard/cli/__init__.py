"""The brickyard command. Subcommands are imported only when they run: `brickyard --help` imports none of them."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from brickyard import __version__
from brickyard.interrupts import INTERRUPTED, Importing
from brickyard.machine.locales import use_utf8

OLDEST = (3, 11)
_COMMANDS = {
    "up": "Start a workspace server",
    "down": "Stop the server and end its nodes",
    "status": "Show the server, clusters, nodes and isolation",
    "quickstart": "Run a checked query over 336,776 flights on a real cluster",
    "ui": "Open the web page, logged in",
    "configure": "Write a profile that Databricks tools read",
    "doctor": "Check this machine and suggest fixes",
    "runtime": "Install, list and remove Spark runtimes",
    "cluster": "Create, start, use, stop and look at clusters",
    "user": "Add, list and remove users",
    "token": "Create access tokens",
    "ip-access": "Show IP access lists, and turn them on or off",
    "secrets": "Change the key that encrypts secrets",
    "backup": "Write a backup of the workspace while it runs",
    "restore": "Restore a backup into an empty workspace",
    "migrate-database": "Move the database from SQLite to PostgreSQL",
    "adopt-storage": "Join a storage and a database after one was lost",
    "kernel": "Offer clusters to JupyterLab as kernels",
    "version": "Show the version",
}


class CliError(click.ClickException):
    """One line that says what is wrong and what to do; exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        _complain(self.message)


class Interrupted(CliError):
    """Ctrl-C, after cleanup of what had been started."""

    exit_code = INTERRUPTED


class _Lazy(click.Group):
    """Lists its commands and their one-line help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        with Importing():
            command: click.Command = importlib.import_module(f"brickyard.cli.{name.replace('-', '')}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The same as the base class, which proposes commands by a list that is empty here."""
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=_COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with their help, and the options."""
        commands = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="brickyard")
@click.option("--debug", is_flag=True, help="Show where an error comes from (or BRICKYARD_DEBUG=1).")
def cli(debug: bool) -> None:
    """Real Spark and GPU clusters behind the Databricks compute API, on machines of your own."""
    if debug:
        os.environ["BRICKYARD_DEBUG"] = "1"


def main() -> None:
    """Entry point. Exit codes: 0, 1 for a failure, 2 for a wrong command line, 130 for Ctrl-C; `status` also has 3, and
    `runtime install` 4.

    Errors are one line unless --debug or BRICKYARD_DEBUG asks for the traceback.
    """
    use_utf8()
    code = _run()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # output is complete: Ctrl-C while Python exits must not print a traceback
    sys.exit(code)


def _run() -> int:
    if sys.version_info < OLDEST:  # run from a source tree: an installer would have refused
        version = ".".join(map(str, sys.version_info[:3]))
        _complain(f"Python {version} is too old, {OLDEST[0]}.{OLDEST[1]} or newer is needed. Install one, and run it with that.")
        return 1
    try:
        return int(cli(prog_name="brickyard", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("BRICKYARD_DEBUG"):
            raise
        _complain(_in_words(error))
        return error.exit_code if isinstance(error, click.ClickException) else 1


def _in_words(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "brickyard"
        return f"{error.format_message()} See `{path} --help`."
    if isinstance(error, click.ClickException):
        return error.format_message()
    detail = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    return f"{type(error).__name__}: {detail}. Run it again with BRICKYARD_DEBUG=1 to see where that comes from."


def called() -> str:
    """The command as it was called, for what to type next: `./dev` in a checkout, its path where it is not on the PATH."""
    if named := os.environ.get("BRICKYARD_CALLED_AS"):
        return named
    program = Path(sys.argv[0])
    found = shutil.which("brickyard")
    if program.name != "brickyard" or not program.is_file() or (found and Path(found).samefile(program)):
        return "brickyard"
    return shlex.quote(str(program))


def as_called(text: str) -> str:
    """A text with its commands, which are in backticks, as they were called."""
    return text.replace("`brickyard ", f"`{called()} ")


def _complain(message: str) -> None:
    message = as_called(message)
    click.echo("\n".join(printable(line) for line in f"brickyard: {message}".splitlines()), err=True)


def printable(line: str) -> str:
    """Replaces control characters, which a terminal would obey: users choose the names and messages of clusters."""
    return "".join(character if character.isprintable() or character == "\t" else "?" for character in line)
