"""docs/kubernetes.md names each setting, and its examples are good ones."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import msgspec
import yaml

from brickyard.providers.kubernetes import refusals
from brickyard.providers.kubernetes.section import KubernetesSection
from tests.kubernetes.schemas import mistakes

PAGE = (Path(__file__).parents[2] / "docs/kubernetes.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_setting_is_named_and_no_other() -> None:
    table = PAGE.split("## Settings")[1].split("**Node types.**")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named == {field.name for field in msgspec.structs.fields(KubernetesSection)}


def test_the_examples_are_settings_that_work() -> None:
    found = [tomllib.loads(text) for text in blocks("toml")]
    tables = [each["kubernetes"] for each in found]
    assert len(tables) == 2
    for table in tables:
        msgspec.convert({"image": "x", "run_as_user": 1000, **table}, KubernetesSection).check()


def test_the_volume_of_the_example_is_one() -> None:
    (text,) = re.findall(r"<<'YAML'\n(.*?)^YAML", PAGE, re.MULTILINE | re.DOTALL)
    assert mistakes(yaml.safe_load(text)) == []


def test_the_files_that_it_names_are_there() -> None:
    for name in re.findall(r"`(?:deploy/kubernetes/)?(\w+\.yaml)`", PAGE):
        assert (Path(__file__).parents[2] / "deploy/kubernetes" / name).is_file(), name


def test_each_cause_of_a_refusal_has_a_row_and_each_row_a_cause() -> None:
    table = PAGE.split("## What a refusal")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    rights, *others = rows
    assert refusals.means_rights(rights)
    found = [[each.words.pattern for each in refusals.CAUSES if each.words.search(row)] for row in others]
    assert sorted(itertools.chain(*found)) == sorted(each.words.pattern for each in refusals.CAUSES)
    assert all(len(each) == 1 for each in found)
