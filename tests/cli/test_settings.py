"""Nonsense in every setting, by every way: one sentence with the option, variable or key, and with what would be right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brickyard.config.load import file_of, load, source
from brickyard.config.settings import SECRET, ConfigError, Settings
from tests.kubernetes import kubelet
from tests.support.golden import Golden

FREE_TEXT = (
    "admin_token",
    "metrics_token",
    "default_runtime",
    "sql_node_type",
    "host_names",
    "workspace_name",
    *(
        name
        for name in Settings.names()
        if name.startswith("oidc_") and name not in ("oidc_issuer", "oidc_create_users", "oidc_single_log_out")
    ),
)  # any text may be a token; runtimes are known to the catalogue: test_errors.py
NONSENSE = {
    "host": " ",
    "admin_user": " ",
    "port": "foo",
    "connect_port": "65536",
    "database_url": "mysql://me:secret@db/x",
    "data_dir": None,  # what is wrong with a path shows when it is used: test_errors.py
    "cache_dir": None,
    "task_files_dir": None,
    "node_prices": None,
    "simulated_knobs": None,
    "tls_cert": None,
    "agent_ca": None,
    "tls_key": None,
}
SECRETS = ("secret", "mysql")


def nonsense(name: str) -> str | None:
    """For every other setting, a word that is neither a number nor a choice."""
    return NONSENSE.get(name, "maybe")


WRONG = [name for name in Settings.names() if name not in FREE_TEXT and nonsense(name) is not None]


def refusal(**given: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        load(**{"environ": {}, **given})
    said = str(raised.value)
    assert not any(word in said.replace("oidc_client_secret", "") for word in SECRETS)
    assert said.endswith(".")
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_is_refused_with_where_it_stands(name: str, tmp_path: Path) -> None:
    value, file = nonsense(name), tmp_path / "brickyard.toml"
    file.write_text(f"{name} = {json.dumps(value)}\n")
    ways = {
        f"--{name.replace('_', '-')} is ": refusal(options={name: value}),
        f"{name} in {file} is ": refusal(config_file=file),
    }
    if str(value).strip():  # a variable that is empty is not set
        ways[f"BRICKYARD_{name.upper()} is "] = refusal(environ={f"BRICKYARD_{name.upper()}": value})
    for start, said in ways.items():
        assert said.startswith(start)
        assert f"; {name} must " in said


@pytest.mark.parametrize("name", [each for each in Settings.names() if each not in FREE_TEXT])
def test_a_value_of_another_type_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text(f"{name} = [1, 2]\n")
    said = refusal(config_file=file)
    assert said.startswith(f"{name} in {file} is ")
    assert f"; {name} must " in said


@pytest.mark.parametrize("url", ["db", "postgresql://host:port/db", "postgres://host/db", "mysql+pymysql://host/db"])
def test_a_database_that_cannot_be_used(url: str, golden: Golden) -> None:
    said = refusal(environ={"BRICKYARD_DATABASE_URL": url})
    golden(said)


@pytest.mark.parametrize("url", ["", "sqlite:////tmp/x.db", "postgresql://u:p@h:5432/d", "postgresql:///d?host=/run/postgresql"])
def test_a_database_that_can(url: str) -> None:
    assert load(environ={}, options={"database_url": url}).database_url == url


def test_an_unknown_key_is_refused_with_what_was_meant(tmp_path: Path, golden: Golden) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text("prot = 1\n")
    said, _, known = refusal(config_file=file).partition(" Settings: ")
    golden(said, f"prot in {file} ", "port?")
    assert set(Settings.names()) <= set(known.removesuffix(".").split(", "))


def test_a_setting_of_an_earlier_version_is_refused_with_what_took_its_place(tmp_path: Path) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text("tls_self_signed = true\n")
    with pytest.raises(ConfigError, match=r"tls_self_signed in .*: use tls,"):
        load(config_file=file, environ={})
    with pytest.raises(ConfigError, match=r"BRICKYARD_TLS_SELF_SIGNED .*: use tls,"):
        load(environ={"BRICKYARD_TLS_SELF_SIGNED": "true"})


def test_where_a_setting_comes_from(tmp_path: Path) -> None:
    file, environ = tmp_path / "brickyard.toml", {"BRICKYARD_DATA_DIR": "/v"}
    file.write_text('data_dir = "/f"\n')
    assert source("data_dir", environ={}) == "the default"
    assert source("data_dir", environ={}, config_file=file) == f"data_dir in {file}"
    assert source("data_dir", environ=environ, config_file=file) == "BRICKYARD_DATA_DIR"
    assert source("data_dir", environ=environ, config_file=file, options={"data_dir": "/o"}) == "--data-dir"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"oidc_client_id": "brickyard"}, "--oidc-client-id needs oidc_issuer"),
        ({"oidc_issuer": "https://login.example.com"}, "oidc_client_id must be non-empty"),
        ({"oidc_issuer": "http://login.example.com", "oidc_client_id": "b"}, "oidc_issuer must be https"),
        ({"oidc_issuer": "https://u:secret@login.example.com", "oidc_client_id": "b"}, "oidc_issuer must be https"),
        ({"oidc_issuer": "https://login.example.com?x", "oidc_client_id": "b"}, "oidc_issuer must be https"),
        (
            {"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "b", "oidc_scopes": "email"},
            "oidc_scopes must be a list with openid",
        ),
        ({"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "b", "oidc_create_users": True}, "unless oidc_domains"),
        ({"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "b", "oidc_groups": "=x"}, "oidc_groups must be VALUE=GROUP"),
        ({"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "b", "oidc_groups": "a=Users"}, "oidc_groups must be without"),
    ],
)
def test_an_identity_provider_that_cannot_be_used(given: dict[str, Any], named: str) -> None:
    assert named in refusal(options=given)


def test_an_identity_provider() -> None:
    values = {"oidc_issuer": "https://login.example.com/x", "oidc_client_id": "b", "oidc_domains": "A.com, b.com"}
    found = load(options=values | {"oidc_groups": "eng=data engineers, ops"}, environ={"BRICKYARD_OIDC_CLIENT_SECRET": "s"}).oidc
    assert found is not None
    assert (found.client_secret, found.domains, found.label) == ("s", ("a.com", "b.com"), "login.example.com")
    assert found.groups == {"eng": "data engineers", "ops": "ops"}
    assert load(environ={}).oidc is None


def test_settings_that_get_into_a_log_show_no_secret() -> None:
    values: dict[str, Any] = {name: f"hidden-{name}" for name in SECRET}
    settings = Settings(oidc_issuer="https://login.example.com", **values)
    for shown in (repr(settings), str(settings), f"{settings}", repr(settings.oidc), repr({"given": settings})):
        assert "hidden-" not in shown
    assert "oidc_client_secret=***" in repr(settings)
    assert "***" not in repr(Settings())


def links(name: str) -> dict[str, str]:
    return kubelet.links(name, "10.96.0.7", [{"name": "http", "port": 80}])


@pytest.mark.parametrize("name", ["brickyard", "brickyard-connect", "brickyard-agent", "brickyard-kubernetes", "brickyard-port"])
def test_what_kubernetes_writes_for_a_service_is_no_setting(name: str) -> None:
    given = {"provider": "kubernetes"}
    assert load(environ=links(name), options=given) == load(environ={}, options=given)
    assert source("port", environ=links(name)) == "the default"


def test_a_setting_beside_the_links_of_a_service_counts() -> None:
    found = load(
        environ={**links("brickyard"), "BRICKYARD_PORT": "9090", "BRICKYARD_KUBERNETES_IMAGE": "x", "BRICKYARD_HOST": "::1"},
        options={"provider": "kubernetes"},
    )
    assert (found.port, found.host, found.sections) == (9090, "::1", {"kubernetes": {"image": "x"}})
    assert "BRICKYARD_PORT is 'foo'" in refusal(environ={**links("brickyard"), "BRICKYARD_PORT": "foo"})


@pytest.mark.parametrize(
    "url",
    [
        "bricks.example.com", "ftp://a", "https://", "https://a/path", "https://a?x", "https://a#x", "https://u@a", "https://a:0",
        "https://a b", "https://*.example.com", "https://0.0.0.0", "https://[::]:8443", "https://a:99999", "https://-a",
    ],
)  # fmt: skip
def test_an_external_url_that_nobody_reaches(url: str) -> None:
    assert refusal(options={"external_url": url}).startswith("--external-url is ")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("", ""),
        ("https://Bricks.Example.com:443/", "https://bricks.example.com"),
        ("http://a:80", "http://a"),
        ("https://a:8443", "https://a:8443"),
        ("http://[FD00::5]:8080/", "http://[fd00::5]:8080"),
    ],
)
def test_an_external_url_is_shown_as_browsers_write_an_origin(url: str, origin: str) -> None:
    assert load(environ={}, options={"external_url": url}).external_origin == origin


def test_the_machines_file_is_read_where_no_other_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, other = tmp_path / "machine.toml", tmp_path / "other.toml"
    machine.write_text("port = 1\n")
    other.write_text("max_nodes = 5\n")
    monkeypatch.setattr("brickyard.config.load.MACHINE_FILE", machine)
    assert load(environ={}).port == 1
    assert source("port", environ={}) == f"port in {machine}"
    assert load(environ={"BRICKYARD_PORT": "2"}).port == 2
    assert load(config_file=other, environ={}).port == load(environ={"BRICKYARD_CONFIG": str(other)}).port == 8080
    assert load(environ={"BRICKYARD_CONFIG": "/dev/null"}).port == 8080
    assert file_of(None, {}) == machine and file_of(other, {}) == other
    machine.unlink()
    assert file_of(None, {}) is None and load(environ={}).port == 8080
