"""The Notification Destinations API's calls. Everyone sees names, administrators change destinations."""

from __future__ import annotations

import uuid

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.notifications import Notifying
from brickyard.features.notifications import rules
from brickyard.features.notifications.model import (
    Config,
    CreateDestination,
    Delivery,
    Destination,
    DestinationId,
    DestinationList,
    DestinationRow,
    DestinationType,
    EmailConfig,
    GenericWebhookConfig,
    ListDestinations,
    PagerdutyConfig,
    SlackConfig,
    TeamsConfig,
    UpdateDestination,
)
from brickyard.features.notifications.rows import DestinationRows
from brickyard.plan.notices import destinations, mailed
from brickyard.storage.sealer import Sealer
from brickyard.store.store import Store
from brickyard.store.tx import Tx

NO_MAIL = "this workspace sends no e-mail. Administrators configure it with the settings smtp_url and smtp_from"
MAX_PAGE = 100
_SHOWN = 64


class Receivers:
    """Whether those who are to hear of runs can be told. `mails`: the workspace has an SMTP server."""

    def __init__(self, *, mails: bool) -> None:
        self._mails = mails

    def check(self, tx: Tx, notifying: Notifying) -> None:
        """Raises InvalidParameterValue unless all that are named can be told."""
        for each in sorted(destinations(notifying)):
            if tx.rows(DestinationRows).get(each) is None:
                raise InvalidParameterValue(f"webhook_notifications: notification destination {each[:_SHOWN]!r} does not exist.")
        if mailed(notifying) and not self._mails:
            raise InvalidParameterValue(f"email_notifications is not supported: {NO_MAIL}.")


class DestinationService:
    """One per server. Methods raise ApiError. `key` is the workspace's."""

    def __init__(
        self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, sealer: Sealer, key: bytes, mails: bool
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._sealer = sealer
        self._key = key
        self._mails = mails

    async def create(self, caller: Caller, request: CreateDestination) -> Destination:
        """Creates a destination."""
        row = DestinationRow(
            destination_id=str(uuid.UUID(self._ids.hex(32))),
            display_name=request.display_name or "",
            destination_type=DestinationType.WEBHOOK,
            created_ms=self._clock.now_ms(),
        )

        def work(tx: Tx) -> Destination:
            self._require(tx, caller, to="create notification destinations in the")
            made = self._with(row, rules.checked(request.config), rules.checked_name(request.display_name))
            if len(tx.rows(DestinationRows).all()) >= rules.MAX_DESTINATIONS:
                raise QuotaExceeded(
                    f"The workspace has {rules.MAX_DESTINATIONS} notification destinations, which is the maximum."
                )
            tx.rows(DestinationRows).insert(made)
            return self._view(tx, caller, made)

        return await self._store.write(work)

    async def get(self, caller: Caller, request: DestinationId) -> Destination:
        """A destination, with how sending to it goes. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> Destination:
            self._see(tx, caller)
            return self._view(tx, caller, _find(tx, request.id))

        return await self._store.read(work)

    async def list(self, caller: Caller, request: ListDestinations) -> DestinationList:
        """Destinations by name and kind, oldest first."""
        if not 0 <= (request.page_size or 0) <= MAX_PAGE or not (request.page_token or "0").isdecimal():
            raise InvalidParameterValue(f"page_size must be between 1 and {MAX_PAGE}, and page_token of the page before.")
        first, size = int((request.page_token or "0")[:9]), request.page_size or MAX_PAGE

        def work(tx: Tx) -> list[DestinationRow]:
            self._see(tx, caller)
            return tx.rows(DestinationRows).all()

        rows = await self._store.read(work)
        results = [
            Destination(id=row.destination_id, display_name=row.display_name, destination_type=row.destination_type)
            for row in rows[first : first + size]
        ]
        return DestinationList(results=results, next_page_token=str(first + size) if len(rows) > first + size else None)

    async def update(self, caller: Caller, request: UpdateDestination) -> Destination:
        """Sets what is given. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> Destination:
            self._require(tx, caller, to="change notification destinations of the")
            row = _find(tx, request.id)
            known = rules.Checked(row.destination_type, row.addresses, self._sealer.open_variables(row.sealed))
            config = known if request.config is None else rules.checked(request.config, known)
            name = row.display_name if request.display_name is None else rules.checked_name(request.display_name)
            row = self._with(row, config, name)
            tx.rows(DestinationRows).update(row)
            return self._view(tx, caller, row)

        return await self._store.write(work)

    async def delete(self, caller: Caller, request: DestinationId) -> None:
        """Deletes a destination; what waits for it is not sent. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> None:
            self._require(tx, caller, to="delete notification destinations of the")
            tx.rows(DestinationRows).delete(_find(tx, request.id).destination_id)
            tx.outbox.forget(request.id)

        await self._store.write(work)

    def _with(self, row: DestinationRow, config: rules.Checked, name: str) -> DestinationRow:
        if config.kind is DestinationType.EMAIL and not self._mails:
            raise InvalidParameterValue(f"config.email is not supported: {NO_MAIL}.")
        return msgspec.structs.replace(
            row,
            display_name=name,
            destination_type=config.kind,
            addresses=config.addresses,
            sealed=self._sealer.seal_variables(config.secrets),
        )

    def _view(self, tx: Tx, caller: Caller, row: DestinationRow) -> Destination:
        delivery = Delivery(
            waiting=tx.outbox.waiting(row.destination_id),
            last_success_time=row.success_ms or None,
            last_failure_time=row.failure_ms or None,
            last_failure=row.failure or None,
            undelivered=row.undelivered,
        )
        return Destination(
            id=row.destination_id,
            display_name=row.display_name,
            destination_type=row.destination_type,
            config=self._config(caller, row),
            delivery=delivery,
        )

    def _config(self, caller: Caller, row: DestinationRow) -> Config:
        if row.destination_type is DestinationType.EMAIL:
            return Config(email=EmailConfig(addresses=list(row.addresses)))
        secrets = self._sealer.open_variables(row.sealed)
        if row.destination_type is DestinationType.SLACK:
            return Config(slack=SlackConfig(url_set=True))
        if row.destination_type is DestinationType.MICROSOFT_TEAMS:
            return Config(microsoft_teams=TeamsConfig(url_set=True))
        if row.destination_type is DestinationType.PAGERDUTY:
            return Config(pagerduty=PagerdutyConfig(integration_key_set=True))
        return Config(
            generic_webhook=GenericWebhookConfig(
                url_set=True,
                username_set="username" in secrets or None,
                password_set="password" in secrets or None,
                signing_secret=rules.signing_secret(self._key, row.destination_id) if caller.is_admin else None,
            )
        )

    def _see(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to="see the destinations of the")

    def _require(self, tx: Tx, caller: Caller, *, to: str) -> None:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to)


def _find(tx: Tx, destination_id: str) -> DestinationRow:
    row = tx.rows(DestinationRows).get(destination_id)
    if row is None:
        raise ResourceDoesNotExist(f"Notification destination {destination_id[:_SHOWN]!r} does not exist.")
    return row
