"""`dbutils.secrets` behind the kernel: whose secrets a context may read, and what its results then hide."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.contexts import MAX_ASKING, Contexts, Question
from brickyard.agent.host import NodeHost
from brickyard.agent.networks import Networks
from brickyard.agent.node import Node as AgentNode
from brickyard.domain.access import Grant, Permission
from brickyard.domain.node import AskSecrets, SecretsReply
from brickyard.features.secrets.contexts import ContextSecrets
from brickyard.logs.bounded import LogFile
from brickyard.nodes.tokens import InstanceTokens
from brickyard.storage.sealer import Sealer
from brickyard.store.store import Store
from tests.agent.owner import Listener, Owner
from tests.features.secrets.test_secrets import OTHER, Shelf
from tests.support.desk import USER
from tests.support.patience import PATIENCE_S

TOKENS = InstanceTokens(key=b"k" * 32)
SEALER = Sealer(key=b"k" * 32)


class Node:
    """An agent's contexts, and the server that it asks."""

    def __init__(self, store: Store, place: Path, instance_id: str = "i-1") -> None:
        self.shelf = Shelf(store, place)
        self.server = ContextSecrets(store=store, secrets=self.shelf.calls, tokens=TOKENS, sealer=SEALER)
        self.hidden: list[str] = []
        self.sealed: list[str] = []
        self.contexts = Contexts(instance_id=instance_id, hider=self, given=("of the cluster",))
        self.instance_id = instance_id

    def hide(self, secret: str, sealed: str) -> None:
        self.hidden.append(secret)
        self.sealed.append(sealed)

    def make(self, context_id: str, user: str) -> None:
        """As the server does when somebody creates a context."""
        self.contexts.made(context_id, user, TOKENS.ticket(self.instance_id, context_id, user))

    async def read(self, context_id: str, scope: str = "s", key: str = "k") -> tuple[str, str]:
        """The value, or the error's code."""
        reply = await self.contexts.answer(Question(ask=1, context_id=context_id, scope=scope, key=key), self.server.ask)
        return base64.b64decode(reply.value).decode(), reply.error_code


@pytest.fixture
def node(store: Store, tmp_path: Path) -> Node:
    return Node(store, tmp_path)


async def test_each_context_reads_in_the_name_of_its_own_user(node: Node) -> None:
    await node.shelf.filled()
    node.make("mine", USER.user_name)
    node.make("theirs", OTHER.user_name)
    assert await node.read("mine") == ("hunter2", "")
    assert await node.read("mine", "S", "K") == ("hunter2", "")
    assert await node.read("theirs") == ("", "PERMISSION_DENIED")
    assert await node.read("mine", key="missing") == ("", "RESOURCE_DOES_NOT_EXIST")
    assert await node.read("mine", "missing") == ("", "RESOURCE_DOES_NOT_EXIST")
    await node.shelf.calls.put_acl(USER, "s", Grant(OTHER.user_name, Permission.READ))
    assert await node.read("theirs") == ("hunter2", "")
    await node.shelf.calls.delete_acl(USER, "s", OTHER.user_name)
    assert await node.read("theirs") == ("", "PERMISSION_DENIED"), "an answer is kept nowhere"
    names = await node.contexts.answer(Question(ask=1, context_id="mine", scope="s"), node.server.ask)
    assert names.names == ("k",)
    assert (await node.contexts.answer(Question(ask=1, context_id="theirs"), node.server.ask)).names == ("s",)


async def test_nothing_is_read_without_the_ticket_of_that_context(node: Node, store: Store, tmp_path: Path) -> None:
    await node.shelf.filled()
    node.make("mine", USER.user_name)
    assert await node.read("nobodys") == ("", "PERMISSION_DENIED")
    ticket = TOKENS.ticket("i-1", "mine", USER.user_name)
    good = AskSecrets(instance_id="i-1", context_id="mine", user=USER.user_name, ticket=ticket, scope="s", key="k")
    assert (await node.server.ask(good)).value
    forged: list[dict[str, Any]] = [
        {"instance_id": "i-2"}, {"context_id": "other"}, {"user": "admin@example.com"}, {"ticket": "guess"}, {"ticket": ""},
        {"ticket": InstanceTokens(key=b"x" * 32).ticket("i-1", "mine", USER.user_name)},
    ]  # fmt: skip
    for change in forged:
        reply = await node.server.ask(msgspec.structs.replace(good, **change))
        assert (reply.error_code, reply.value) == ("PERMISSION_DENIED", ""), change
    node.contexts.made("mine", "admin@example.com", TOKENS.ticket("i-1", "mine", "admin@example.com"))
    assert await node.read("mine") == ("hunter2", ""), "a context stays its first user's"
    other = Node(store, tmp_path, "i-2")
    other.contexts.made("mine", USER.user_name, ticket)
    assert await other.read("mine") == ("", "PERMISSION_DENIED"), "a ticket of another instance"
    node.contexts.forget("mine")
    assert await node.read("mine") == ("", "PERMISSION_DENIED")


async def test_results_hide_what_their_context_has_read(node: Node) -> None:
    """And not what another has: its owner could otherwise be guessed at."""

    await node.shelf.filled()
    node.make("mine", USER.user_name)
    node.make("theirs", OTHER.user_name)
    said = {"results": {"data": "hunter2, of the cluster"}}
    assert node.contexts.redactor("mine").json(said) == {"results": {"data": "hunter2, [REDACTED]"}}
    await node.read("mine")
    assert node.contexts.redactor("mine").json(said) == {"results": {"data": "[REDACTED], [REDACTED]"}}
    assert node.contexts.redactor("theirs").json(said) == {"results": {"data": "hunter2, [REDACTED]"}}
    assert node.hidden == ["hunter2"]
    assert SEALER.open(node.sealed) == ("hunter2",)


async def test_a_flood_of_questions_is_refused(node: Node) -> None:
    node.make("mine", USER.user_name)
    go = asyncio.Event()

    async def ask(_: AskSecrets) -> SecretsReply:
        await go.wait()
        return SecretsReply(server_token="")

    questions = [asyncio.create_task(node.contexts.answer(Question(ask=n, context_id="mine"), ask)) for n in range(MAX_ASKING)]
    await asyncio.sleep(0)
    refused = await node.contexts.answer(Question(ask=99, context_id="mine"), ask)
    assert refused.error_code == "REQUEST_LIMIT_EXCEEDED"
    go.set()
    assert not any(reply.error_code for reply in await asyncio.gather(*questions))


ASKING = """
import json, sys
print(json.dumps({"event": "ask", "ask": 7, "context_id": "mine", "scope": "s", "key": "k"}), flush=True)
answer = json.loads(sys.stdin.readline())
print(json.dumps({"event": "status", "message": json.dumps(answer)}), flush=True)
print(json.dumps({"id": answer["id"], "result": {}}), flush=True)
"""


async def test_a_node_hosts_question_is_answered(tmp_path: Path) -> None:
    """Through the agent's node, from the host's pipe and back."""
    config = AgentConfig(
        instance_id="i-1", agent_token="a", server_token="s", server_url="", instance_dir=str(tmp_path), cache_dir=str(tmp_path),
        logs_dir=str(tmp_path / "logs"), node_code_dir=str(tmp_path),
    )  # fmt: skip

    asked: list[AskSecrets] = []
    heard = asyncio.Event()

    class Asking(Owner):
        async def ask(self, question: AskSecrets) -> SecretsReply:
            asked.append(question)
            return SecretsReply(server_token="s", value=base64.b64encode(b"hunter2").decode())

    networks, log = Networks(config=config, switchboard=-1), LogFile(tmp_path / "agent.log")
    node = AgentNode(config=config, owner=Asking(), networks=networks, log=log)
    node.contexts.made("mine", USER.user_name, "ticket")
    said: list[dict[str, Any]] = []

    class Heard(Listener):
        def host_reports(self, changes: dict[str, Any]) -> None:
            said.append(changes)
            heard.set()

        def host_asks(self, host: NodeHost, question: Question) -> None:
            node.host_asks(host, question)

    host = NodeHost(Heard())
    await host.start([sys.executable, "-c", ASKING], {})
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()
    await host.kill()
    assert [(each.user, each.ticket, each.scope, each.key) for each in asked] == [(USER.user_name, "ticket", "s", "k")]
    answer = json.loads(said[0]["message"])
    assert (answer["op"], answer["ask"], base64.b64decode(answer["value"])) == ("answer", 7, b"hunter2")
    assert node.redactor.text("hunter2") == "[REDACTED]"
