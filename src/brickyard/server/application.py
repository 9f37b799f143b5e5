"""The application that the web server serves, made of a server's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from starlette.types import ASGIApp

from brickyard.api.app import all_operations, build_app
from brickyard.api.context import ApiContext
from brickyard.config.settings import Settings
from brickyard.domain.ratelimits import DOCUMENTED, covers, rates
from brickyard.providers.base import SetupError
from brickyard.server.assembly import Parts
from brickyard.server.looplag import LargestLag
from brickyard.server.resources import Resources
from brickyard.store.membership import addresses


class Readiness(Protocol):
    """The server, which knows what it waits for."""

    async def ready(self) -> str:
        """Why it is not ready; "" if it is."""
        ...


@dataclass(frozen=True)
class _State:
    """What this server says of itself."""

    given: Resources
    parts: Parts
    readiness: Readiness
    lag_s: LargestLag

    async def ready(self) -> str:
        return await self.readiness.ready()

    def disk_shortage(self) -> str:
        return self.parts.loops.room.shortage()

    def servers(self) -> int:
        return len(addresses(self.given.member))

    async def refresh_metrics(self) -> None:
        await self.parts.measures.refresh()


def application(given: Resources, parts: Parts, *, readiness: Readiness) -> ASGIApp:
    """The application that the web server serves."""
    context = ApiContext(
        services=parts.services,
        agents=parts.nodes.agents,
        workspace_id=given.workspace_id,
        server=_State(given, parts, readiness, LargestLag(parts.lags.values())),
        metrics=given.metrics,
        host_names=given.settings.host_names,
        workspace_name=given.settings.workspace_name,
        own_hosts=(given.settings.public_url, given.settings.host, given.server_url),
        external_url=given.settings.external_origin,
        metrics_token=given.settings.metrics_token,
        tracing=given.store.tracing,
        rate_limits=_rate_limits(given.settings),
    )
    gateway = parts.gateway
    mounts: dict[str, ASGIApp] = {each.prefix: each for each in (gateway.spark_ui, gateway.ports)}
    mounts |= dict.fromkeys(gateway.sql.prefixes, gateway.sql)
    return build_app(context, authenticator=parts.authenticator, mounts=mounts)


def _rate_limits(settings: Settings) -> dict[str, float]:
    """The rate limits of the settings. Raises SetupError for a name that limits nothing."""
    found, operations = rates(settings.rate_limits), [each.name for each in all_operations()]
    for name in found:
        if name not in DOCUMENTED and not any(covers(name, operation) for operation in operations):
            groups = ", ".join(sorted({operation.partition(".")[0] for operation in operations}))
            raise SetupError(f"rate_limits names {name}, which is no operation; operations begin with {groups}.")
    return found
