"""What a request may be like before it is read."""

from __future__ import annotations

import contextlib
import struct

import pytest
from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from hypothesis import given
from hypothesis import strategies as st
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from brickyard.gateway.sql import shape, thrift

TEXTS = st.text(max_size=20)
PARAMETERS = st.builds(
    ttypes.TSparkParameter,
    ordinal=st.none() | st.integers(0, 300),
    name=st.none() | TEXTS,
    type=st.none() | TEXTS,
    value=st.none() | st.builds(ttypes.TSparkParameterValue, stringValue=TEXTS),
)
REQUESTS = st.builds(
    ttypes.TExecuteStatementReq,
    sessionHandle=st.just(ttypes.TSessionHandle(ttypes.THandleIdentifier(b"\0" * 16, b"\1" * 16))),
    statement=TEXTS,
    enforceEmbeddedSchemaCorrectness=st.booleans(),
    confOverlay=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=5),
    runAsync=st.booleans(),
    queryTimeout=st.integers(0, 1 << 40),
    parameters=st.none() | st.lists(PARAMETERS, max_size=20),
)


def call(request: object) -> tuple[bytes, int]:
    """A call as clients write it, and where its struct begins."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin("ExecuteStatement", TMessageType.CALL, 7)
    at = buffer.cstringio_buf.tell()
    arguments = TCLIService.ExecuteStatement_args()
    arguments.req = request
    arguments.write(protocol)
    return bytes(buffer.getvalue()), at


def nested(*parts: bytes) -> bytes:
    """A call whose request has these bytes."""
    whole, at = call(None)
    return whole[:at] + bytes((TType.STRUCT, 0, 1)) + b"".join(parts)


@given(REQUESTS)
def test_requests_of_clients_are_walked_to_their_end_and_read(request: ttypes.TExecuteStatementReq) -> None:
    body, at = call(request)
    assert shape.admit(body, at) == len(body)
    assert thrift.decoded(body) == ("ExecuteStatement", 7, request)


@given(REQUESTS, st.data())
def test_a_changed_request_is_read_or_refused(request: ttypes.TExecuteStatementReq, data: st.DataObject) -> None:
    body = bytearray(call(request)[0])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(thrift.NotThrift):
        thrift.decoded(bytes(body[: data.draw(st.integers(0, len(body)))]))


@given(st.binary(max_size=200))
def test_garbage_is_refused(body: bytes) -> None:
    with pytest.raises(thrift.NotThrift):
        thrift.decoded(body)


def field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


def many(kind: int, number: int) -> bytes:
    """The beginning of a list."""
    return struct.pack(">bi", kind, number)


@pytest.mark.parametrize(
    "body",
    [
        nested(field(TType.LIST, 1288), many(TType.STRUCT, 3_000_000), bytes(3_000_002)),  # parameters with nothing in them
        nested(field(TType.LIST, 99), many(TType.BOOL, 3_000_000), bytes(3_000_002)),
        nested(field(TType.LIST, 99), *[many(TType.LIST, 1)] * 100_000),
        nested(*[field(TType.STRUCT, 1)] * 100_000),
    ],
    ids=["structs", "numbers", "lists", "depth"],
)
def test_what_would_take_much_memory_is_not_read(body: bytes) -> None:
    with pytest.raises(thrift.NotThrift) as caught:
        thrift.decoded(body)
    assert isinstance(caught.value.__cause__, shape.TooMany)


@pytest.mark.parametrize("length", [-1, 1 << 30])
def test_a_length_beyond_the_message_is_refused(length: int) -> None:
    with pytest.raises(thrift.NotThrift):
        thrift.decoded(nested(field(TType.STRING, 2), struct.pack(">i", length), b"SELECT 1"))
