"""Page tokens of lists by name: they hold a name and grant nothing, so anybody may make one."""

from __future__ import annotations

import base64
import binascii

from brickyard.domain.errors import InvalidParameterValue


def token_after(name: str) -> str:
    """The token for the page after that name; "" for none."""
    return base64.urlsafe_b64encode(name.encode()).decode()


def name_after(token: str) -> str:
    """The name that a page token holds."""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise InvalidParameterValue("page_token is not one that this call returned. Leave it out for the first page.") from error
