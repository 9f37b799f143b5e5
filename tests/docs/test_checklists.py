"""docs/dev/ lists the places that belong to a change. Each test names the place that was forgotten."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec
import pytest

from brickyard.agent.converge import Step
from brickyard.agent.steps import LADDER
from brickyard.api.app import all_operations
from brickyard.api.edge.registry import Auth
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.refused import REFUSED
from brickyard.providers.kubernetes.section import KubernetesSection
from brickyard.providers.ray.section import RaySection
from brickyard.providers.slurm.section import SlurmSection
from tests.api.test_permissions import EXAMPLES

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "brickyard"
DEV = ROOT / "docs" / "dev"
CHECKLISTS, SUBSYSTEMS = (
    [DEV / name for name in re.findall(r"\]\((\w[\w-]*\.md)\)", part)]
    for part in (DEV / "README.md").read_text().split("## Subsystems")
)
PAGES = {  # of features that a page with another name describes
    "catalog": "files",
    "changes": "clients",
    "credentials": "authentication",
    "emptylists": "clients",
    "ipaccess": "ip-access-lists",
    "machine": "ui",
    "ports": "v1",
    "runs": "jobs",
    "runtimes": "operations",
    "schedules": "v1",
    "queries": "sql-warehouses",
    "savedqueries": "sql-warehouses",
    "statements": "sql-warehouses",
    "warehouses": "sql-warehouses",
    "scripts": "init-scripts",
    "snapshots": "v1",
    "workspaceconf": "ip-access-lists",
}
MOST = 6  # places that one change may have

JSON_ONLY = {"driver_node_type_flexibility", "worker_node_type_flexibility", "workload_type"}


def words(*paths: Path, pattern: str = r"\w+", kinds: Collection[str] = (".py",)) -> set[str]:
    """What the pattern finds in these files, and in those below these folders."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    files = [file for file in files if file.suffix in kinds or file in paths]
    return {found for file in files for found in re.findall(pattern, file.read_text())}


def forgotten(names: Iterable[str], places: Mapping[str, Collection[str]]) -> list[str]:
    return [f"{name}: {place}" for name in names for place, known in places.items() if name not in known]


def test_every_page_is_listed() -> None:
    assert {*CHECKLISTS, *SUBSYSTEMS} == {*DEV.glob("*.md")} - {DEV / "README.md"}


def test_architecture_takes_ten_minutes() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().split()) < 2_500  # words, at 250 a minute


@pytest.mark.parametrize("page", CHECKLISTS, ids=lambda page: page.stem)
def test_a_checklist_is_short_and_its_places_are_there(page: Path) -> None:
    steps = re.findall(r"^\d\. (.*(?:\n   .*)*)", page.read_text(), re.MULTILINE)
    assert 0 < len(steps) <= MOST
    for step in steps:
        for place in re.findall(r"`([\w./-]+)`", step):
            if "/" in place and "NAME" not in place:
                assert (ROOT / place).exists() or (SOURCES / place).exists(), f"{place} is not there"


def test_spec_field() -> None:
    editor = ROOT / "ui" / "src" / "editor"
    places = {
        "plan/": words(SOURCES / "plan"),
        "ui/src/editor/spec.ts": words(editor / "spec.ts", pattern=r"\n  (\w+): true,"),
        "ui/src/editor/, or JSON_ONLY": words(editor, pattern=r'[".](\w+)', kinds=(".tsx",)) | set(REFUSED) | JSON_ONLY,
        "docs/parity.md": words(ROOT / "docs" / "parity.md", pattern=r"`(\w+)[`:]"),
        "tests/plan/": words(ROOT / "tests" / "plan") | set(REFUSED),  # test_owned.py tries all of these
    }
    assert forgotten(ClusterSpec.__struct_fields__, places) == []


def test_endpoint() -> None:
    operations = {each.name: each for each in all_operations() if each.auth is Auth.USER}
    documents = "\n".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    documented = {name for name, each in operations.items() if any(_last_word(path) in documents for path in each.paths)}
    assert forgotten(operations, {"tests/api/test_permissions.py": EXAMPLES, "docs/parity.md": documented}) == []


def _last_word(path: str) -> str:
    return next(part for part in reversed(path.split("/")) if part and not part.startswith("{"))


def test_feature() -> None:
    features = {each.parent.name for each in (SOURCES / "features").glob("*/__init__.py")}
    imported = r"brickyard\.features\.(\w+)"
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    places = {
        "api/services.py": words(SOURCES / "api" / "services.py", pattern=imported),
        "server/": words(SOURCES / "server", pattern=imported),
        "docs/, or PAGES": pages | {name for name, page in PAGES.items() if page in pages},
    }
    linked = words(ROOT / "README.md", pattern=r"docs/([\w-]+)\.md", kinds=(".md",))
    assert len(features) > 10
    assert forgotten(sorted(features), places) == []
    assert forgotten(sorted(pages), {"README.md": linked}) == []
    for path in (SOURCES / "features").rglob("*.py"):
        if path.stem in ("model", "rules"):
            assert not re.search(r"^from brickyard\.(store|nodes|machine|storage)\b", path.read_text(), re.MULTILINE), path


def test_agent_step() -> None:
    files = {path.stem for path in (SOURCES / "agent" / "steps").glob("*.py")} - {"__init__", "work"}
    places: dict[str, Collection[str]] = {
        "agent/converge.py": set(Step),
        "agent/steps/": files,
        "agent/steps/__init__.py": set(LADDER),
        "tests/agent/test_converge.py": {name.lower() for name in words(ROOT / "tests" / "agent" / "test_converge.py")},
    }
    assert forgotten(sorted({*Step, *files}), places) == []


@pytest.mark.parametrize("section", [KubernetesSection, RaySection, SlurmSection], ids=["kubernetes", "ray", "slurm"])
def test_provider_setting(section: type[msgspec.Struct], request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    table = (ROOT / "docs" / f"{name}.md").read_text()
    rows = {each for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for each in re.findall(r"`(\w+)`", row)}
    folder = SOURCES / "providers" / name
    readers = words(*(path for path in folder.rglob("*.py")), SOURCES / "providers" / "engines", pattern=r"\.(\w+)")
    assert forgotten(section.__struct_fields__, {f"docs/{name}.md": rows, f"providers/{name}/": readers}) == []
