"""The command execution API: who may run code where, what clients are told, and the SDK against a node that is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import requests
from aiohttp import web
from databricks.sdk.errors import BadRequest, NotFound
from databricks.sdk.service.compute import CommandStatus, ContextStatus, Language, ResultType

from brickyard.clusters.attach.execution import CommandFailed, CommandForbidden, CommandService, ContextNotFound
from brickyard.domain.clock import SystemClock
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.errors import RETRY_PHRASES, ClusterNotReady, CommandError
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable
from brickyard.domain.spec import ClientsTypes, WorkloadType
from brickyard.nodes.client import HttpAgentClient
from brickyard.nodes.tokens import InstanceTokens
from brickyard.runtime.node.contexts.client import not_started
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, up
from tests.support.edge import USER, edge, sdk
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.world import World

TOKENS = InstanceTokens(key=b"k" * 32)


class FakeNode:
    """An agent whose node runs commands by looking at them: `slow` never ends, `die` kills the context."""

    def __init__(self) -> None:
        self.contexts: dict[str, dict[str, str]] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.silences: list[AgentUnreachable] = []
        self.refusal: AgentRefused | None = None
        self.failed: dict[str, str] = {}  # context -> why it has failed
        self.progress: Any = None  # of slow commands
        self.answers: dict[str, str] = {}  # command -> what it prints; others print themselves

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        self.calls.append((method, path, server_token))
        if self.silences:
            raise self.silences.pop(0)
        if self.refusal is not None:
            raise self.refusal
        match (method, *path.partition("?")[0].strip("/").split("/")[2:]):
            case ("POST",):
                assert body is not None
                self.contexts.setdefault(body["context_id"], {})
                return {}
            case (_, context_id, *_) if context_id not in self.contexts:
                raise AgentRefused("NOT_FOUND", f"Execution context {context_id} does not exist")
            case ("GET", context_id):
                why = self.failed.get(context_id)
                return {"status": "Error", "message": why} if why else {"status": "Running"}
            case ("DELETE", context_id):
                del self.contexts[context_id]
                return {}
            case ("POST", context_id, "commands"):
                assert body is not None
                self.contexts[context_id][body["command_id"]] = body["command"]
                return {}
            case ("GET", context_id, "commands", command_id):
                return self.result(self.contexts[context_id][command_id])
            case ("POST", context_id, "commands", command_id, "cancel"):
                self.contexts[context_id][command_id] = "cancelled"
                return {}
        raise AssertionError(path)

    def result(self, command: str) -> dict[str, Any]:
        if command == "slow":
            return {"status": "Running", "results": None, "progress": self.progress}
        if command == "cancelled":
            note = "The command was cancelled."
            error = {"resultType": "error", "summary": f"<span class='ansired'>CommandCancelled</span>: {note}", "cause": note}
            return {"status": "Cancelled", "results": {**error, "data": "printed before"}}
        return {"status": "Finished", "results": {"resultType": "text", "data": self.answers.get(command, command)}}

    async def close(self) -> None:
        """Nothing is open."""


class Desk(World):
    """The service, a cluster that runs, and its node."""

    def __init__(self, store: Store) -> None:
        self.node = FakeNode()
        super().__init__(store, agents=self.node)
        self.service = CommandService(
            store=store, authorizer=self.authorizer, nodes=self.calls, clock=SystemClock(), ids=self.ids, pause_s=0.001
        )
        self.cluster = self.add(up(cluster(num_workers=1, creator_user_name=USER.user_name)))
        self.id = self.cluster.cluster_id

    def add(self, made: Cluster) -> Cluster:
        self.put(made, number=1, instance_id=f"i-{made.cluster_id}")
        return made

    def change(self, **fields: Any) -> None:
        self.store.write_sync(self.changed(self.id, lambda of: msgspec.structs.replace(of, **fields)))


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


async def test_a_command_goes_to_the_driver_with_its_own_token(desk: Desk) -> None:
    context = await desk.service.create_context(USER, desk.id, "python")
    command = await desk.service.execute(USER, desk.id, context, "python", "print(1)")
    status = await desk.service.command_status(USER, desk.id, context, command)
    assert status == {"id": command, "status": "Finished", "results": {"resultType": "text", "data": "print(1)"}}
    assert {token for _, _, token in desk.node.calls} == {TOKENS.server_token(f"i-{desk.id}")}


async def test_a_context_that_cannot_start_says_why(desk: Desk, golden: Golden) -> None:
    log = "Traceback (most recent call last):\n  ...\nsocket.gaierror: [Errno -2] Name or service not known"
    why = not_started("it exited with status 1", log)
    golden(why.splitlines()[0], "it exited with status 1", log.splitlines()[-1])
    assert why.endswith(log)
    golden(not_started("it was killed (SIGKILL)", ""), "it was killed (SIGKILL)")

    context = await desk.service.create_context(USER, desk.id, "python")
    assert await desk.service.context_status(USER, desk.id, context) == {"id": context, "status": "Running"}
    desk.node.failed[context] = why
    assert await desk.service.context_status(USER, desk.id, context) == {"id": context, "status": "Error", "message": why}


STATES: list[tuple[dict[str, Any], type[CommandError]]] = [
    ({"ready_incarnation": 0}, ClusterNotReady),
    ({"incarnation": 2, "restarting": True}, ClusterNotReady),
    ({"target": Target.TERMINATED}, CommandError),
    ({"target": Target.TERMINATED, "ended": True}, CommandError),
]


@pytest.mark.parametrize(("fields", "error"), STATES)
def test_only_clusters_that_run_take_commands(desk: Desk, fields: dict[str, Any], error: type[CommandError]) -> None:
    desk.change(**fields)
    for attempt in (
        desk.service.create_context(USER, desk.id, "python"),
        desk.service.execute(USER, desk.id, "ab", "python", "1"),
    ):
        with pytest.raises(error) as raised:
            asyncio.run(attempt)
        retried = any(phrase in raised.value.message for phrase in RETRY_PHRASES)
        assert retried == (error is ClusterNotReady)
        assert raised.value.http_status == (500 if retried else 400)
    # What belonged to the driver that is gone will not come back.
    with pytest.raises(ContextNotFound):
        asyncio.run(desk.service.command_status(USER, desk.id, "ab", "cd"))


def test_a_resizing_cluster_takes_commands(desk: Desk) -> None:
    desk.change(sized=False)
    asyncio.run(desk.service.create_context(USER, desk.id, "sql"))


async def test_unknown_clusters_languages_and_missing_ids(desk: Desk) -> None:
    for attempt, words in (
        (desk.service.create_context(USER, "nope", "python"), "Cluster nope does not exist"),
        (desk.service.create_context(USER, "", "python"), "requirement failed: missing clusterId"),
        (desk.service.create_context(USER, desk.id, "scala"), "python, sql"),
        (desk.service.execute(USER, desk.id, "", "python", "1"), "requirement failed: missing contextId"),
        (desk.service.execute(USER, "", "", "python", "1"), "requirement failed: missing contextId"),
        (desk.service.command_status(USER, desk.id, "ab", ""), "requirement failed: missing commandId"),
        (desk.service.context_status(USER, desk.id, "../../status"), "does not exist"),
    ):
        with pytest.raises(CommandError, match=words):
            await attempt


def test_a_cluster_without_notebooks_takes_no_contexts(desk: Desk) -> None:
    closed = WorkloadType(clients=ClientsTypes(notebooks=False))
    desk.change(spec=msgspec.structs.replace(desk.cluster.spec, workload_type=closed))
    with pytest.raises(CommandForbidden, match=r"workload_type\.clients\.notebooks is false"):
        asyncio.run(desk.service.create_context(USER, desk.id, "python"))
    without_jobs = WorkloadType(clients=ClientsTypes(jobs=False))
    desk.change(spec=msgspec.structs.replace(desk.cluster.spec, workload_type=without_jobs))
    assert asyncio.run(desk.service.create_context(USER, desk.id, "python"))


def test_the_single_user_alone_may_run_commands(desk: Desk) -> None:
    desk.change(spec=msgspec.structs.replace(desk.cluster.spec, single_user_name="someone@example.com"))
    with pytest.raises(CommandForbidden, match=r"Single-user check failed"):
        asyncio.run(desk.service.create_context(USER, desk.id, "python"))


async def test_silence_is_tried_again_with_the_same_ids(desk: Desk) -> None:
    context = await desk.service.create_context(USER, desk.id, "python")
    desk.node.silences = [AgentUnreachable("x", sent=True)] * 2
    command = await desk.service.execute(USER, desk.id, context, "python", "1")
    assert list(desk.node.contexts[context]) == [command]


@pytest.mark.parametrize(("sent", "error"), [(False, ClusterNotReady), (True, CommandFailed)])
async def test_clients_repeat_a_command_only_when_it_surely_did_not_run(
    desk: Desk, sent: bool, error: type[CommandError]
) -> None:
    context = await desk.service.create_context(USER, desk.id, "python")
    desk.node.silences = [AgentUnreachable("x", sent=sent)] * 3
    with pytest.raises(error) as raised:
        await desk.service.execute(USER, desk.id, context, "python", "1")
    assert any(phrase in raised.value.message for phrase in RETRY_PHRASES) == (error is ClusterNotReady)


@pytest.mark.parametrize(("code", "status"), [("LIMIT", 400), ("DEAD", 400), ("INVALID", 400), ("NOT_FOUND", 404), ("?", 500)])
def test_refusals_of_the_node(desk: Desk, code: str, status: int) -> None:
    desk.node.refusal = AgentRefused(code, "because")
    with pytest.raises(CommandError, match="because") as raised:
        asyncio.run(desk.service.create_context(USER, desk.id, "python"))
    assert raised.value.http_status == status


# ── through the SDK ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def url(desk: Desk) -> Iterator[str]:
    with edge(commands=desk.service) as address:
        yield address


def test_the_sdk_creates_executes_cancels_and_destroys(desk: Desk, url: str) -> None:
    api = sdk(url).command_execution
    context = api.create(cluster_id=desk.id, language=Language.PYTHON).result()
    assert context.status is ContextStatus.RUNNING and context.id
    done = api.execute(cluster_id=desk.id, context_id=context.id, language=Language.PYTHON, command="x").result()
    assert done.status is CommandStatus.FINISHED and done.results is not None
    assert (done.results.result_type, done.results.data) == (ResultType.TEXT, "x")
    slow = api.execute(cluster_id=desk.id, context_id=context.id, language=Language.PYTHON, command="slow")
    assert api.cancel(cluster_id=desk.id, context_id=context.id, command_id=slow.command_id).result().status
    api.destroy(cluster_id=desk.id, context_id=context.id)
    with pytest.raises(NotFound):
        api.context_status(cluster_id=desk.id, context_id=context.id)


def test_the_languages_of_a_cluster(desk: Desk, url: str) -> None:
    def languages() -> requests.Response:
        headers = {"Authorization": "Bearer secret"}
        asked = f"{url}/api/1.2/contexts/languages?clusterId={desk.id}"
        return requests.get(asked, headers=headers, timeout=PATIENCE_S)

    told = languages().json()["languages"]
    assert told == ["python", "sql"]
    for language in Language:
        if language.value in told:
            assert asyncio.run(desk.service.create_context(USER, desk.id, language.value))
        else:
            with pytest.raises(CommandError):
                asyncio.run(desk.service.create_context(USER, desk.id, language.value))
    closed = WorkloadType(clients=ClientsTypes(notebooks=False))
    desk.change(spec=msgspec.structs.replace(desk.cluster.spec, workload_type=closed))
    assert languages().status_code == 403


def test_a_running_command_tells_its_progress(desk: Desk, url: str) -> None:
    job = {"job_id": 3, "tasks": 10, "completed_tasks": 4}
    desk.node.progress = {"printed": "one\n", "jobs": [job]}
    context = asyncio.run(desk.service.create_context(USER, desk.id, "python"))
    command = asyncio.run(desk.service.execute(USER, desk.id, context, "python", "slow"))
    query = f"clusterId={desk.id}&contextId={context}&commandId={command}"
    asked = f"{url}/api/1.2/commands/status?{query}"
    told = requests.get(asked, headers={"Authorization": "Bearer secret"}, timeout=PATIENCE_S).json()
    assert told["status"] == "Running" and told["progress"]["printed"] == "one\n"
    assert told["progress"]["jobs"][0].items() >= job.items()
    assert sdk(url).command_execution.command_status(desk.id, context, command).status is CommandStatus.RUNNING


def test_the_sdk_reads_the_errors_of_this_api(desk: Desk, url: str, golden: Golden) -> None:
    api = sdk(url).command_execution
    with golden.refused(BadRequest, "contextId"):
        api.execute(cluster_id=desk.id, command="1", language=Language.PYTHON)
    answer = requests.post(
        f"{url}/api/1.2/contexts/create", headers={"Authorization": "Bearer secret"}, json={}, timeout=PATIENCE_S
    )
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_a_form_may_carry_the_command(desk: Desk, url: str) -> None:
    context = asyncio.run(desk.service.create_context(USER, desk.id, "python"))
    answer = requests.post(
        f"{url}/api/1.2/commands/execute",
        headers={"Authorization": "Bearer secret"},
        data={"clusterId": desk.id, "contextId": context, "language": "python"},
        files={"command": ("code.py", "print('ü')")},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text
    assert list(desk.node.contexts[context].values()) == ["print('ü')"]


# ── the real client ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def agent(status: int, body: bytes) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer t"
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(status: int, body: bytes) -> dict[str, Any]:
    client = HttpAgentClient()
    try:
        async with agent(status, body) as endpoint:
            return await client.call(endpoint, "t", "POST", "/v1/contexts", {"a": 1})
    finally:
        await client.close()


def test_the_client_reads_answers_and_refusals() -> None:
    assert asyncio.run(ask(200, b'{"a": 1}')) == {"a": 1}
    with pytest.raises(AgentRefused, match="why") as refused:
        asyncio.run(ask(409, b'{"error": {"code": "DEAD", "message": "why"}}'))
    assert refused.value.code == "DEAD"
    with pytest.raises(AgentRefused, match="cannot be read"):
        asyncio.run(ask(500, b"<html>"))
    for code, sent in (("NO_NODE", False), ("TIMEOUT", True)):
        with pytest.raises(AgentUnreachable) as silence:
            asyncio.run(ask(503, b'{"error": {"code": "%s", "message": ""}}' % code.encode()))
        assert silence.value.sent is sent


async def test_the_client_knows_that_nobody_listens() -> None:
    client = HttpAgentClient()
    async with agent(200, b"{}") as endpoint:
        pass
    try:
        with pytest.raises(AgentUnreachable) as silence:
            await client.call(endpoint, "t", "GET", "/v1/contexts/ab", None)
        assert silence.value.sent is False
    finally:
        await client.close()
