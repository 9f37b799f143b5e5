"""Settings of a session, as SQL clients name them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from brickyard.domain.statements import SQL_SETTINGS

# How one statement's result is read: `handles.Form` has it. A session has no place for it, as its handle says nothing of results.
TIMESTAMP_AS_STRING = "spark.thriftserver.arrowBasedRowSet.timestampAsString"
# What says something of the client, or asks for what is so anyway.
_NO_EFFECT = ("spark.thriftserver.", "spark.sql.thriftserver.", "query_tags", "use_cached_result", "hive.server2.")
_PREFIXES = ("set:hiveconf:", "set:hivevar:", "set:system:", "hiveconf:", "hivevar:")


class UnknownSetting(Exception):
    """A setting that Spark or a session has not; says which."""


class Settings(NamedTuple):
    """Spark's settings, the catalog and the schema that a session begins with."""

    spark: dict[str, str]
    catalog: str = ""
    schema: str = ""


def session_settings(given: Mapping[str, str]) -> Settings:
    """What a client's configuration of a session means. Raises UnknownSetting."""
    spark: dict[str, str] = {}
    schema = ""
    for name, value in given.items():
        key = next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), name)
        if key == "use:database":
            schema = value
        elif known := SQL_SETTINGS.get(key.upper()):
            spark[known] = value
        elif key == TIMESTAMP_AS_STRING and value.lower() == "true":
            raise UnknownSetting(f"Configuration {key} is not available for a session. Set it for each statement.")
        elif key.lower().startswith(_NO_EFFECT):
            continue
        elif key.startswith("spark."):
            spark[key] = value
        else:
            raise UnknownSetting(
                f"Configuration {name[:200]} is not available. Use a setting of Spark (spark.*), or leave it out."
            )
    return Settings(spark, schema=schema)
