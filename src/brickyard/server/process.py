"""The server process: signals, the web server and its messages, around `lifecycle.Application`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path

import click
import structlog
import uvloop

from brickyard import __version__
from brickyard.config.load import load
from brickyard.config.settings import ConfigError, Settings
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.periodic import Periodic
from brickyard.features.credentials.loginlinks import LIFETIME_MS, link_path
from brickyard.gateway.errors import GatewayError
from brickyard.logs import serverlog
from brickyard.machine import owner
from brickyard.machine.locales import use_utf8
from brickyard.providers.base import SetupError
from brickyard.sandbox.probe import allowed_here, network_text
from brickyard.server.databasewait import wait_for_database
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.server.lifecycle import Application
from brickyard.server.messages import ended_line, external_line, nodes_left, tls_line, token_line
from brickyard.server.preflight import ServerError, prepared
from brickyard.store.opening import StoreError
from brickyard.store.servers import JoinRefused

# How many allocations trigger a collection of the youngest generation, and how many of those one of the next. Nothing else runs
# meanwhile: 20,000 objects at a time, and then 400,000, held up answers for 20 and 200 ms.
_COLLECT_AFTER = (4_000, 5, 100)
_SWITCH_S = 0.001  # for how long a thread that computes keeps the others waiting
ROTATE_S = 5.0  # how often to check the size of server.log
WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM or brickyard down"}

log = structlog.get_logger("brickyard")


def run(chosen: Settings, workspace: Workspace, listening: socket.socket, *, detached: bool) -> None:
    """Serves until a signal arrives. The data directory is locked and the socket bound. Raises ServerError, WorkspaceError."""
    _ask_to_be_spared()
    outputs = serverlog.configure_process(level=chosen.log_level, form=chosen.log_format)
    for secret in ("BRICKYARD_ADMIN_TOKEN", "BRICKYARD_METRICS_TOKEN", "BRICKYARD_ENCRYPTION_KEY"):
        os.environ.pop(secret, None)  # no child needs it
    # Garbage of requests and passes needs no cyclic collector, which by default would run every 700 objects.
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    # The event loop answers requests beside a thread that writes. Each time it has waited for something it needs the interpreter
    # again, and by default a busy writer gives that up only every 5 ms.
    sys.setswitchinterval(_SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_Server(chosen, workspace, listening, log_outputs=outputs if detached else ()).run())
    except DatabaseTrouble as error:  # during the start: later, the API reports it and the loops wait
        remedy = "Free space on its disk, or check database_url."
        raise ServerError(f"the database cannot be used: {error.reason}. {remedy}") from error
    except (GatewayError, JoinRefused, SetupError, StoreError) as error:
        raise ServerError(str(error)) from error
    finally:
        workspace.withdraw()


def _ask_to_be_spared() -> None:
    """Asks that the kernel ends nodes first when memory runs out (`sandbox/enter.py`), and us last. Only root may ask that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-500")


class _LogRotation(Periodic):
    """Keeps server.log, which a detached server writes to by those descriptors, within its limit."""

    def __init__(self, file: Path, outputs: tuple[int, ...]) -> None:
        super().__init__(every_s=ROTATE_S)
        self._file, self._outputs = file, outputs

    async def run_once(self) -> None:
        await asyncio.to_thread(serverlog.rotate, self._file, limit=serverlog.LOG_LIMIT, outputs=self._outputs)


class _Server:
    """`log_outputs`: the descriptors that write to server.log; none in the foreground."""

    def __init__(self, chosen: Settings, workspace: Workspace, listening: socket.socket, *, log_outputs: tuple[int, ...]) -> None:
        self._settings = chosen
        self._workspace = workspace
        self._listening = listening
        self._log_outputs, self._detached = log_outputs, bool(log_outputs)
        self._url = _url(listening)
        self._stop = asyncio.Event()
        self._started_ms = str(time.time_ns() // 1_000_000)
        self._why = ""
        self._orphaned = False  # the process of `ends_with` has ended

    async def run(self) -> None:
        """Runs the server, from checking what a killed server left to ending the last node."""
        started = time.monotonic()
        self._on_signals()
        await wait_for_database(
            self._settings.database_url, limit_s=self._settings.database_wait_s, stop=self._stop, on_wait=self._waits_for_database
        )
        if self._stop.is_set():
            return
        opened = Application.open(self._settings, server_url=self._url)
        # Before the loops check what a killed server left: agents may only count as missing once they can find us.
        self._announce()
        left: list[str] = []
        async with opened as application:
            server = application.web(self._listening)
            served = asyncio.create_task(server.run())
            stopping = asyncio.create_task(self._stop.wait())
            owner_ends = asyncio.create_task(self._end_with_owner())
            if self._detached:
                await application.keep({"server log": _LogRotation(self._workspace.log_file, self._log_outputs)})
            await self._greet(application, time.monotonic() - started)
            if application.runs_nodes_here and self._settings.isolation != "off":
                await self._look_at_isolation()
            self._tell_of_connect(application)
            if not self._settings.metrics_token:
                self._tell("/metrics needs no token: set metrics_token to require one (docs/metrics.md).", "metrics_are_open")
            await asyncio.wait([served, stopping], return_when=asyncio.FIRST_COMPLETED)
            # If the owner is gone, no later server will adopt the nodes.
            keep = (self._workspace.asked_to_keep_nodes() or self._settings.keep_nodes) and not self._orphaned
            why = self._why or "the web server has ended"
            log.info("stopping", why=why, nodes=application.fate_of_nodes(keep_nodes=keep))
            left = await application.close(keep_nodes=keep, why=why)
            application.parts.nodes.agents.release()
            server.stop()
            await served
            for task in (stopping, owner_ends):
                task.cancel()
        log.info("stopped")
        if left:
            raise ServerError(nodes_left(left))

    def _tell_of_connect(self, application: Application) -> None:
        if application.connect is not None and (port := application.connect.port):
            self._tell(f"Spark Connect listens on port {port} (docs/connect.md).", "connect_listens", port=port)
        if application.certificate is not None:
            ca_file, https = str(self._settings.ca_file or ""), self._url.replace("http://", "https://", 1)
            self._tell(tls_line(https, ca_file), "tls_serves", url=https, ca_file=ca_file)

    def _waits_for_database(self, address: str, reason: str) -> None:
        seconds = self._settings.database_wait_s
        self._tell(
            f"Waiting up to {seconds:.0f} s for the database at {address}: {reason} ...",
            "waits_for_database", address=address, reason=reason, seconds=seconds,
        )  # fmt: skip

    async def _end_with_owner(self) -> None:
        """Stops when the process of the setting `ends_with` ends."""
        if (pid := self._settings.ends_with) is not None:
            await owner.ended(pid)
            self._orphaned, self._why = True, f"process {pid}, with which it ends, has ended"
            self._stop.set()

    def _announce(self, **found: str) -> None:
        """Records what commands and agents need to know about this server."""
        chosen = self._settings
        about = {
            "started_ms": self._started_ms,
            "provider": ",".join(chosen.providers),
            "isolation": chosen.isolation,
            "cache_dir": str(chosen.cache_dir),
            "storage_dir": str(chosen.storage_dir),
            "client_url": self._client_url(),
            "ca_file": str(chosen.ca_file or ""),
        }
        self._workspace.announce(self._url, version=__version__, **about, **found)

    def _client_url(self) -> str:
        """The URL for clients: the one that the settings name, or else that for clients of this machine. A given certificate
        has names, and rarely the address of loopback."""
        if self._settings.external_url:
            return self._settings.external_origin
        name = self._settings.host_names.split(",")[0].strip()
        if self._settings.tls_cert is None or not name:
            return self._url
        return f"https://{name}:{self._listening.getsockname()[1]}"

    def _on_signals(self) -> None:
        """The first signal stops in order, even during a start; the second stops at once."""

        def handle(number: signal.Signals) -> None:
            if self._stop.is_set():
                os._exit(130)
            self._why = WORDS[number]
            self._stop.set()
            if not self._detached:
                self._tell("Stopping (again to stop at once) ...", "signalled", why=self._why)

        for number in WORDS:
            asyncio.get_running_loop().add_signal_handler(number, handle, number)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _tell(self, text: str, event: str, **facts: object) -> None:
        """Prints a line at the terminal, or logs it if the log is JSON."""
        if self._settings.log_format == "json":
            log.info(event, **facts)
        else:
            with contextlib.suppress(OSError):  # a message that cannot be written to a full disk must not end the server
                click.echo(text, err=text.startswith(("Warning", "Stopping")))

    async def _greet(self, application: Application, seconds: float) -> None:
        self._tell(
            f"Brickyard serves at {self._url} after {seconds:.1f} s. Stop it with Ctrl-C or `brickyard down`.",
            "serves", url=self._url, seconds=round(seconds, 1), version=__version__,
        )  # fmt: skip
        if external := self._settings.external_origin:
            self._tell(external_line(external), "external_url", url=external)
        if (
            application.new_token and not self._detached and self._settings.log_format != "json"
        ):  # when detached, the parent shows it: it must not end up in the log
            click.echo(token_line(self._workspace, application.new_token))
        if sys.stdout.isatty() and not self._detached and self._settings.log_format != "json":
            click.echo(
                f"The web page (this link works once, for {LIFETIME_MS // 60_000} minutes): {await self._link(application)}"
            )
        with contextlib.suppress(OSError):
            sys.stdout.flush()

    async def _link(self, application: Application) -> str:
        """A link that logs a browser in as the administrator."""
        services = application.parts.services
        caller = await services.tokens.authenticate(self._settings.admin_token or self._workspace.stored_token())
        if caller is None:
            return f"{self._url}/"
        code, _ = await services.login_links.make(caller)
        return (self._settings.external_origin or self._url) + link_path(code)

    async def _look_at_isolation(self) -> None:
        allowed = await asyncio.to_thread(allowed_here)
        with contextlib.suppress(WorkspaceError):  # the disk is full: then `status` finds out by itself
            chosen = self._settings
            network = network_text(allowed.network, network=chosen.network, internet=chosen.internet)
            self._announce(isolation_found=allowed.text, network_found=network)
        if allowed.isolation == "none":
            self._tell(
                f"Warning: clusters are not isolated from this machine: {allowed.reason} See `brickyard doctor`.",
                "clusters_are_not_isolated", why=allowed.reason,
            )  # fmt: skip


def _url(listening: socket.socket) -> str:
    address = listening.getsockname()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0])  # noqa: S104 - a wildcard is no address to call
    return f"http://[{host}]:{address[1]}" if ":" in host else f"http://{host}:{address[1]}"


def main() -> int:
    """Serves in the background, with the settings from the environment. Returns the exit code."""
    use_utf8()
    try:
        chosen = load()
        workspace = Workspace(chosen.data_dir, chosen.storage_dir)
        run(chosen, workspace, prepared(chosen, workspace), detached=True)
    except (ServerError, ConfigError, WorkspaceError) as error:
        as_json = os.environ.get("BRICKYARD_LOG_FORMAT") == "json"
        sys.stderr.write(f"{ended_line(str(error), as_json=as_json)}\n")
        return 1
    return 0
