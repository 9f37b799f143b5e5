"""How the API is served: one place for what the server and the tests have around it."""

from __future__ import annotations

from typing import Any

import uvicorn

from brickyard.api.bounded import BoundedHttp

DRAIN_S = 2  # requests in flight get so long when the server stops
KEEP_ALIVE_S = 75  # longer than clients keep a connection that they do not use: they never meet one that is just being closed


def serving(application: Any, *, trusted_proxies: str = "") -> uvicorn.Config:
    """For an ASGI application on sockets that are bound already. `trusted_proxies`: as the setting."""
    return uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
        loop="none",
        http=BoundedHttp,
        ws="none",
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=trusted_proxies,  # never None: uvicorn would take the environment's FORWARDED_ALLOW_IPS
    )
