"""Several providers in one workspace: what they offer together, and which of them is asked."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from brickyard.config import providernames
from brickyard.config.load import load
from brickyard.config.settings import ConfigError, Settings
from brickyard.domain.nodetypes import Offer, merged
from brickyard.providers import registry
from brickyard.providers.base import CapacityError, Setup, SetupError
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import Knobs
from brickyard.runtime.catalogue import rows
from brickyard.testing.builders import SMALL
from tests.providers.several import LARGE, Second, fleet, two
from tests.support.golden import Golden

NAMES = st.sampled_from(["a", "b", "c"])
OFFERS = st.lists(
    st.tuples(NAMES, st.lists(st.sampled_from(["s", "m", "l", "xl"]), max_size=4)), max_size=3, unique_by=lambda o: o[0]
)


@given(OFFERS)
def test_every_node_type_belongs_to_the_first_provider_that_offers_it(offered: list[tuple[str, list[str]]]) -> None:
    offers = [
        Offer(name, f"net {name}", [msgspec.structs.replace(SMALL, node_type_id=each) for each in types])
        for name, types in offered
    ]
    found = merged(offers)
    ids = [each.node_type_id for each in found.node_types]
    assert len(ids) == len(set(ids))
    assert set(ids) == {each for _, types in offered for each in types}
    for each in found.node_types:
        first = next(name for name, types in offered if each.node_type_id in types)
        assert (each.provider, each.network) == (first, f"net {first}")
    vain = {
        (name, each)
        for name, types in offered
        for each in types
        if (name, each) not in {(o.provider, o.node_type_id) for o in found.node_types}
    }
    assert vain == {(name, each) for name, hidden in found.hidden.items() for each in hidden}


def test_what_becomes_of_nodes_is_said_as_it_is() -> None:
    first, second = two()
    assert Providers(first).fate == "ended"
    assert Providers(second).fate == "kept"
    assert Providers(first, second).fate == "ended at simulated"


def test_what_is_offered_in_vain_is_logged_once() -> None:
    providers = fleet()
    with structlog.testing.capture_logs() as said:
        offered = providers.node_types()
        assert providers.node_types() is offered
    assert [(each.node_type_id, each.provider) for each in offered] == [("small", "simulated"), ("large", "second")]
    told = [(each["provider"], each["number"], each["first"]) for each in said if each["event"] == "node_types_hidden"]
    assert told == [("second", 1, ["small"])]


def test_a_type_that_the_first_stops_offering_goes_to_the_other() -> None:
    first, second = two()
    providers = Providers(first, second)
    assert {each.node_type_id: each.provider for each in providers.node_types()} == {"small": "simulated", "large": "second"}
    first.offer([])
    assert {each.node_type_id: each.provider for each in providers.node_types()} == {"small": "second", "large": "second"}


def test_room_is_that_of_the_types_own_providers() -> None:
    first, second = two()
    providers = Providers(first, second)
    first.turn(Knobs(max_instances=1))
    small, large = providers.node_types()
    assert providers.shortage([small, large, large]) is None
    assert isinstance(providers.shortage([large, small, small]), CapacityError)


def test_each_task_beside_the_server_has_its_own_name() -> None:
    async def nothing() -> None:
        return None

    class Busy(Second):
        def background(self) -> dict[str, object]:  # type: ignore[override] # a fake
            return {"work": nothing}

    first, _ = two()
    busy = Busy(node_types=[])
    assert set(Providers(busy).background()) == {"work"}
    assert set(Providers(first, busy).background()) == {"second: work"}


def test_one_that_cannot_be_closed_does_not_keep_the_other_from_it() -> None:
    closed: list[tuple[str, bool]] = []

    class Broken(Second):
        def close(self, *, keep_nodes: bool) -> None:
            closed.append((self.name, keep_nodes))
            raise OSError("no")

    class Whole(Second):
        name = "whole"

        def close(self, *, keep_nodes: bool) -> None:
            closed.append((self.name, keep_nodes))

    broken, whole = Broken(node_types=[]), Whole(node_types=[])
    with pytest.raises(OSError, match="no"):
        Providers(broken, whole).close(ending=[broken])
    assert closed == [("second", False), ("whole", True)]


def test_the_setting_names_several(golden: Golden) -> None:
    settings = load(environ={"BRICKYARD_PROVIDER": "local, simulated"})
    assert settings.providers == ("local", "simulated")
    for wrong in ("local,k8s", "local,local", " , "):
        with golden.refused(ConfigError, "provider must be "):
            load(environ={"BRICKYARD_PROVIDER": wrong})


def test_each_has_its_own_table_and_variables(tmp_path: Path) -> None:
    file = tmp_path / "brickyard.toml"
    file.write_text('provider = "local,simulated"\n[local]\none = 1\ntwo = 2\n[simulated]\none = 3\n')
    variables = {"BRICKYARD_LOCAL_TWO": "4", "BRICKYARD_SIMULATED_THREE": "5", "BRICKYARD_RAY_ADDRESS": "of none that is named"}
    settings = load(config_file=file, environ={**variables, "BRICKYARD_SIMULATED_KNOBS": str(tmp_path / "knobs.toml")})
    assert settings.sections == {"local": {"one": 1, "two": "4"}, "simulated": {"one": 3, "three": "5"}}
    assert settings.simulated_knobs == tmp_path / "knobs.toml"


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("RAY_ADDRESS", ("ray", "address")),
        ("RAY_GPU_ADDRESS", ("ray-gpu", "address")),
        ("RAY_", None),
        ("RAYS_ADDRESS", None),
    ],
)
def test_a_variable_is_for_the_longest_name_that_fits(variable: str, found: tuple[str, str] | None) -> None:
    assert providernames.of_variable(variable, ["ray", "ray-gpu"]) == found


def test_if_one_cannot_be_opened_those_before_it_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(Second, "close", lambda _, keep_nodes: closed.append(keep_nodes))
    entries = {"second": "tests.providers.test_fleet:open_second", "broken": "tests.providers.nowhere:open_provider"}
    monkeypatch.setattr(providernames, "OF_A_CHECKOUT", entries)
    monkeypatch.setattr(providernames, "_installed", lambda: False)
    settings = Settings(data_dir=tmp_path, cache_dir=tmp_path / "cache", provider="second,broken")
    with golden.refused(SetupError):
        registry.open_providers(Setup(settings=settings, server_url="http://127.0.0.1:1", runtimes=rows()))
    assert closed == [True]


def open_second(setup: Setup) -> Second:
    return Second(node_types=[LARGE])
