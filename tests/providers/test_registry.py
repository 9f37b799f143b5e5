"""Providers by name: those that are registered, and what is said of any other."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from brickyard.config import providernames
from brickyard.config.load import load
from brickyard.config.settings import ConfigError, Settings
from brickyard.providers import registry
from brickyard.providers.base import Provider, Setup, SetupError
from brickyard.providers.local import LocalProvider
from brickyard.providers.nodetypes import offered
from brickyard.providers.simulated import SimulatedProvider
from brickyard.runtime.catalogue import rows
from tests.support.golden import Golden

ROOT = Path(__file__).parents[2]


def setup(tmp_path: Path, *, server_url: str = "http://127.0.0.1:8080", **settings: object) -> Setup:
    chosen = Settings(data_dir=tmp_path, cache_dir=tmp_path / "cache", **settings)  # type: ignore[arg-type] # keyword arguments of a struct
    return Setup(settings=chosen, server_url=server_url, runtimes=rows())


def test_a_checkout_has_the_providers_that_the_package_registers() -> None:
    registered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][providernames.GROUP]
    assert registered == providernames.OF_A_CHECKOUT
    assert set(registered) <= set(providernames.find())


@pytest.mark.parametrize(("name", "kind"), [("local", LocalProvider), ("simulated", SimulatedProvider)])
def test_ours_are_opened_by_name(tmp_path: Path, name: str, kind: type[Provider]) -> None:
    opened = registry.open_provider(setup(tmp_path, provider=name))
    assert isinstance(opened, kind)
    assert opened.name == name
    opened.close(keep_nodes=False)


def test_a_name_that_nobody_has_lists_those_there_are(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(SetupError, match=rf"^provider is 'k8s'; provider must be {providernames.unknown('k8s')}\.$"):
        registry.open_provider(setup(tmp_path, provider="k8s"))
    with pytest.raises(ConfigError, match=rf"^BRICKYARD_PROVIDER is 'k8s'; provider must be {providernames.unknown('k8s')}\.$"):
        load(environ={"BRICKYARD_PROVIDER": "k8s"})
    with golden.refused(ConfigError):
        load(environ={}, options={"provider": " "})


def test_another_package_adds_one_and_may_not_replace_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    theirs = [
        EntryPoint("elsewhere", "tests.providers.elsewhere:open_provider", providernames.GROUP),
        EntryPoint("local", "tests.providers.elsewhere:open_provider", providernames.GROUP),
        EntryPoint("broken", "tests.providers.nowhere:open_provider", providernames.GROUP),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [each for each in theirs if each.group == group])
    assert sorted(providernames.find()) == sorted([*providernames.OF_A_CHECKOUT, "broken", "elsewhere"])
    assert providernames.find()["local"].value.startswith("brickyard.")
    assert providernames.unknown("k8s").startswith("broken, elsewhere, ")
    assert providernames.unknown("k8s").endswith(f" or {max(providernames.OF_A_CHECKOUT)}")
    with golden.refused(SetupError, "tests.providers.nowhere", "open_provider"):
        registry.open_provider(setup(tmp_path, provider="broken"))
    for url in ("", "http://10.0.0.7:8080", "http://bricks.example.com:8080"):
        with pytest.raises(SetupError, match=f"public_url is {url or 'not set'}: .* Set public_url to https://HOST:PORT"):
            registry.open_provider(setup(tmp_path, provider="elsewhere", public_url=url))
    public = "https://bricks.example.com:8443"
    assert (
        registry.open_provider(setup(tmp_path, server_url=public, provider="elsewhere", public_url=public)).where == "elsewhere"
    )


@pytest.mark.parametrize(
    "url", ["bricks.example.com", "ftp://a", "http://a/api", "http://a?b", "http://u:p@a", "http://a:b", "http://"]
)
def test_a_public_url_is_an_address_and_nothing_more(url: str, golden: Golden) -> None:
    with golden.refused(ConfigError, "public_url", "PORT"):
        load(environ={"BRICKYARD_PUBLIC_URL": url})


def test_a_public_url_may_have_a_port_and_tls() -> None:
    for url in ("http://bricks.example.com", "https://10.0.0.7:8443/", "http://[2001:db8::1]:8080"):
        assert load(environ={"BRICKYARD_PUBLIC_URL": url}).public_url == url


def test_what_terraform_falls_back_to_is_offered() -> None:
    """`databricks_node_type` with nothing that fits: `defaultSmallestNodeType` of the provider's clusters/data_node_type.go."""
    assert {"Standard_D4ds_v5", "m6g.xlarge"} <= {each.node_type_id for each in offered()}
