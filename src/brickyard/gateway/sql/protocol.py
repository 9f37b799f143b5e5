"""The messages of Spark Connect that SQL needs, as protobuf classes.

They are declared here by name, number and type as Spark's `connect/base.proto`, `relations.proto`, `commands.proto` and
`expressions.proto` have them (3.5 to 4.3). Fields that are not listed are kept and ignored, as protobuf does with unknown ones.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "brickyard.sparkconnect"
# message -> field -> (number, type); "*" repeats it, "map" has text keys. Types that protobuf does not have are messages.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "UserContext": {"user_id": (1, "string"), "user_name": (2, "string")},
    "Plan": {"root": (1, "Relation")},
    "Relation": {"limit": (8, "Limit"), "sql": (10, "Sql")},
    "Limit": {"input": (1, "Relation"), "limit": (2, "int32")},
    "Sql": {"query": (1, "string"), "named_arguments": (4, "map Expression"), "pos_arguments": (5, "* Expression")},
    "Expression": {"literal": (1, "Literal"), "cast": (7, "Cast")},
    "Cast": {"expr": (1, "Expression"), "type_str": (3, "string")},
    "Decimal": {"value": (1, "string"), "precision": (2, "int32"), "scale": (3, "int32")},
    "NullType": {},
    "DataType": {"null": (1, "NullType")},
    "Literal": {
        "null": (1, "DataType"),
        "binary": (2, "bytes"),
        "boolean": (3, "bool"),
        "byte": (4, "int32"),
        "short": (5, "int32"),
        "integer": (6, "int32"),
        "long": (7, "int64"),
        "float": (10, "float"),
        "double": (11, "double"),
        "decimal": (12, "Decimal"),
        "string": (13, "string"),
        "date": (16, "int32"),
        "timestamp": (17, "int64"),
        "timestamp_ntz": (18, "int64"),
        "year_month_interval": (20, "int32"),
        "day_time_interval": (21, "int64"),
    },
    "ReattachOptions": {"reattachable": (1, "bool")},
    "RequestOption": {"reattach_options": (1, "ReattachOptions")},
    "ExecutePlanRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "plan": (3, "Plan"),
        "client_type": (4, "string"),
        "request_options": (5, "* RequestOption"),
        "operation_id": (6, "string"),
        "tags": (7, "* string"),
        "client_observed_server_side_session_id": (8, "string"),
    },
    "ArrowBatch": {"row_count": (1, "int64"), "data": (2, "bytes"), "start_offset": (3, "int64")},
    "ResultComplete": {},
    "ExecutePlanResponse": {
        "session_id": (1, "string"),
        "arrow_batch": (2, "ArrowBatch"),
        "operation_id": (12, "string"),
        "response_id": (13, "string"),
        "result_complete": (14, "ResultComplete"),
        "server_side_session_id": (15, "string"),
    },
    "ReattachExecuteRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "operation_id": (3, "string"),
        "client_type": (4, "string"),
        "last_response_id": (5, "string"),
        "client_observed_server_side_session_id": (6, "string"),
    },
    "ReleaseAll": {},
    "ReleaseUntil": {"response_id": (1, "string")},
    "ReleaseExecuteRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "operation_id": (3, "string"),
        "client_type": (4, "string"),
        "release_all": (5, "ReleaseAll"),
        "release_until": (6, "ReleaseUntil"),
        "client_observed_server_side_session_id": (7, "string"),
    },
    "InterruptRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "client_type": (3, "string"),
        "interrupt_type": (4, "int32"),
        "operation_id": (6, "string"),
        "client_observed_server_side_session_id": (7, "string"),
    },
    "InterruptResponse": {"session_id": (1, "string"), "interrupted_ids": (2, "* string")},
    "ReleaseSessionRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "client_type": (3, "string"),
    },
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "ConfigSet": {"pairs": (1, "* KeyValue"), "silent": (2, "bool")},
    "ConfigKeys": {"keys": (1, "* string")},  # GetOption, Unset
    "ConfigOperation": {"set": (1, "ConfigSet"), "get_option": (4, "ConfigKeys"), "unset": (6, "ConfigKeys")},
    "ConfigRequest": {
        "session_id": (1, "string"),
        "user_context": (2, "UserContext"),
        "operation": (3, "ConfigOperation"),
        "client_type": (4, "string"),
        "client_observed_server_side_session_id": (8, "string"),
    },
    "ConfigResponse": {"session_id": (1, "string"), "pairs": (2, "* KeyValue"), "server_side_session_id": (4, "string")},
    # gRPC's own [google/rpc/status.proto, error_details.proto].
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "Status": {"code": (1, "int32"), "message": (2, "string"), "details": (3, "* Any")},
    "ErrorInfo": {"reason": (1, "string"), "domain": (2, "string"), "metadata": (3, "map string")},
}
_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "float": _Field.TYPE_FLOAT,
    "double": _Field.TYPE_DOUBLE,
}


def _declared() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="brickyard/sparkconnect.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def _add(message: Any, name: str, number: int, kind: str) -> None:
    *how, kind = kind.split()
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if how else _Field.LABEL_OPTIONAL
    if how == ["map"]:
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string")
        _add(entry, "value", 2, kind)
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{message.name}.{entry.name}"
    elif kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


MESSAGES = _declared()


def message(name: str, **fields: Any) -> Any:
    """A message of that name. None: the field is left out."""
    return MESSAGES[name](**{field: value for field, value in fields.items() if value is not None})
