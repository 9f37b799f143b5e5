"""Sends the notices of the outbox.

One server at a time does it (a lease); where two believe to be that one, the rows decide: a notice is taken in a transaction that
counts the attempt and sets the time of the next one, before anything is sent. So a server that is killed costs an attempt, and
no notice. Receivers know repetitions by the delivery's id. Each receiver has its own turn, so one that hangs delays only itself.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter

from brickyard.domain.clock import Clock
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.notifications import MAIL, Notice
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.features.notifications import rules
from brickyard.features.notifications.model import DestinationRow, DestinationType, Undelivered
from brickyard.features.notifications.rows import DestinationRows
from brickyard.machine.outbound import Network
from brickyard.storage.sealer import Sealer
from brickyard.store.store import Store
from brickyard.store.tx import Tx

if TYPE_CHECKING:  # HTTP and SMTP, only where they are used
    from brickyard.features.notifications.mail import MailSender
    from brickyard.features.notifications.webhooks import WebhookSender

EVERY_S = 1.0
AT_ONCE = 10  # notices of one receiver
LATEST_MS = 60_000  # when a notice that was taken for the last time is looked at again, if its server is killed
NO_SERVER = "this workspace sends no e-mail: the setting smtp_url is empty"

log = structlog.get_logger(__name__)


class NotificationLoop(Periodic):
    """One per server. `page_url`: where the web page is, "" if that is not known. `key` is the workspace's. `allowed`: networks
    to which notifications may be sent, besides public addresses."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        allowed: Sequence[Network],
        mail: MailSender | None,
        sealer: Sealer,
        key: bytes,
        workspace_id: str,
        page_url: str,
        pagerduty_url: str = rules.PAGERDUTY_URL,
        registry: CollectorRegistry,
        held: Lease = always,
    ) -> None:
        super().__init__(every_s=EVERY_S, database=store, held=held)
        self._store = store
        self._clock = clock
        self._allowed = allowed
        self._webhooks: WebhookSender | None = None
        self._mail = mail
        self._sealer = sealer
        self._key = key
        self._workspace_id = workspace_id
        self._page_url = page_url
        self._pagerduty_url = pagerduty_url
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._sent = Counter(
            "brickyard_notifications", "Attempts to send a notification, by outcome", ["outcome"], registry=registry
        )

    async def run_once(self) -> None:
        """Begins to send what is due."""
        for receiver in await self._store.read(lambda tx: tx.outbox.receivers(self._clock.now_ms()), background=True):
            if receiver not in self._sending:
                self._sending[receiver] = asyncio.create_task(self._turn(receiver))

    async def end(self) -> None:
        left = list(self._sending.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._webhooks is not None:
            await self._webhooks.close()

    async def _turn(self, receiver: str) -> None:
        try:
            await self.send(receiver)
        finally:
            self._sending.pop(receiver, None)

    async def send(self, receiver: str) -> None:
        """Makes one attempt at the notices for a receiver that are due."""
        try:
            now = self._clock.now_ms()
            taken = await self._store.write(lambda tx: self._take(tx, receiver, now), background=True)
            if taken is None:
                return
            row, notices = taken
            whys = await asyncio.gather(*(self._attempt(row, each) for each in notices))
            await self._store.write(lambda tx: self._record(tx, receiver, dict(zip(notices, whys, strict=True))), background=True)
        except DatabaseTrouble:
            return  # what was sent may be sent again
        except Exception:
            log.exception("notifications_failed", receiver=receiver)

    def _take(self, tx: Tx, receiver: str, now: int) -> tuple[DestinationRow | None, list[Notice]] | None:
        """The destination and its notices, with the attempt that now begins. None: there is nobody to send to any more."""
        row = None
        if receiver != MAIL and (row := tx.rows(DestinationRows).get(receiver)) is None:
            log.warning("notification_dropped", receiver=receiver, why="the destination was deleted")
            tx.outbox.forget(receiver)
            return None
        taken = []
        for notice in tx.outbox.due(receiver, now, AT_ONCE):
            attempts = notice.attempts + 1
            following = now + (rules.backoff_ms(attempts) if attempts < rules.MAX_ATTEMPTS else LATEST_MS)
            taken.append(msgspec.structs.replace(notice, attempts=attempts, next_ms=following))
            tx.outbox.update(taken[-1])
        return row, taken

    async def _attempt(self, row: DestinationRow | None, notice: Notice) -> str:
        """Sends a notice. Returns why it was not taken, "" if it was."""
        if notice.attempts > rules.MAX_ATTEMPTS:
            return "the server was stopped during the last attempt"
        link = f"{self._page_url}/jobs/{notice.job_id}/runs/{notice.run_id}" if self._page_url else ""
        try:
            if row is None or row.destination_type is DestinationType.EMAIL:
                if self._mail is None:
                    return NO_SERVER
                addresses = notice.addresses if row is None else row.addresses
                subject, text = rules.title(notice), rules.text(notice, link)
                await self._mail.send(addresses, subject=subject, text=text, delivery=notice.notice_id)
            else:
                await self._post(row, notice, link)
        except Undelivered as error:
            return str(error)
        except Exception as error:  # of this notice only: others of its turn have been sent, and must not be sent again
            log.exception("notification_broken", receiver=notice.receiver, run_id=notice.run_id)
            return f"the notice cannot be sent: {type(error).__name__}"
        return ""

    async def _post(self, row: DestinationRow, notice: Notice, link: str) -> None:
        secrets = self._sealer.open_variables(row.sealed)
        headers, url = {"X-Brickyard-Delivery": notice.notice_id}, secrets.get("url", "")
        if row.destination_type is DestinationType.SLACK:
            body = msgspec.json.encode({"text": rules.text(notice, link)})
        elif row.destination_type is DestinationType.MICROSOFT_TEAMS:
            body = rules.card(notice, link)
        elif row.destination_type is DestinationType.PAGERDUTY:
            source, url = self._page_url or self._workspace_id, self._pagerduty_url
            body = rules.incident(notice, link, integration_key=secrets["integration_key"], source=source)
        else:
            body = rules.body(notice, self._workspace_id)
            secret = rules.signing_secret(self._key, row.destination_id)
            headers["X-Brickyard-Signature"] = rules.signature(secret, body, now_s=self._clock.now_ms() // 1000)
        if "username" in secrets:
            pair = f"{secrets['username']}:{secrets.get('password', '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        await self._opened().post(url, body, headers)

    def _opened(self) -> WebhookSender:
        if self._webhooks is None:
            from brickyard.features.notifications.webhooks import WebhookSender  # noqa: PLC0415 - as above

            self._webhooks = WebhookSender(allowed=self._allowed)
        return self._webhooks

    def _record(self, tx: Tx, receiver: str, whys: dict[Notice, str]) -> None:
        """Deletes what was taken or is given up, and remembers at the destination how it went."""
        now, row = self._clock.now_ms(), None if receiver == MAIL else tx.rows(DestinationRows).get(receiver)
        for notice, why in whys.items():
            given_up = bool(why) and notice.attempts >= rules.MAX_ATTEMPTS
            if given_up or not why:
                tx.outbox.delete(notice.notice_id)
            self._count(notice, why, given_up=given_up)
            if row is not None and why:
                lost = row.undelivered + given_up
                row = msgspec.structs.replace(row, failure_ms=now, failure=why, undelivered=lost)
            elif row is not None:
                row = msgspec.structs.replace(row, success_ms=now)
        if row is not None and whys:
            tx.rows(DestinationRows).update(row)

    def _count(self, notice: Notice, why: str, *, given_up: bool) -> None:
        self._sent.labels(outcome="given_up" if given_up else "failed" if why else "delivered").inc()
        if why:
            event = "notification_given_up" if given_up else "notification_failed"
            log.warning(event, receiver=notice.receiver, run_id=notice.run_id, attempt=notice.attempts, why=why)
