"""Notices on their way to a receiver that fails in every way, with servers that are killed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from email import message_from_string
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from brickyard.access import Authorizer
from brickyard.domain.clock import Ids
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.mailserver import mail_server
from brickyard.domain.notifications import MAIL, EmailNotifications, Event, Notice, Notifying, Webhook, WebhookNotifications
from brickyard.features.notifications import rules
from brickyard.features.notifications.loop import NotificationLoop
from brickyard.features.notifications.mail import MailSender
from brickyard.features.notifications.model import (
    Config,
    CreateDestination,
    Destination,
    DestinationId,
    EmailConfig,
    GenericWebhookConfig,
    PagerdutyConfig,
    SlackConfig,
    TeamsConfig,
    UpdateDestination,
)
from brickyard.features.notifications.service import DestinationService, Receivers
from brickyard.features.notifications.webhooks import WebhookSender
from brickyard.machine.outbound import networks
from brickyard.storage.sealer import Sealer
from brickyard.store.outbox import MAX_WAITING
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.desk import ADMIN
from tests.support.people import enter
from tests.support.smtp import Smtp

KEY = b"k" * 32
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"])
HERE = networks("127.0.0.0/8")


class Receiver:
    """An HTTP server on this machine that answers as `answers` says, one after the other, and then with 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[web.Response | float] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((dict(request.headers), await request.read()))
        answer = self.answers.pop(0) if self.answers else web.Response()
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return web.Response()
        return answer

    @property
    def deliveries(self) -> list[str]:
        return [headers["X-Brickyard-Delivery"] for headers, _ in self.requests]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/hook"  # type: ignore[union-attr] # it listens
    yield made
    await runner.cleanup()


class Post:
    """Destinations, and the loops of servers that send to them."""

    def __init__(self, store: Store, mail: MailSender | None = None) -> None:
        self.store, self.clock, self.mail = store, ManualClock(), mail
        self.service = DestinationService(
            store=store,
            clock=self.clock,
            ids=Ids(),
            authorizer=Authorizer(),
            sealer=Sealer(key=KEY),
            key=KEY,
            mails=mail is not None,
        )
        self.numbers = iter(range(1, 10_000))

    def server(self, allowed: Any = HERE, **more: Any) -> NotificationLoop:
        loop = NotificationLoop(
            store=self.store,
            clock=self.clock,
            allowed=allowed,
            mail=self.mail,
            sealer=Sealer(key=KEY),
            key=KEY,
            workspace_id="7",
            page_url="https://brickyard.example",
            registry=CollectorRegistry(),
            **more,
        )
        loop._webhooks = WebhookSender(allowed=allowed, answer_s=0.3)
        return loop

    async def create(self, config: Config) -> str:
        return (await self.service.create(ADMIN, CreateDestination(display_name="here", config=config))).id

    async def webhook(self, url: str, **more: Any) -> str:
        return await self.create(Config(generic_webhook=GenericWebhookConfig(url=url, **more)))

    async def notify(self, target: str, count: int = 1, **fields: Any) -> list[Notice]:
        """Has so many notices wait; returns those that were refused."""
        notices = [
            Notice(
                notice_id=f"{next(self.numbers):032x}",
                receiver=target,
                event=Event.FAILURE,
                job_id=1,
                job_name="nightly",
                run_id=2,
                at_ms=0,
                **fields,
            )
            for _ in range(count)
        ]
        return await self.store.write(lambda tx: tx.outbox.add(notices))

    async def waiting(self, target: str) -> int:
        return await self.store.read(lambda tx: tx.outbox.waiting(target))

    async def get(self, target: str) -> Destination:
        return await self.service.get(ADMIN, DestinationId(id=target))


@pytest.fixture
async def post(store: Store) -> Post:
    await store.write(lambda tx: enter(tx, ADMIN))
    return Post(store)


@BOTH
async def test_a_notice_is_signed_and_sent_once(post: Post, receiver: Receiver) -> None:
    target = await post.webhook(receiver.url, username="u", password="p")
    await post.notify(target, task_key="a", task_run_id=3, result="FAILED", reason="no disk")
    servers = [post.server() for _ in range(3)]
    await asyncio.gather(*(each.send(target) for each in servers))
    [(headers, body)] = receiver.requests
    assert json.loads(body) == {
        "event_type": "task.on_failure",
        "workspace_id": "7",
        "run": {"run_id": 2},
        "job": {"job_id": 1, "name": "nightly"},
        "task": {"task_key": "a", "run_id": 3},
        "result": {"result_state": "FAILED", "message": "no disk"},
    }
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"u:p"
    found = await post.get(target)
    assert found.config is not None
    hook = found.config.generic_webhook
    assert hook is not None
    assert (hook.url, hook.username, hook.password) == (None, None, None)
    assert (hook.url_set, hook.username_set, hook.password_set) == (True, True, True)
    signed = rules.signature(hook.signing_secret or "", body, now_s=post.clock.now_ms() // 1000)
    assert headers["X-Brickyard-Signature"] == signed
    assert found.delivery is not None
    assert found.delivery.last_success_time == post.clock.now_ms()
    for each in servers:
        await each.end()


async def test_attempts_are_bound_and_their_failures_are_seen(post: Post, receiver: Receiver) -> None:
    target = await post.webhook(receiver.url)
    await post.notify(target)
    server = post.server()
    redirect = web.Response(status=302, headers={"Location": receiver.url})
    receiver.answers = [web.Response(status=500), redirect, 1.0, web.Response(status=404), web.Response(status=503)]
    whys = []
    for attempt in range(1, rules.MAX_ATTEMPTS + 1):
        await server.send(target)
        await server.send(target)
        assert len(receiver.requests) == attempt, "the next attempt comes later"
        whys.append((await post.get(target)).delivery.last_failure)  # type: ignore[union-attr] # it has one
        post.clock.advance(ms=rules.backoff_ms(attempt))
    await server.send(target)
    assert len(set(receiver.deliveries)) == 1
    assert len(receiver.deliveries) == rules.MAX_ATTEMPTS
    assert whys == [
        "the answer was 500",
        "the answer was 302, and redirects are not followed",
        "no answer within 0.3 s",
        "the answer was 404",
        "the answer was 503",
    ]
    found = (await post.get(target)).delivery
    assert found is not None
    assert (found.waiting, found.undelivered) == (0, 1)
    assert sum(rules.BACKOFF_S) <= 3600
    await server.end()


@BOTH
async def test_a_killed_server_loses_no_notice(post: Post, receiver: Receiver) -> None:
    target = await post.webhook(receiver.url)
    await post.notify(target)
    killed = post.server()
    await post.store.write(lambda tx: killed._take(tx, target, post.clock.now_ms()))  # and then it is killed
    other = post.server()
    await other.send(target)
    assert receiver.requests == [], "it may just be on its way"
    post.clock.advance(ms=rules.backoff_ms(1))
    await other.send(target)
    assert len(receiver.requests) == 1
    assert await post.waiting(target) == 0
    await other.end()


async def test_a_dead_receiver_neither_fills_the_database_nor_delays_others(post: Post, receiver: Receiver) -> None:
    dead, good = await post.webhook("http://127.0.0.1:9/"), await post.webhook(receiver.url)
    assert await post.notify(dead, MAX_WAITING) == []
    assert len(await post.notify(dead, 3)) == 3
    await post.notify(good)
    server = post.server()
    await server.run_once()
    async with asyncio.timeout(5):
        while not receiver.requests:
            await asyncio.sleep(0.01)
    await post.service.delete(ADMIN, DestinationId(id=dead))
    assert await post.waiting(dead) == 0
    await server.end()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.1/", "not a public address"),
        ("https://[::1]/", "not a public address"),
        ("https://[::ffff:10.0.0.1]/", "not a public address"),
        ("https://169.254.169.254/latest", "not a public address"),
        ("https://0x7f.1/", "not a public address"),
        ("https://localhost/", "not a public address"),
        ("http://8.8.8.8/", "use https"),
    ],
)
async def test_a_destination_does_not_reach_into_the_server(post: Post, url: str, why: str) -> None:
    target = await post.webhook(url)
    await post.notify(target)
    server = post.server(allowed=())
    await server.send(target)
    assert why in str((await post.get(target)).delivery)
    await server.end()


async def test_teams_gets_a_card_whose_text_is_no_markdown(post: Post, receiver: Receiver) -> None:
    target = await post.create(Config(microsoft_teams=TeamsConfig(url=receiver.url)))
    await post.notify(target, reason="no disk", task_key="[pay](https://evil.example)")
    server = post.server()
    await server.send(target)
    sent = json.loads(receiver.requests[0][1])
    assert sent["type"] == "message"
    [attachment] = sent["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    content = attachment["content"]
    link = "https://brickyard.example/jobs/1/runs/2"
    assert [each["inlines"][0]["text"] for each in content["body"]] == [
        "Task [pay](https://evil.example) of job nightly failed.", f"Run: {link}", "Reason: no disk",
    ]  # fmt: skip
    assert {each["type"] for each in content["body"]} == {"RichTextBlock"}
    assert [(each["type"], each["url"]) for each in content["actions"]] == [("Action.OpenUrl", link)]
    assert (await post.get(target)).config == Config(microsoft_teams=TeamsConfig(url_set=True))
    await server.end()


async def test_pagerduty_gets_one_event_however_often_it_is_sent(post: Post, receiver: Receiver) -> None:
    key = "0123456789abcdef0123456789ABCDEF"
    target = await post.create(Config(pagerduty=PagerdutyConfig(integration_key=key)))
    await post.notify(target, reason="no disk")
    receiver.answers = [web.Response(status=500), web.Response(status=202)]
    server = post.server(pagerduty_url=receiver.url)
    await server.send(target)
    post.clock.advance(ms=rules.backoff_ms(1))
    await server.send(target)
    first, second = (json.loads(body) for _, body in receiver.requests)
    assert first == second
    assert (first["routing_key"], first["event_action"]) == (key, "trigger")
    assert first["dedup_key"]
    assert first["payload"]["severity"] == "error"
    assert first["payload"]["summary"] == "Job nightly failed"
    assert first["payload"]["custom_details"]["run"] == {"run_id": 2}
    assert first["links"][0]["href"] == "https://brickyard.example/jobs/1/runs/2"
    assert (await post.get(target)).config == Config(pagerduty=PagerdutyConfig(integration_key_set=True))
    assert await post.waiting(target) == 0
    await server.end()


async def test_slack_gets_a_text(post: Post, receiver: Receiver) -> None:
    target = await post.create(Config(slack=SlackConfig(url=receiver.url)))
    await post.notify(target, reason="no disk")
    server = post.server()
    await server.send(target)
    text = "Job nightly failed.\nRun: https://brickyard.example/jobs/1/runs/2\nReason: no disk"
    assert [json.loads(body) for _, body in receiver.requests] == [{"text": text}]
    await server.end()


async def test_mail_goes_through_the_smtp_server(store: Store) -> None:
    await store.write(lambda tx: enter(tx, ADMIN))
    with Smtp() as smtp:
        mail = MailSender(mail_server(f"smtp://127.0.0.1:{smtp.port}?tls=off", "brickyard@example.com"))
        post = Post(store, mail)
        team = await post.create(Config(email=EmailConfig(addresses=["team@example.com"])))
        await post.notify(team)
        await post.notify(MAIL, addresses=("a@example.com", "nobody@example.com"), reason="no\ndisk")
        server = post.server()
        await asyncio.gather(server.send(team), server.send(MAIL))
        assert sorted(smtp.recipients) == [["a@example.com"], ["team@example.com"]]
        assert any("no\\ndisk" in each and "Subject: Job nightly failed" in each for each in smtp.messages)
        smtp.full = True
        await post.notify(MAIL, addresses=("a@example.com",))
        await server.send(MAIL)
        assert await post.waiting(MAIL) == 1
        await server.end()


async def test_no_name_of_a_job_becomes_a_header_of_mail() -> None:
    with Smtp() as smtp:
        mail = MailSender(mail_server(f"smtp://127.0.0.1:{smtp.port}?tls=off", "brickyard@example.com"))
        for name in ("=?utf-8?q?a=0AX-More:_1=0A=0Amore?=", "a =?utf-8?b?Cg==?="):
            await mail.send(["a@example.com"], subject=name, text="text", delivery="d")
        for each in map(message_from_string, smtp.messages):
            assert "X-More" not in each and each["Auto-Submitted"]
            assert str(each.get_payload()).split() == ["text"]


async def test_mail_that_cannot_be_made_has_no_other_sent_again(store: Store) -> None:
    """A notice of an earlier version may have an address that would be refused now."""
    with Smtp() as smtp:
        post = Post(store, MailSender(mail_server(f"smtp://127.0.0.1:{smtp.port}?tls=off", "brickyard@example.com")))
        await post.notify(MAIL, addresses=("=?utf-8?q?a=0Ab?=@example.com",))
        await post.notify(MAIL, addresses=("a@example.com",))
        server = post.server()
        for _ in range(rules.MAX_ATTEMPTS):
            await server.send(MAIL)
            post.clock.advance(seconds=rules.BACKOFF_S[-1])
        assert smtp.recipients == [["a@example.com"]]
        assert await post.waiting(MAIL) == 0, "it is given up"
        await server.end()


async def test_what_cannot_be_told_is_refused(post: Post) -> None:
    async def refused(notifying: Notifying) -> str:
        with pytest.raises(InvalidParameterValue) as caught:
            await post.store.read(lambda tx: Receivers(mails=False).check(tx, notifying))
        return caught.value.message

    unknown = WebhookNotifications(on_start=[Webhook(id="x")])
    assert "'x' does not exist" in await refused(Notifying(webhook_notifications=unknown))
    assert "smtp_url" in await refused(Notifying(email_notifications=EmailNotifications(on_failure=["a@example.com"])))
    await post.store.read(lambda tx: Receivers(mails=False).check(tx, Notifying(email_notifications=EmailNotifications())))


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (Config(), "exactly one"),
        (Config(pagerduty=PagerdutyConfig()), "integration_key"),
        (Config(pagerduty=PagerdutyConfig(integration_key="k" * 31 + "/")), "integration_key"),
        (Config(microsoft_teams=TeamsConfig(url="ftp://x/")), "https://HOST/PATH"),
        (Config(microsoft_teams=TeamsConfig(url="https://x/", tenant_id="t")), "tenant_id"),
        (Config(databricks_app_teams={"x": "y"}), "databricks_app_teams"),
        (Config(slack=SlackConfig(url="https://x/", oauth_token="t")), "oauth_token"),
        (Config(email=EmailConfig(addresses=["a@example.com"])), "smtp_url"),
        (Config(generic_webhook=GenericWebhookConfig(url="ftp://x/")), "https://HOST/PATH"),
        (Config(generic_webhook=GenericWebhookConfig(url="https://u:p@x/")), "https://HOST/PATH"),
        (Config(generic_webhook=GenericWebhookConfig(url="https://x/", password="p")), "username"),
    ],
)
async def test_refused_configurations(post: Post, config: Config, why: str) -> None:
    with pytest.raises(InvalidParameterValue, match=why):
        await post.create(config)


async def test_a_password_does_not_follow_to_another_url(post: Post) -> None:
    target = await post.webhook("https://a.example/", username="u", password="p")
    moved = Config(generic_webhook=GenericWebhookConfig(url="https://b.example/"))
    with pytest.raises(InvalidParameterValue, match="password"):
        await post.service.update(ADMIN, UpdateDestination(id=target, config=moved))
    named = await post.service.update(ADMIN, UpdateDestination(id=target, display_name="there"))
    assert named.display_name == "there"
