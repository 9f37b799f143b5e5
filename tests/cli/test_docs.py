"""The documents name what there is: every setting, every variable, every command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from click import Context, Option
from click.exceptions import NoSuchCommand

from brickyard.cli import _COMMANDS, cli
from brickyard.cli.quickstart import command as quickstart
from brickyard.cli.up import command as up
from brickyard.config.load import load
from brickyard.config.reference import with_tables
from brickyard.config.settings import GROUPS, Help, Settings, declared

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
NAMES = set(re.findall(r"^\| (.*?) \|", CONFIGURATION, re.MULTILINE))
DOCUMENTED = {name for cell in NAMES for name in re.findall(r"`(\w+)`", cell)}


def test_every_setting_is_declared_with_its_help() -> None:
    hints = get_type_hints(Settings, include_extras=True)
    assert [name for name in Settings.names() if not any(isinstance(each, Help) for each in get_args(hints[name]))] == []


def test_every_setting_is_documented_as_it_is_declared() -> None:
    row = re.compile(r"^\| `([a-z][a-z_]*)` \|.*$", re.MULTILINE)
    rows = [(found[1], found[0]) for found in row.finditer(CONFIGURATION)]
    assert [name for name in Settings.names() if [each for each, _ in rows].count(name) != 1] == []
    declared = {found[0] for found in row.finditer(with_tables(CONFIGURATION))}
    assert [name for name, text in rows if text not in declared] == [], "./dev docs tables writes the tables"


def test_every_setting_is_an_option_of_up() -> None:
    options = {option.name for option in up.params if isinstance(option, Option)}
    assert options == set(Settings.names()) | {"config_file", "detach", "as_json"}


def test_the_help_of_up_has_every_group_and_default() -> None:
    assert set(GROUPS) <= set(Settings.names())
    assert next(iter(declared())) in GROUPS
    help_text = up.get_help(Context(up, terminal_width=100))
    headings = [line.removesuffix(":") for line in help_text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert set(headings) == {"Options", *GROUPS.values()}
    assert "[default: 8080]" in help_text
    shown = quickstart.get_help(Context(quickstart, terminal_width=100))
    assert "--oidc-issuer" in help_text and "--oidc-issuer" not in shown


def test_a_command_that_is_misspelt_is_proposed() -> None:
    with pytest.raises(NoSuchCommand) as refused:
        cli.main(["clster"], standalone_mode=False)
    assert refused.value.possibilities is not None and "cluster" in refused.value.possibilities


def test_every_variable_is_documented() -> None:
    sources = [ROOT / "dev", *(ROOT / "src").rglob("*.py"), *(ROOT / "requirements").glob("*.py")]
    used = {name for path in sources for name in re.findall(r"BRICKYARD_(?!TEST_)[A-Z][A-Z0-9_]*[A-Z0-9]", path.read_text())}
    settings = {f"BRICKYARD_{name.upper()}" for name in Settings.names()}
    assert used - settings == {name for name in DOCUMENTED if name.startswith("BRICKYARD_")}


def test_the_example_file_is_a_good_one(tmp_path: Path) -> None:

    example = re.search(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    assert example is not None
    file = tmp_path / "brickyard.toml"
    file.write_text(example[1])
    assert load(config_file=file, environ={}).isolation == "required"


def test_the_readme_names_every_command_of_its_sections() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in _COMMANDS if name not in ("version", "runtime") and name not in readme] == []
