"""Failures of statements: Spark's message, its error class and its SQLSTATE, without the stack and the plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from brickyard.gateway.sql.protocol import MESSAGES

STATUS_DETAILS = "grpc-status-details-bin"
_ERROR_INFO = "google.rpc.ErrorInfo"
_ERROR_CLASS = re.compile(r"\A\s*\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_SQLSTATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
# What follows a message and is for the developers of Spark: a plan, the JVM's stack.
_TAIL = re.compile(
    r"(?<=\d);\n(?=\S)|\n(?:\s*(?:'|[+:]- |\+- )|\s+at [\w.$/]+\(|Driver stacktrace:|== (?:Parsed|Analyzed|Optimized|Physical) )"
)
# By the status of a call that failed before the statement ran.
_CALL_STATES = {
    grpc.StatusCode.UNAUTHENTICATED: "28000",
    grpc.StatusCode.PERMISSION_DENIED: "42501",
    grpc.StatusCode.NOT_FOUND: "08001",
    grpc.StatusCode.INVALID_ARGUMENT: "22023",
    grpc.StatusCode.FAILED_PRECONDITION: "08001",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "53300",
    grpc.StatusCode.UNAVAILABLE: "08006",
}
CANCELED = "HY008"
TIMED_OUT = "57014"
OUTCOME_UNKNOWN = "08007"
INVALID_SETTING = "42000"
# What Spark says of tables such as Delta's, which Databricks describes so. Under this name, dbt-databricks asks without JSON.
_NOT_AS_JSON = "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] DESCRIBE TABLE AS JSON"
_UNSUPPORTED = "UNSUPPORTED_FEATURE.TABLE_OPERATION"
_SESSION_GONE = ("INVALID_HANDLE.SESSION_CHANGED", "INVALID_HANDLE.SESSION_CLOSED", "INVALID_HANDLE.SESSION_NOT_FOUND")
_TAKEN_OVER = "INVALID_CURSOR.DISCONNECTED"
_OPERATION_GONE = (*_SESSION_GONE, "INVALID_HANDLE.OPERATION_NOT_FOUND", "INVALID_HANDLE.OPERATION_ABANDONED", "INVALID_CURSOR")


class SqlFailed(Exception):
    """A statement or a call has failed. `text` is for the user. Without Spark's own, `sql_state` is "HY000", `error_class` ""."""

    def __init__(
        self, text: str, *, sql_state: str = "", error_class: str = "", code: grpc.StatusCode = grpc.StatusCode.INTERNAL
    ) -> None:
        self.text = readable(text)
        super().__init__(self.text)
        self.code = code
        named, state = _ERROR_CLASS.match(text), _SQLSTATE.search(text)
        self.error_class = error_class or (named[1] if named else "")
        self.sql_state = sql_state or (state[1] if state else _CALL_STATES.get(code, "HY000"))

    @property
    def of_the_call(self) -> bool:
        """Whether it is about reaching the cluster, not about the statement."""
        return self.code in _CALL_STATES

    @property
    def session_gone(self) -> bool:
        """Whether the session is not, or no longer, the one that the client opened."""
        return any(each in self.text for each in _SESSION_GONE)

    @property
    def operation_gone(self) -> bool:
        """Whether Spark has no such statement, or no longer its result from the beginning."""
        return any(each in self.text for each in _OPERATION_GONE)

    @property
    def taken_over(self) -> bool:
        """Whether another call reads the result of the statement now."""
        return _TAKEN_OVER in self.text


def readable(text: str) -> str:
    """Spark's message without what follows it: the query's plan, the JVM's stack."""
    tail = _TAIL.search(text)
    return (text[: tail.start()] if tail else text).strip().removesuffix(";")


def of_status(code: grpc.StatusCode, details: str, trailing: Iterable[tuple[str, Any]]) -> SqlFailed:
    """The failure in the status of a call of Spark Connect [`ErrorUtils` in Spark: an ErrorInfo with class and SQLSTATE]."""
    told: dict[str, str] = {}
    for key, value in trailing:
        if key == STATUS_DETAILS:
            told = _error_info(value)
    if details.startswith(_NOT_AS_JSON):
        why = f"[{_UNSUPPORTED}] Tables of this format have no DESCRIBE TABLE AS JSON. Leave out AS JSON. SQLSTATE: 0A000"
        return SqlFailed(why, code=code)
    return SqlFailed(details, sql_state=told.get("sqlState", ""), error_class=told.get("errorClass", ""), code=code)


def _error_info(raw: bytes) -> dict[str, str]:
    try:
        status = MESSAGES["Status"].FromString(raw)
        for each in status.details:
            if each.type_url.endswith(_ERROR_INFO):
                return dict(MESSAGES["ErrorInfo"].FromString(each.value).metadata)
    except DecodeError:
        pass
    return {}


def refuse(why: str) -> None:
    """Raises SqlFailed unless there is no reason."""
    if why:
        raise SqlFailed(why, code=grpc.StatusCode.FAILED_PRECONDITION)
