"""Handles of sessions and statements. They say all that another server needs to go on: no server has sessions of its own. Pure.

A session's handle is Spark's two ids of it: the one that the gateway chose, and the one that Spark gave to its incarnation. A
statement's handle is the id of Spark's operation and the id of its session. The last byte of the former says how its client reads
results. A handle is no credential: Spark looks for both ids among the sessions of the user whose token the call bears.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from databricks.sql.thrift_api.TCLIService import ttypes

from brickyard.gateway.sql.columns import Column
from brickyard.gateway.sql.settings import TIMESTAMP_AS_STRING

_TYPE = ttypes.TTypeId
_COMPLEX = {_TYPE.ARRAY_TYPE, _TYPE.MAP_TYPE, _TYPE.STRUCT_TYPE}
_INTERVALS = {_TYPE.INTERVAL_YEAR_MONTH_TYPE, _TYPE.INTERVAL_DAY_TIME_TYPE}
_EMPTY = bytes(16)


class Form(NamedTuple):
    """How a client reads results: as Arrow at all, compressed, and which types as Arrow has them; whether it downloads
    what links lead to."""

    arrow: bool = False
    lz4: bool = False
    complex: bool = False
    decimals: bool = False
    intervals: bool = False
    timestamps: bool = False
    links: bool = False

    def takes(self, columns: list[Column]) -> bool:
        """Whether it reads these columns as Arrow has them. Otherwise it gets them as a column set."""
        kinds = {column.type for column in columns}
        return (
            self.arrow
            and (self.complex or not kinds & _COMPLEX)
            and (self.decimals or _TYPE.DECIMAL_TYPE not in kinds)
            and (self.intervals or not kinds & _INTERVALS)
            and (self.timestamps or _TYPE.TIMESTAMP_TYPE not in kinds)
        )

    @classmethod
    def of(cls, request: Any) -> Form:
        """What a TExecuteStatementReq asks for. A client that says nothing of types reads them as Arrow has them."""
        native = request.useArrowNativeTypes
        text = (request.confOverlay or {}).get(TIMESTAMP_AS_STRING, "false").lower() == "true"
        return cls(
            arrow=bool(request.canReadArrowResult),
            lz4=bool(request.canDecompressLZ4Result),
            complex=native is None or bool(native.complexTypesAsArrow),
            decimals=native is None or bool(native.decimalAsArrow),
            intervals=native is not None and bool(native.intervalTypesAsArrow),
            timestamps=not text and (native is None or native.timestampAsArrow is not False),
            links=bool(request.canDownloadResult),
        )


def new_operation_id(form: Form) -> str:
    """An id for a statement whose client reads results so."""
    flags = sum(1 << at for at, each in enumerate(form) if each)
    return str(uuid.UUID(bytes=uuid.uuid4().bytes[:15] + bytes((flags,))))


def form_of(operation_id: str) -> Form:
    """How the client of a statement reads results."""
    flags = uuid.UUID(operation_id).bytes[15]
    return Form(*(bool(flags >> at & 1) for at in range(len(Form._fields))))


def session_handle(session_id: str, incarnation: str) -> Any:
    """A TSessionHandle. `incarnation`: Spark's own id; "" if it tells none."""
    return ttypes.TSessionHandle(_identifier(session_id, incarnation))


def session_ids(handle: Any) -> tuple[str, str]:
    """The id and the incarnation in a handle. Raises ValueError if it is none."""
    return _ids(handle.sessionId)


def operation_handle(operation_id: str, session_id: str) -> Any:
    """A TOperationHandle of a statement."""
    return ttypes.TOperationHandle(_identifier(operation_id, session_id), ttypes.TOperationType.EXECUTE_STATEMENT, True)


def operation_ids(handle: Any) -> tuple[str, str]:
    """The ids of the statement and of its session. Raises ValueError if it is none."""
    return _ids(handle.operationId)


def _identifier(public: str, other: str) -> Any:
    return ttypes.THandleIdentifier(uuid.UUID(public).bytes, uuid.UUID(other).bytes if other else _EMPTY)


def _ids(identifier: Any) -> tuple[str, str]:
    secret = identifier.secret
    other = str(uuid.UUID(bytes=secret)) if secret and secret != _EMPTY else ""
    return str(uuid.UUID(bytes=identifier.guid)), other
