"""Opens the Spark Connect gateway according to the server's settings."""

from __future__ import annotations

import grpc

from brickyard.api.edge.authentication import Authenticator
from brickyard.clusters.attach.service import AttachService
from brickyard.config.settings import CONNECT_PORT, Settings
from brickyard.domain.notes import Note, unnoted
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.errors import GatewayError

DEFAULT_PORT = CONNECT_PORT


async def open_gateway(
    settings: Settings, *, authenticator: Authenticator, attach: AttachService, note: Note = unnoted
) -> ConnectGateway:
    """A running gateway. Raises GatewayError, also for an unusable certificate."""
    gateway = ConnectGateway(
        authenticator=authenticator,
        attach=attach,
        credentials=_credentials(settings),
        may_start=settings.connect_start_clusters,
        note=note,
    )
    await gateway.start(settings.host, DEFAULT_PORT if settings.connect_port is None else settings.connect_port)
    return gateway


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    if settings.tls_cert is None and not settings.tls_self_signed:
        return None
    from brickyard.gateway import tls  # noqa: PLC0415 - loads a cryptographic library, so only if needed

    try:
        if settings.tls_cert is not None and settings.tls_key is not None:
            return tls.credentials(settings.tls_cert, settings.tls_key)
        return tls.self_signed(settings.data_dir / "tls", settings.host)
    except tls.TlsError as error:
        raise GatewayError(str(error), fatal=True) from error
