"""The audit log: who asked for which change, from where, and what came of it."""

from __future__ import annotations

import msgspec

from brickyard.domain.spec import Wire

LOGIN = "login"
BLOCKED = "ip_access_lists.blocked"  # an address, at most once a minute
CONNECT_BEGUN, CONNECT_ENDED = "connect.session_begun", "connect.session_ended"
CONNECT_STARTED = "connect.cluster_started"
UI_OPENED = "spark_ui.opened"
PORT_OPENED = "gpu_ports.opened"


class AuditEntry(Wire, frozen=True, kw_only=True):
    """One call. `objects` are the names and ids of what it was about, `fields` the names of the fields that were sent: values are
    never recorded, since any may hold a secret. `credential_id` is the id of the token that was used."""

    id: int = 0  # its row, in the order of writing
    time: int  # epoch ms
    user_name: str = ""
    user_id: str = ""
    credential_id: str = ""
    address: str = ""
    operation: str
    objects: dict[str, str] = {}
    fields: list[str] = []
    status: int
    error_code: str = ""
    request_id: str = ""
    server: str = ""

    @property
    def object_id(self) -> str:
        """What the call was about first of all."""
        return next(iter(self.objects.values()), "")


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects entries that meet all conditions; "" and 0 mean any. Times are epoch milliseconds, both ends included."""

    user_name: str = ""
    operation: str = ""
    object_id: str = ""
    start_ms: int = 0
    end_ms: int = 0


class AuditPosition(msgspec.Struct, frozen=True, array_like=True):
    """A position in the log, newest first: the next page holds what is strictly older."""

    time: int
    id: int


class ListAuditLogs(msgspec.Struct, frozen=True, kw_only=True):
    """What to show, newest first."""

    user_name: str = ""
    operation: str = ""
    object_id: str = ""
    start_time: int = 0
    end_time: int = 0
    page_size: int = 0
    page_token: str = ""

    @property
    def which(self) -> AuditFilter:
        return AuditFilter(
            user_name=self.user_name,
            operation=self.operation,
            object_id=self.object_id,
            start_ms=self.start_time,
            end_ms=self.end_time,
        )


class ListAuditLogsResponse(Wire, frozen=True, kw_only=True):
    """One page. It may have fewer entries than asked for, or none, and still a next page."""

    entries: list[AuditEntry] = []
    next_page_token: str = ""
