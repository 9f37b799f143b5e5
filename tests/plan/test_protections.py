"""Settings whose meaning is protection: honoured or refused, never stored and ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import DataSecurityMode
from brickyard.plan.protections import PROTECTIONS, check_protections
from tests.plan.test_spec import but, check

PARITY = Path(__file__).parents[2] / "docs" / "parity.md"
NEVER = {
    "spark.databricks.acl.dfAclsEnabled": "true",
    "spark.databricks.acl.sqlOnly": "TRUE",
    "spark.databricks.acl.provider": "com.databricks.sql.acl.ReflectionBackedAclProvider",
    "spark.databricks.acl.needAdminPermissionToViewLogs": "{{secrets/s/k}}",
    "spark.databricks.passthrough.enabled": "true",
    "spark.databricks.pyspark.iptable.outbound.whitelisted.ips": "10.0.0.1",
    "spark.databricks.unityCatalog.enforce.permissions": "true",
    "spark.hadoop.hive.security.authorization.enabled": "true",
    "spark.acls.enable": "true",
    "spark.ui.view.acls": "somebody",
}
ISOLATED = ("spark.databricks.pyspark.enableProcessIsolation", "spark.databricks.pyspark.enablePy4JSecurity")
LANGUAGES = "spark.databricks.repl.allowedLanguages"


@pytest.mark.parametrize("key", sorted(NEVER))
def test_a_protection_that_no_cluster_has_is_refused_by_name(key: str) -> None:
    for isolates in (True, False):
        with pytest.raises(InvalidParameterValue, match=re.escape(f"spark_conf.{key}")):
            check_protections({"spark.a": "b", key: NEVER[key]}, isolates=isolates)


@pytest.mark.parametrize("key", sorted({*NEVER, *ISOLATED, LANGUAGES}))
def test_who_turns_a_protection_off_gets_a_cluster(key: str) -> None:
    for off in ("false", " False ", ""):
        check_protections({key: off}, isolates=False)


@pytest.mark.parametrize("key", ISOLATED)
def test_what_keeps_users_apart_is_accepted_where_they_are(key: str) -> None:
    check_protections({key: "true"}, isolates=True)
    with pytest.raises(InvalidParameterValue, match="USER_ISOLATION"):
        check_protections({key: "true"}, isolates=False)


def test_a_list_of_languages_is_accepted_if_it_is_what_clusters_take() -> None:
    for good in ("python,sql", "SQL, Python, r,scala"):
        check_protections({LANGUAGES: good}, isolates=False)
    for bad in ("sql", "python", "sql,scala,r", "true"):
        with pytest.raises(InvalidParameterValue, match=LANGUAGES):
            check_protections({LANGUAGES: bad}, isolates=True)


@pytest.mark.parametrize("value", ["false", " FALSE", ""])
def test_files_of_sessions_are_not_shared_where_users_are_kept_apart(value: str) -> None:
    conf = {"spark.sql.artifact.isolation.enabled": value}
    with pytest.raises(InvalidParameterValue, match="USER_ISOLATION"):
        check_protections(conf, isolates=True)
    check_protections(conf, isolates=False)
    check_protections(dict.fromkeys(conf, "true"), isolates=True)


def test_other_settings_are_no_protections() -> None:
    check_protections(
        {"spark.databricks.aclx": "true", "spark.databricks.delta.preview.enabled": "true", "spark.ui.filters": "x"},
        isolates=False,
    )


def test_a_cluster_is_checked() -> None:
    apart = DataSecurityMode.USER_ISOLATION
    conf = {ISOLATED[0]: "true", LANGUAGES: "python,sql"}
    assert check(but(spark_conf=conf, data_security_mode=apart)).spark_conf == conf
    acls = {"spark.databricks.acl.dfAclsEnabled": "true"}
    for refused in (but(spark_conf=conf), but(spark_conf=acls, data_security_mode=apart)):
        with pytest.raises(InvalidParameterValue, match=r"spark_conf\.spark\.databricks"):
            check(refused)


def test_the_ledger_has_them() -> None:
    text = PARITY.read_text()
    for key in PROTECTIONS:
        assert f"`{key}*`" in text if key.endswith(".") else f"`{key}`" in text, key
