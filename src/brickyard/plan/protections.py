"""Settings of Databricks and Spark whose meaning is protection: honoured, or refused by name.

A setting that nobody reads is otherwise kept, since it does no harm. One of these would: whoever sets it takes the cluster for
closed where it is open. docs/parity.md lists them; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brickyard.domain.errors import InvalidParameterValue

Honoured = Callable[[str, bool], bool]  # (value, whether the cluster keeps its users apart) -> whether that is so here anyway

_LANGUAGES = frozenset({"python", "sql"})  # of contexts
_OFF = ("", "false")
_SHOWN = 140


def _never(_value: str, _isolates: bool) -> bool:
    return False


def _isolated(_value: str, isolates: bool) -> bool:
    return isolates


def _both_languages(value: str, _isolates: bool) -> bool:
    return {each.strip().lower() for each in value.split(",")} >= _LANGUAGES


_TABLES = "there are no permissions on tables: code on a cluster reads what the cluster's files allow"
_USERS = "use data_security_mode USER_ISOLATION, with which it is so"
_UI = "permissions on the cluster decide who sees its Spark UI"

# A key, or a prefix that ends with a dot for every key below it -> whether it is honoured, and why not otherwise.
PROTECTIONS: dict[str, tuple[Honoured, str]] = {
    "spark.acls.enable": (_never, _UI),
    "spark.admin.acls": (_never, _UI),
    "spark.admin.acls.groups": (_never, _UI),
    "spark.databricks.acl.": (_never, _TABLES),
    "spark.databricks.passthrough.": (
        _never, "users' credentials are not passed through; a cluster has those in its spark_env_vars and spark_conf"
    ),
    "spark.databricks.pyspark.enablePy4JSecurity": (_isolated, _USERS),
    "spark.databricks.pyspark.enableProcessIsolation": (_isolated, _USERS),
    "spark.databricks.pyspark.iptable.": (
        _never, "what clusters reach is set for the workspace: internet and network_allow"
    ),
    "spark.databricks.repl.allowedLanguages": (
        _both_languages, "every cluster takes Python and SQL, and no other languages: the list must have both"
    ),
    "spark.databricks.unityCatalog.enabled": (_never, _TABLES),
    "spark.databricks.unityCatalog.enforce.permissions": (_never, _TABLES),
    "spark.hadoop.hadoop.security.authorization": (_never, _TABLES),
    "spark.hadoop.hive.security.authorization.": (_never, _TABLES),
    "spark.history.ui.acls.enable": (_never, _UI),
    "spark.history.ui.admin.acls": (_never, _UI),
    "spark.history.ui.admin.acls.groups": (_never, _UI),
    "spark.modify.acls": (_never, _UI),
    "spark.modify.acls.groups": (_never, _UI),
    "spark.ui.acls.enable": (_never, _UI),
    "spark.ui.view.acls": (_never, _UI),
    "spark.ui.view.acls.groups": (_never, _UI),
}  # fmt: skip

# Settings that share among users what is otherwise each one's own, where they are turned off.
KEPT_ON = ("spark.sql.artifact.isolation.enabled",)


def check_protections(conf: Mapping[str, str], *, isolates: bool) -> None:
    """Raises InvalidParameterValue for a setting that promises a protection which the cluster does not have. `isolates`: it keeps
    its users apart."""
    for key in KEPT_ON:
        if isolates and conf.get(key, "true").strip().lower() != "true":
            raise InvalidParameterValue(
                f"spark_conf.{key} is {conf[key][:_SHOWN]!r}, and data_security_mode USER_ISOLATION keeps its users' files "
                "apart. Leave it out."
            )
    for key, value in conf.items():
        if (found := _of(key)) is None or value.strip().lower() in _OFF:
            continue
        honoured, why = found
        if not honoured(value, isolates):
            raise InvalidParameterValue(
                f"spark_conf.{key[:_SHOWN]} is {value[:_SHOWN]!r}, and would protect nothing here: {why}. Leave it out."
            )


def _of(key: str) -> tuple[Honoured, str] | None:
    if found := PROTECTIONS.get(key):
        return found
    return next((found for prefix, found in PROTECTIONS.items() if prefix.endswith(".") and key.startswith(prefix)), None)
