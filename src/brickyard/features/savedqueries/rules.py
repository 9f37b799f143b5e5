"""What a saved query may be, how a change changes it, and the values of its parameters. Pure: raises only
InvalidParameterValue."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.sqltasks import SqlParameter
from brickyard.features.savedqueries.model import DatePrecision, DateValue, QueryFields, QueryParameter, QueryView, SavedQueryRow

MAX_TEXT = 1 << 20
MAX_FIELD = 4_096
MAX_ITEMS = 100
UNTITLED = "New query"
_SHOWN = 140
_CHANGED = tuple(each for each in QueryFields.__struct_fields__ if each != "parent_path")


def checked(fields: QueryFields) -> QueryFields:
    """The fields as they are stored."""
    if len(fields.query_text or "") > MAX_TEXT:
        raise InvalidParameterValue(f"query_text has {len(fields.query_text or '')} characters; at most {MAX_TEXT} are allowed.")
    for name in ("display_name", "description", "warehouse_id", "catalog", "schema", "parent_path"):
        if len(getattr(fields, name) or "") > MAX_FIELD:
            raise InvalidParameterValue(f"{name} is too long: at most {MAX_FIELD} characters are allowed.")
    for name, items in (("parameters", fields.parameters), ("tags", fields.tags)):
        if len(items or ()) > MAX_ITEMS:
            raise InvalidParameterValue(f"{name} has {len(items or ())} entries; at most {MAX_ITEMS} are allowed.")
    names = [each.name for each in fields.parameters or ()]
    if len(set(names)) < len(names) or "" in names:
        raise InvalidParameterValue("parameters must have different names.")
    for each in fields.parameters or ():
        _check(each)
    return msgspec.structs.replace(fields, display_name=fields.display_name or UNTITLED)


def _check(parameter: QueryParameter) -> None:
    where = f"Parameter {parameter.name[:_SHOWN]}"
    for name in ("date_range_value", "query_backed_value"):
        if getattr(parameter, name) is not None:
            raise InvalidParameterValue(
                f"{where}: {name} is not supported. Use text_value, numeric_value, date_value or enum_value."
            )
    kinds = ("text_value", "numeric_value", "date_value", "enum_value")
    if sum(getattr(parameter, name) is not None for name in kinds) != 1:
        raise InvalidParameterValue(f"{where} needs one of {', '.join(kinds)}.")
    if parameter.date_value is not None and parameter.date_value.dynamic_date_value:
        raise InvalidParameterValue(f"{where}: dynamic_date_value is not supported. Give date_value.")
    if parameter.enum_value is not None and (
        parameter.enum_value.multi_values_options is not None or len(parameter.enum_value.values or ()) > 1
    ):
        raise InvalidParameterValue(f"{where}: several values are not supported. Leave out multi_values_options.")


def merged(fields: QueryFields, new: QueryFields, mask: str) -> QueryFields:
    """The fields after an update: those that the mask names are as in `new`."""
    names = _CHANGED if mask.strip() == "*" else [each.strip() for each in mask.split(",") if each.strip()]
    if unknown := [each for each in names if each not in _CHANGED]:
        raise InvalidParameterValue(f"update_mask: {unknown[0][:_SHOWN]!r} cannot be changed. Use {', '.join(_CHANGED)}.")
    if not names:
        raise InvalidParameterValue("update_mask is empty. Name the fields to change.")
    changed = {name: getattr(new, name) for name in names}
    if not changed.get("owner_user_name"):
        changed.pop("owner_user_name", None)  # a query always has an owner
    return msgspec.structs.replace(fields, **changed)


def free_name(name: str, taken: Collection[str], *, resolve: bool) -> str:
    """A name that no other query of the folder has. Without `resolve`, a conflict is an error."""
    if name not in taken:
        return name
    if not resolve:
        raise InvalidParameterValue(
            f"A query named {name[:_SHOWN]!r} already exists in this folder. Use another display_name, or"
            " auto_resolve_display_name."
        )
    return next(each for number in range(1, len(taken) + 2) if (each := f"{name} ({number})") not in taken)


def defaults(fields: QueryFields) -> dict[str, SqlParameter]:
    """The default of each parameter that has one, with its type of SQL."""
    found = (_default(each) for each in fields.parameters or ())
    return {each.name: each for each in found if each is not None}


def _default(parameter: QueryParameter) -> SqlParameter | None:
    name = parameter.name
    if (number := parameter.numeric_value) is not None:
        value = number.value or 0.0
        whole = value.is_integer() and abs(value) < 1 << 53
        return SqlParameter(name, str(int(value)) if whole else repr(value), "BIGINT" if whole else "DOUBLE")
    if (date := parameter.date_value) is not None:
        return SqlParameter(name, date.date_value or "", _date_type(date))
    if (choice := parameter.enum_value) is not None:
        options = [each for each in (choice.enum_options or "").split("\n") if each]
        return SqlParameter(name, next(iter((*(choice.values or ()), *options)), ""))
    return SqlParameter(name, parameter.text_value.value or "") if parameter.text_value is not None else None


def _date_type(date: DateValue) -> str:
    return "DATE" if date.precision in (None, DatePrecision.DAY_PRECISION) else "TIMESTAMP_NTZ"


def view(row: SavedQueryRow) -> QueryView:
    """A query as answers show it."""
    return QueryView(
        **msgspec.structs.asdict(row.fields),
        id=row.query_id,
        create_time=_time(row.created_ms),
        update_time=_time(row.updated_ms),
        last_modifier_user_name=row.modified_by,
        lifecycle_state="ACTIVE",
    )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
