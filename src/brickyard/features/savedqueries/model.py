"""Requests, answers and rows of the Queries API, with its field names.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from brickyard.domain.spec import Wire


class RunAsMode(StrEnum):
    OWNER = "OWNER"
    VIEWER = "VIEWER"


class DatePrecision(StrEnum):
    DAY_PRECISION = "DAY_PRECISION"
    MINUTE_PRECISION = "MINUTE_PRECISION"
    SECOND_PRECISION = "SECOND_PRECISION"


class TextValue(Wire, frozen=True, kw_only=True):
    value: str | None = None


class NumericValue(Wire, frozen=True, kw_only=True):
    value: float | None = None


class DateValue(Wire, frozen=True, kw_only=True):
    date_value: str | None = None
    precision: DatePrecision | None = None
    dynamic_date_value: str | None = None


class EnumValue(Wire, frozen=True, kw_only=True):
    enum_options: str | None = None
    values: list[str] | None = None
    multi_values_options: dict[str, Any] | None = None


class QueryParameter(Wire, frozen=True, kw_only=True):
    """A parameter and its default. `rules` refuses the fields of type Any by name."""

    name: str
    title: str | None = None
    text_value: TextValue | None = None
    numeric_value: NumericValue | None = None
    date_value: DateValue | None = None
    enum_value: EnumValue | None = None
    date_range_value: dict[str, Any] | None = None
    query_backed_value: dict[str, Any] | None = None


class QueryFields(Wire, frozen=True, kw_only=True):
    """What a saved query has. `apply_auto_limit`, `parent_path` and `run_as_mode` are only kept."""

    display_name: str | None = None
    query_text: str | None = None
    description: str | None = None
    warehouse_id: str | None = None
    catalog: str | None = None
    schema: str | None = None
    parameters: list[QueryParameter] | None = None
    tags: list[str] | None = None
    apply_auto_limit: bool | None = None
    run_as_mode: RunAsMode | None = None
    parent_path: str | None = None
    owner_user_name: str | None = None


class CreateQuery(Wire, frozen=True, kw_only=True):
    query: QueryFields | None = None
    auto_resolve_display_name: bool | None = None


class QueryId(Wire, frozen=True, kw_only=True):
    id: str


class UpdateQuery(QueryId, frozen=True, kw_only=True):
    update_mask: str
    query: QueryFields | None = None
    auto_resolve_display_name: bool | None = None


class ListSavedQueries(Wire, frozen=True, kw_only=True):
    page_size: int | None = None
    page_token: str | None = None


class QueryView(QueryFields, frozen=True, kw_only=True):
    id: str
    create_time: str
    update_time: str
    last_modifier_user_name: str
    lifecycle_state: str = msgspec.field(default="")


class ListSavedQueriesResponse(Wire, frozen=True, kw_only=True):
    results: list[QueryView]
    next_page_token: str | None = None


class SavedQueryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A saved query as it is stored. `fields.owner_user_name` is its owner."""

    query_id: str
    created_ms: int
    updated_ms: int
    modified_by: str
    fields: QueryFields
