"""Indexes of a few rows of a table, and the conditions with which queries use them."""

from __future__ import annotations

from sqlalchemy import Column, ColumnElement, Index, literal_column, text


def partial(name: str, *columns: str, where: str) -> Index:
    """An index of the few rows for which that holds, so that the others are not written into it. A query uses it only if it has
    the same condition, without a parameter: see `named` and `positive`."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def named(column: Column[str]) -> ColumnElement[bool]:
    """The condition of an index of rows where the column is not empty."""
    return column != literal_column("''")


def positive(column: Column[int]) -> ColumnElement[bool]:
    """The condition of an index of rows where the column is above 0."""
    return column > literal_column("0")
