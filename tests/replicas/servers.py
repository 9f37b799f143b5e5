"""Several full servers, each a process of its own, on one database and one storage directory."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from brickyard.cli.down import stop_server
from brickyard.cli.up import start_detached
from brickyard.config.settings import Settings
from brickyard.server.datadir import Workspace
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port


class Replica:
    """One server. It keeps its port when it is started again, as behind a proxy."""

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.settings = settings
        self.url = f"http://127.0.0.1:{settings.port}"
        self.workspace = Workspace(settings.data_dir)
        self.pid = 0

    @property
    def serves(self) -> bool:
        """Whether its process was started and neither stopped nor killed."""
        return self.pid != 0

    def start(self) -> None:
        """Returns once it serves."""
        start_detached(self.settings, self.workspace)
        running = self.workspace.running()
        assert running is not None
        self.pid = running.pid

    def kill(self) -> None:
        """SIGKILL."""
        pid, self.pid = self.pid, 0
        process = psutil.Process(pid)
        process.kill()
        process.wait(PATIENCE_S)

    def stop(self) -> None:
        """As `brickyard down` does."""
        self.pid = 0
        if running := self.workspace.running():
            stop_server(self.workspace, running, keep_nodes=False)

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Stopped (SIGSTOP) until the block is left."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def log(self) -> str:
        """What it has written."""
        return self.workspace.log_file.read_text(errors="replace") if self.workspace.log_file.exists() else ""


class Replicas:
    """`count` servers below `home`, of which the first is started; they end with this process, and when the block of `running`
    is left."""

    def __init__(
        self, home: Path, database_url: str, *, count: int, own: Sequence[Mapping[str, Any]] = (), **settings: Any
    ) -> None:
        """`own`: further settings of each."""
        self.storage = home / "storage"
        self.storage.mkdir()
        common: dict[str, Any] = {
            "database_url": database_url,
            "storage_url": str(self.storage),
            "admin_token": "dapi" + "0" * 32,
            "ends_with": os.getpid(),
            "cache_dir": home / "cache",
            "background_training": False,
            **settings,
        }
        # The simulated provider has nothing to connect to.
        connect_port: Callable[[], int] = (lambda: 0) if settings.get("provider") == "simulated" else free_port
        self.all = [
            Replica(number, Settings(data_dir=home / f"server-{number}", port=free_port(), connect_port=connect_port(), **given))
            for number, given in enumerate({**common, **(own[number] if own else {})} for number in range(count))
        ]

    @classmethod
    @contextlib.contextmanager
    def running(cls, home: Path, database_url: str, *, count: int, **settings: Any) -> Iterator[Replicas]:
        """All of them serve."""
        replicas = cls(home, database_url, count=count, **settings)
        try:
            for replica in replicas.all:
                replica.start()
            yield replicas
        except BaseException:
            for replica in replicas.all:
                print(f"---- server {replica.number}\n{replica.log()[-6000:]}")
            raise
        finally:
            replicas.end()

    @property
    def token(self) -> str:
        """The administrator's."""
        return self.all[0].settings.admin_token

    @property
    def serving(self) -> list[Replica]:
        """Those that were started and not ended since."""
        return [each for each in self.all if each.serves]

    def any(self, chance: random.Random) -> Replica:
        """One that serves."""
        return chance.choice(self.serving)

    def end(self) -> None:
        """Stop all in order; the last one ends the nodes."""
        for replica in self.all:
            with contextlib.suppress(Exception):
                if replica.serves:
                    replica.stop()
        for replica in self.all:
            if running := replica.workspace.running():
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(running.pid).kill()


@contextlib.contextmanager
def proxy(nginx: str, home: Path, urls: list[str]) -> Iterator[str]:
    """The URL of an nginx with the configuration of docs/replicas.md before these servers."""
    home.mkdir()
    port = free_port()
    upstream = "\n".join(f"    server {url.removeprefix('http://')} max_fails=1 fail_timeout=2s;" for url in urls)
    shown = (Path(__file__).parents[2] / "docs" / "replicas.md").read_text().split("```nginx\n")[1].split("```")[0]
    text = shown.replace("listen 8443 ssl;", f"listen 127.0.0.1:{port};")
    text = "\n".join(line for line in text.splitlines() if not line.strip().startswith(("ssl_", "server 10.")))
    text = text.replace("upstream brickyard {", f"upstream brickyard {{\n{upstream}", 1)
    (home / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; "
        f"fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;\n{text}\n}}\n"
    )
    process = subprocess.Popen([nginx, "-p", str(home), "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")])
    try:
        until(lambda: _listens(port) or process.poll() is not None, "nginx")
        assert process.poll() is None, (home / "error.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _listens(port: int) -> bool:
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
