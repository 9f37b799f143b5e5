"""Calls of Databricks' SQL protocol: Thrift's binary protocol, one call in the body of a POST. Pure.

The messages are those of `databricks-sql-connector` (TCLIService), which is HiveServer2's protocol with Databricks' own fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from databricks.sql.thrift_api.TCLIService import TCLIService
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from brickyard.gateway.sql import shape


class NotThrift(Exception):
    """A body that is no call of this protocol."""


class Call(NamedTuple):
    name: str
    sequence: int
    request: Any


def decoded(body: bytes) -> Call:
    """The call in a body. Raises NotThrift. No size in it may be larger than the body."""
    buffer = TMemoryBuffer(body)
    protocol = TBinaryProtocolAccelerated(buffer, string_length_limit=len(body), container_length_limit=len(body), fallback=False)
    try:
        name, kind, sequence = protocol.readMessageBegin()
        arguments = getattr(TCLIService, f"{name}_args", None)
        if kind not in (TMessageType.CALL, TMessageType.ONEWAY):
            raise NotThrift(f"{name[:100]!r} is no call.")
        if arguments is None:  # of a client of Hive's, as GetLog is: it goes on without once it reads that nobody serves it
            return Call(name, sequence, None)
        shape.admit(body, buffer.cstringio_buf.tell())
        given = arguments()
        given.read(protocol)
    except shape.TooMany as error:
        raise NotThrift(str(error)) from error
    except (TException, EOFError, ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise NotThrift("The body is no call of Thrift's binary protocol.") from error
    if given.req is None:
        raise NotThrift(f"{name} has no request.")
    return Call(name, sequence, given.req)


def encoded(call: Call, answer: Any) -> bytes:
    """The answer to a call."""
    result = getattr(TCLIService, f"{call.name}_result")()
    result.success = answer
    return _written(call, TMessageType.REPLY, result)


def refused(call: Call, why: str) -> bytes:
    """The answer to a call that is not served."""
    return _written(call, TMessageType.EXCEPTION, TApplicationException(TApplicationException.UNKNOWN_METHOD, why))


def _written(call: Call, kind: int, content: Any) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocolAccelerated(buffer, fallback=False)
    protocol.writeMessageBegin(call.name, kind, call.sequence)
    content.write(protocol)
    protocol.writeMessageEnd()
    return bytes(buffer.getvalue())
