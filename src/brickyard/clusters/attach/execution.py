"""Execution contexts and commands (API 1.2): who may run code where, and which agent runs it.

Contexts exist only on the cluster's driver node: they end with the driver, and the server keeps no record of them. A context is
its user's alone, because code in it acts in that user's name (`dbutils.secrets`): for everybody else, administrators included, it
does not exist. Its agent knows whose it is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.attach.shares import ContextShare, share_of
from brickyard.domain import nodeops
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster, Instance, public_state
from brickyard.domain.errors import ClusterNotReady, CommandError
from brickyard.domain.nodeops import (
    AgentRefused,
    AgentUnreachable,
    NewCommand,
    NewContext,
    NodeOp,
    OfCommand,
    OfContext,
    Reply,
    Request,
)
from brickyard.domain.states import Language, State
from brickyard.nodes.calls import NodeCalls
from brickyard.plan.attach import Client, cluster_refusal, driver_instance, finishing_driver
from brickyard.store.store import Store
from brickyard.store.tx import Tx

LANGUAGES = (Language.PYTHON, Language.SQL)
ATTEMPTS = 3  # to reach a silent agent; calls are repeatable, because the server generates the ids
PAUSE_S = 0.5
MAX_WIDGETS, MAX_CHOSEN = 512, 64 * 1024  # chosen values of one command: their number, and the characters of all of them
_ID = re.compile(r"[0-9a-f]{1,64}")
_USABLE = (State.RUNNING, State.RESIZING)
_COMING = (State.PENDING, State.RESTARTING)


class ContextNotFound(CommandError):
    """The context or command does not exist (any more)."""

    http_status = 404


class CommandForbidden(CommandError):
    """The caller may not run code on that cluster."""

    http_status = 403


class CommandFailed(CommandError):
    """The driver's node failed."""

    http_status = 500


class CommandService:
    """One per server. Methods raise CommandError, PermissionDenied."""

    def __init__(
        self,
        *,
        store: Store,
        authorizer: Authorizer,
        nodes: NodeCalls,
        clock: Clock,
        ids: Ids,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._nodes = nodes
        self._clock = clock
        self._ids = ids
        self._pause_s = pause_s

    async def create_context(self, caller: Caller, cluster_id: str, language: str) -> str:
        """Starts a context and returns its id."""
        _language(language or Language.PYTHON)
        driver, share = await self._driver(caller, cluster_id), await self._share(caller, cluster_id)
        context_id = self._ids.timed(self._clock.now_ms())
        language = language or Language.PYTHON.value
        asked = NewContext(context_id=context_id, language=language, user=caller.user_name, **share._asdict())
        await self._change(driver, nodeops.CONTEXT_CREATE, asked, repeatable=False)
        return context_id

    async def languages(self, caller: Caller, cluster_id: str) -> list[str]:
        """The languages of contexts and commands on a cluster where the caller may run code."""
        await self._find(caller, cluster_id)
        return [each.value for each in LANGUAGES]

    async def context_status(self, caller: Caller, cluster_id: str, context_id: str) -> dict[str, Any]:
        """`{"id", "status"}`: Pending, Running or Error; with Error also `message`."""
        driver = await self._driver_of(caller, cluster_id, context_id)
        answer = await self._call(driver, nodeops.CONTEXT_STATUS, _context(caller, context_id))
        status = {"id": context_id, "status": answer.status}
        return {**status, "message": answer.message} if answer.message else status

    async def destroy_context(self, caller: Caller, cluster_id: str, context_id: str) -> None:
        """Ends a context and everything that runs in it."""
        driver = await self._driver_of(caller, cluster_id, context_id)
        await self._change(driver, nodeops.CONTEXT_DESTROY, _context(caller, context_id))

    async def execute(
        self,
        caller: Caller,
        cluster_id: str,
        context_id: str,
        language: str,
        command: str,
        *,
        widgets: Mapping[str, str] | None = None,
    ) -> str:
        """Queues a command and returns its id. `widgets`: the values that a person has chosen for the notebook's parameters."""
        _require(context_id, "contextId")
        if language:
            _language(language)
        chosen = dict(widgets or {})
        if len(chosen) > MAX_WIDGETS or sum(len(name) + len(value) for name, value in chosen.items()) > MAX_CHOSEN:
            raise CommandError(f"widgets may have at most {MAX_WIDGETS} names and {MAX_CHOSEN} characters.")
        driver = await self._driver(caller, cluster_id)
        command_id = self._ids.timed(self._clock.now_ms())
        context = _context(caller, context_id)
        asked = NewCommand(
            context_id=context.context_id, command_id=command_id, language=language, command=command, user=context.user,
            widgets=chosen,
        )  # fmt: skip
        await self._change(driver, nodeops.COMMAND_EXECUTE, asked, repeatable=False)
        return command_id

    async def command_status(self, caller: Caller, cluster_id: str, context_id: str, command_id: str) -> dict[str, Any]:
        """`{"id", "status"}`, `results` once the command is over, `progress` while it runs, and the context's `widgets`."""
        driver = await self._driver_of(caller, cluster_id, context_id)
        answer = await self._call(driver, nodeops.COMMAND_STATUS, _command(caller, context_id, command_id))
        status: dict[str, Any] = {"id": command_id, "status": answer.status}
        if answer.widgets is not None:
            status["widgets"] = answer.widgets
        if answer.results is not None:
            return {**status, "results": answer.results}
        return status if answer.progress is None else {**status, "progress": answer.progress}

    async def cancel(self, caller: Caller, cluster_id: str, context_id: str, command_id: str) -> None:
        """Cancels a queued or running command and its Spark jobs."""
        driver = await self._driver_of(caller, cluster_id, context_id)
        await self._change(driver, nodeops.COMMAND_CANCEL, _command(caller, context_id, command_id))

    # ── where code runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _share(self, caller: Caller, cluster_id: str) -> ContextShare:
        def work(tx: Tx) -> ContextShare:
            cluster = tx.clusters.get(cluster_id)
            return share_of(tx, self._authorizer, caller, cluster) if cluster is not None else ContextShare()

        return await self._store.read(work)

    async def _driver(self, caller: Caller, cluster_id: str) -> Instance:
        """The driver's instance of a cluster on which the caller may run code now."""
        cluster, instances = await self._find(caller, cluster_id)
        state = public_state(cluster)
        if state in _COMING:
            raise ClusterNotReady(f"Cluster {cluster_id} is in state {state.title()}; commands can run once it is Running.")
        if state not in _USABLE:
            raise CommandError(
                f"Cluster {cluster_id} is in unexpected state {state.title()}. Start it (clusters/start) to run commands on it."
            )
        driver = driver_instance(cluster, instances)
        if driver is None:
            raise ClusterNotReady(f"The driver of cluster {cluster_id} is currently missing; the server is handling this.")
        return driver

    async def _driver_of(self, caller: Caller, cluster_id: str, context_id: str) -> Instance:
        """The same for an existing context, also while a stop lets it finish: if no driver runs, the context is gone, and no
        retry brings it back."""
        _require(context_id, "contextId")
        cluster, instances = await self._find(caller, cluster_id)
        state = public_state(cluster)
        usable = state in _USABLE
        driver = driver_instance(cluster, instances) if usable else finishing_driver(cluster, instances)
        if driver is None:
            why = (cluster.state_message.splitlines() or [""])[0] if state not in _USABLE else ""
            raise ContextNotFound(
                f"Execution context {context_id} does not exist: cluster {cluster_id} is {state.title()}, and contexts end"
                f" with the driver. Create a new one when the cluster is Running.{f' ({why})' if why else ''}"
            )
        return driver

    async def _find(self, caller: Caller, cluster_id: str) -> tuple[Cluster, list[Instance]]:
        _require(cluster_id, "clusterId")

        def work(tx: Tx) -> tuple[Cluster, list[Instance]]:
            cluster = tx.clusters.get(cluster_id)
            if cluster is None or cluster.deleted_ms:
                raise CommandError(f"Cluster {cluster_id} does not exist")
            self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(cluster), to="run code on")
            return cluster, list(tx.instances.of_cluster(cluster_id))

        cluster, instances = await self._store.read(work)
        if why := cluster_refusal(cluster, user_name=caller.user_name, client=Client.NOTEBOOKS):
            raise CommandForbidden(why)
        return cluster, instances

    async def _change(self, driver: Instance, op: NodeOp[Request, Reply], request: Request, *, repeatable: bool = True) -> Reply:
        """`_call` for what changes something there."""
        await self._store.before_effect()
        return await self._call(driver, op, request, repeatable=repeatable)

    async def _call(self, driver: Instance, op: NodeOp[Request, Reply], request: Request, *, repeatable: bool = True) -> Reply:
        """Calls the driver's agent. `repeatable`: the client may safely repeat the whole call, so it is told to if nobody
        answers."""
        unsure = False  # whether an unanswered attempt may have arrived
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._nodes.ask(driver, op, request)
            except AgentRefused as refused:
                raise _refusal(refused) from refused
            except AgentUnreachable as silence:
                unsure = unsure or silence.sent
                if attempt == ATTEMPTS:
                    raise _silence(driver, op, silence, repeatable=repeatable or not unsure) from silence
            await asyncio.sleep(self._pause_s * attempt)
        raise AssertionError("the last attempt returns or raises")


def _silence(driver: Instance, op: NodeOp[Any, Any], silence: AgentUnreachable, *, repeatable: bool) -> CommandError:
    if repeatable:
        return ClusterNotReady(f"The driver of cluster {driver.cluster_id} does not answer: {silence}.")
    what = "context may or may not exist" if op is nodeops.CONTEXT_CREATE else "command may or may not be running"
    return CommandFailed(
        f"The driver of cluster {driver.cluster_id} does not answer: {silence}. The {what}. Look at the cluster's events, and "
        "try again if that is safe."
    )


def _refusal(refused: AgentRefused) -> CommandError:
    if refused.code == "NOT_FOUND":
        return ContextNotFound(refused.message)
    if refused.code in ("LIMIT", "DEAD", "INVALID"):
        return CommandError(refused.message)
    return CommandFailed(f"The driver's node failed: {refused.message} ({refused.code}). The cluster's driver log may say more.")


def _require(value: str, name: str) -> None:
    if not value:
        raise CommandError(f"java.lang.IllegalArgumentException: requirement failed: missing {name}")


def _language(language: str) -> None:
    if language not in LANGUAGES:
        raise CommandError(f"Language {language!r} is not supported. Use one of: {', '.join(LANGUAGES)}.")


def _context(caller: Caller, context_id: str) -> OfContext:
    """The caller's context of that id, if it is well-formed. Raises ContextNotFound."""
    if not _ID.fullmatch(context_id):
        raise ContextNotFound(f"Execution context {context_id[:100]} does not exist")
    return OfContext(context_id=context_id, user=caller.user_name)


def _command(caller: Caller, context_id: str, command_id: str) -> OfCommand:
    _require(command_id, "commandId")
    if not _ID.fullmatch(command_id):
        raise ContextNotFound(f"Command {command_id[:100]} does not exist in context {context_id[:100]}")
    context = _context(caller, context_id)
    return OfCommand(context_id=context.context_id, command_id=command_id, user=context.user)
