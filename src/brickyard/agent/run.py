"""The agent's process: one per instance, from taking the lock to the final clean-up."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import traceback
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import msgspec

from brickyard.agent.clock import now_ms
from brickyard.agent.config import AgentConfig
from brickyard.agent.link.http import Server
from brickyard.agent.link.owner import LinkedAgent
from brickyard.agent.link.server import Routes
from brickyard.agent.link.serverlink import ServerLink
from brickyard.agent.networks import Networks
from brickyard.agent.node import Node
from brickyard.agent.owner import NodeOwner
from brickyard.agent.watching.sampling import Sampler
from brickyard.agent.watching.watch import Watch
from brickyard.domain.node import AskNotebook, AskSecrets, Assignment, NotebookReply, SecretsReply, StatusReport
from brickyard.domain.samples import NodeSamples
from brickyard.logs.bounded import LogFile, LogHandler
from brickyard.logs.strays import capture
from brickyard.machine import gpus, locks, processes
from brickyard.machine.files import write_atomic
from brickyard.sandbox import launcher

LOCK_PATIENCE_S = 1.0
LEAVE_PATIENCE_S = 9.0  # more than a node needs to end (STOP_GRACE_S) and clean up


def run(config: AgentConfig, *, switchboard: int = -1, own_session: bool = True) -> int:
    """Runs an instance's agent until it must exit. Returns the exit code.

    An instance has only one agent: a second one ends immediately, with code 0. `switchboard`: see `network.py`; -1 means none.
    `own_session`: False where something else starts and ends the agent, and looks after its session or process group.
    """
    os.umask(0o077)
    if own_session and os.getpid() != os.getsid(0):
        os.setsid()  # the agent outlives the server and its terminal
    lock = _lock(config.directory / "agent.lock")
    if lock is None:
        return 0
    record = processes.find(os.getpid())
    write_atomic(config.directory / "agent.pid", msgspec.json.encode(record))
    log = LogFile(config.directory / "agent.log", as_json=config.log_format == "json")
    if config.log_format == "json":  # every line is
        capture(lambda text: log.write("output", "warning", text=text), straight=log.append)
        logging.captureWarnings(True)
    logging.getLogger().addHandler(LogHandler(log))
    log.write(f"agent {os.getpid()} of instance {config.instance_id} starts")
    try:
        return asyncio.run(_main(config, log, switchboard))
    except Exception as error:
        log.write(f"the agent fails: {type(error).__name__}: {error}", "error")
        if config.log_format != "json":
            raise  # Python writes where it comes from
        log.write("crashed", "error", exception=traceback.format_exc())
        return 1
    finally:
        log.write("the agent ends")
        os.close(lock)


async def _main(config: AgentConfig, log: LogFile, switchboard: int) -> int:
    return await Agent(config=config, log=log, switchboard=switchboard).run()


async def _certificate() -> bytes:
    """A new key and certificate. Raises RuntimeError."""
    command = [sys.executable, "-m", "brickyard.machine.certificates"]
    child = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    made, said = await child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"the agent's certificate cannot be made: {said.decode(errors='replace')[-2000:]}")
    return made


def _lock(path: Path) -> int | None:
    """Takes the instance's lock. Waits a moment, because a process that only checks the lock holds it briefly."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    if locks.take(fd, patience_s=LOCK_PATIENCE_S):
        return fd
    os.close(fd)
    return None


class Agent(NodeOwner, LinkedAgent):
    """The parts of an agent, put together. Must be created on the event loop."""

    def __init__(self, *, config: AgentConfig, log: LogFile, switchboard: int) -> None:
        self._config = config
        self._log = log
        self._boot_id = os.urandom(8).hex()
        self._leave: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._isolation = asyncio.ensure_future(asyncio.to_thread(launcher.probe, mode=config.isolation, python=config.python))
        self._networks = Networks(config=config, switchboard=switchboard)
        self._node = Node(config=config, owner=self, networks=self._networks, log=log)
        routes = Routes(config=config, agent=self, node=self._node, networks=self._networks)
        self._server = Server(routes, host=config.host, tunnels=config.encrypted)
        self._link = ServerLink(config=config, agent=self, log=log)
        self._watch = Watch(config=config, node=self._node, log=log)
        self._sampler = Sampler(node=self._node, watch=self._watch, listener=self._link, gpus=gpus.opened(config.gpu_file))

    async def run(self) -> int:
        """Serves until something asks the agent to leave."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._noticed)
        loop.add_signal_handler(signal.SIGUSR1, self._told)
        loop.add_signal_handler(signal.SIGINT, self.leave, "SIGINT was received")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._networks.prepare()
        if self._config.encrypted:
            self._server.start_tls(await _certificate())
        else:
            await self._server.start()
        node = asyncio.create_task(self._node.run())
        works = (
            self._link.report(),
            self._link.follow(),
            self._link.watch(),
            self._node.watch(),
            self._watch.run(),
            self._sampler.run(),
            self._node.deliver_logs(),
        )
        tasks = [node, *(asyncio.create_task(work) for work in works)]
        for task in tasks:
            task.add_done_callback(self._ended)
        reason = await self._leave
        self._log.write(f"leaving: {reason}")
        try:
            async with asyncio.timeout(LEAVE_PATIENCE_S):
                await self._node.close()
        except TimeoutError:
            self._log.write("the node did not end in time; the kernel ends it with us")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._networks.end()
        await self._server.stop()
        return 0 if not node.done() or node.cancelled() else 1

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A loop has ended: intentionally if it asked the agent to leave, otherwise through a bug that must be reported."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.write(f"a loop of the agent failed: {type(error).__name__}: {error}")
            self.leave("a loop of the agent failed")

    # ── for the node ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def status_changed(self) -> None:
        self._link.wake()

    async def isolation(self) -> launcher.Isolation:
        return await asyncio.shield(self._isolation)

    async def ask(self, asked: AskSecrets) -> SecretsReply:
        return await self._link.ask(asked)

    async def read_notebook(self, asked: AskNotebook) -> NotebookReply:
        return await self._link.read_notebook(asked)

    # ── for the link and the server ─────────────────────────────────────────────────────────────────────────────────────────

    def report(self) -> StatusReport:
        return StatusReport(
            instance_id=self._config.instance_id, boot_id=self._boot_id, endpoint=str(self._server.endpoint), pid=os.getpid(),
            status=self._node.status, now_ms=now_ms(), samples=self._sampler.pending,
        )  # fmt: skip

    def assign(self, assignment: Assignment | None) -> None:
        if not self._leave.done():
            self._node.want(assignment)

    def samples_taken(self, samples: NodeSamples | None, *, again: bool) -> None:
        self._sampler.again() if again else self._sampler.confirm(samples)

    def leave(self, reason: str) -> None:
        if not self._leave.done():
            self._leave.set_result(reason)

    # ── signals ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _noticed(self) -> None:
        """The machine is taken away; or the instance is to end, which the servers say too, if any can be reached."""
        if self._config.notice_s and self._node.give_notice():
            self._log.write(f"SIGTERM was received; the node has {self._config.notice_s:g} s to hand over what it has")
            asyncio.get_running_loop().call_later(self._config.notice_s, self.leave, "the time after SIGTERM is over")
        else:
            self.leave("SIGTERM was received")

    def _told(self) -> None:
        """The machine is about to be taken away. Its engine, which has said so, ends the instance when that time has come."""
        if self._node.give_notice():
            self._log.write("SIGUSR1 was received: the machine is about to be taken away; the node hands over what it has")
