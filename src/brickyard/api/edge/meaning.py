"""What changes the meaning of a call and is not supported is refused: to leave it out would do something else.

A part of a file that is sent with `Content-Range` or `part_number` would otherwise replace the whole of it, and a request with
`If-None-Match: *` would replace what that protects. This is so for every call of a user that changes something. Calls that only
read ignore what they do not know, since newer clients send more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

from brickyard.api.edge.decode import RequestDecoder
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.errors import InvalidParameterValue

_HEADERS = {
    b"content-range": "parts of a body cannot be sent; send all of it in one request",
    b"content-encoding": "bodies are taken as they are; send it without an encoding",
    b"if-match": "this call takes no conditions; send it without",
    b"if-none-match": "this call takes no conditions; send it without",
    b"if-unmodified-since": "this call takes no conditions; send it without",
    b"if-modified-since": "this call takes no conditions; send it without",
    b"x-http-method-override": "the method is the request's own; send it with that",
}
_PLAIN = b"identity"  # a Content-Encoding that changes nothing
# The workspace's id in URLs copied from a browser, and what SCIM clients want to see of the answer.
_HARMLESS = frozenset({"o", "attributes", "excludedAttributes"})
_SHOWN = 100


class Meaning:
    """Checks calls of one operation."""

    def __init__(self, operation: Operation, decoder: RequestDecoder) -> None:
        self.checks = operation.changes and operation.auth is Auth.USER
        in_path = {name for path in operation.paths for name in re.findall(r"\{(\w+)", path)}
        elsewhere = in_path | set(operation.from_headers.values()) | set(operation.surroundings)
        self._known = frozenset() if operation.reads_body else frozenset(decoder.fields) - elsewhere
        self._headers = _HEADERS.keys() - {name.encode() for name in operation.from_headers}

    def check(self, query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises InvalidParameterValue."""
        for name, value in headers:
            if name in self._headers and value.strip().lower() != _PLAIN:
                raise InvalidParameterValue(f"header '{name.decode().title()}': {_HEADERS[name]}.")
        if query:
            for field, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
                if field not in self._known and field not in _HARMLESS:
                    takes = f"There are: {', '.join(sorted(self._known))}" if self._known else "This call has none in its query"
                    raise InvalidParameterValue(f"field '{field[:_SHOWN]}': there is no such query parameter. {takes}.")
