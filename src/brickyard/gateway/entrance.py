"""Opens the Spark Connect gateway according to the server's settings."""

from __future__ import annotations

from functools import partial

import grpc

from brickyard.api.edge.authentication import Authenticator
from brickyard.clusters.attach.service import AttachService
from brickyard.config.settings import CONNECT_PORT, Settings
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.tracing import Tracing
from brickyard.gateway.connect import ConnectGateway
from brickyard.gateway.passthrough import Passthrough
from brickyard.gateway.tls import ServerCertificate

DEFAULT_PORT = CONNECT_PORT


def gateway(
    settings: Settings,
    *,
    authenticator: Authenticator,
    attach: AttachService,
    certificate: ServerCertificate | None,
    note: Note = unnoted,
    tracing: Tracing | None = None,
) -> ConnectGateway:
    """A gateway that listens nowhere yet. With a certificate, it speaks TLS."""
    return ConnectGateway(
        authenticator=authenticator,
        attach=attach,
        credentials=None if certificate is None else partial(credentials, certificate),
        may_start=settings.connect_start_clusters,
        note=note,
        tracing=tracing,
    )


async def listen(gateway: ConnectGateway, settings: Settings) -> None:
    """Opens Spark Connect's own port. Raises GatewayError."""
    await gateway.start(settings.host, DEFAULT_PORT if settings.connect_port is None else settings.connect_port)


async def behind(gateway: ConnectGateway) -> Passthrough:
    """Has the gateway serve what the returned passthrough leads to it. Raises GatewayError."""
    found = Passthrough()
    found.port = await gateway.serve_at("127.0.0.1", 0, clients=found)
    return found


def credentials(certificate: ServerCertificate) -> grpc.ServerCredentials:
    """gRPC's form of a certificate, for one port: each handshake there has the current one."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = certificate.pair
        return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)])

    known = [certificate.pair]

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """None: as before. gRPC calls it on threads of its own, never twice at a time."""
        if known[0] is certificate.pair:
            return None
        known[0] = certificate.pair
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), fetch)  # type: ignore[arg-type] # its documentation allows None
