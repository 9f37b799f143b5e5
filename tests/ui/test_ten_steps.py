"""The ten steps that people do most, counted: a click, a choice, a key, or a text that is typed and sent with Enter, is one.

Each begins at the list of clusters. docs/ui.md has the table; what it says is what is counted here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.compute import State
from playwright.sync_api import Locator, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.support.patience import until
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
FULL = "r5.xlarge"
HEIGHTS = {390: 800, 640: 800, 720: 450, 900: 800, 1440: 800}  # by width; 720 x 450 is a window of 1440 x 900 at 200 %
SIX_TABS = 1440  # the width at which five other tabs of the same browser are open


def widths(*fast: int) -> list[Any]:
    """All widths; those that are not `fast` are for `./dev test --all`."""
    return [pytest.param(width, marks=() if width in fast else pytest.mark.extended) for width in HEIGHTS]


MOST_KEYS = 150
_FOCUSED = "element => element.contains(document.activeElement) || element.closest('button, a') === document.activeElement"
_CHOSEN = "element => element.hasAttribute('data-combobox-selected')"
TABLE = re.compile(r"^\| \d+\. (?P<step>[^|]+?) \| [^|]+ \| (?P<now>\d+) \|$", re.MULTILINE)


def table_of(_command: str) -> Answer:
    schema = [{"name": "name", "type": '"string"'}, {"name": "amount", "type": '"integer"'}]
    rows = [["a", 1], ["b", 2]]
    return Answer(results={"resultType": "table", "schema": schema, "data": rows, "truncated": False})


class Hands:
    """Somebody at the list of clusters. `count`: what they did."""

    def __init__(self, session: Session) -> None:
        self.page = session.go("/compute")
        self.count = 0

    def click(self, where: Locator) -> None:
        self.count += 1
        where.click()

    def press(self, key: str) -> None:
        self.count += 1
        self.page.keyboard.press(key)

    def type(self, where: Locator, text: str, key: str = "Enter") -> None:
        """Types where the text goes, which is clicked or has the focus already, and sends it."""
        self.count += 1
        where.fill(text)
        if key:
            where.press(key)

    def open(self, name: str) -> Page:
        """The page of a cluster."""
        self.click(self.page.get_by_role("link", name=name, exact=True))
        expect(self.page.get_by_role("heading", name=name)).to_be_visible()
        return self.page


class Keyboard(Hands):
    """Somebody without a mouse: Tab to what is there, arrows in tabs and lists, Enter."""

    def click(self, where: Locator) -> None:
        expect(where).to_be_visible()
        role = where.get_attribute("role")
        if role == "option":
            self._walk(where, "ArrowDown", "the option", _CHOSEN)
        elif role == "tab":
            self._walk(where.locator("xpath=ancestor::*[@role='tablist']"), "Tab", "the tabs")
            self._walk(where, "ArrowRight", "the tab")
        else:
            self._walk(where, "Tab", "it")
        self.page.keyboard.press("Enter")

    def type(self, where: Locator, text: str, key: str = "Enter") -> None:
        expect(where).to_be_visible()
        self._walk(where, "Tab", "the field")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        if key:
            self.page.keyboard.press(key)
        if where.evaluate("element => element.isContentEditable"):
            self.page.keyboard.press("Escape")  # in code, Tab indents

    def _walk(self, where: Locator, key: str, what: str, reached: str = _FOCUSED) -> None:
        for _ in range(MOST_KEYS):
            if where.evaluate(reached):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{key} does not reach {what}: {where}")


@pytest.fixture(scope="module")
def workspace(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[dict[str, str]]:
    """A running cluster, one that failed, a policy, and a volume."""
    machines.kernels.compute = table_of
    machines.knobs.full_types = frozenset({FULL})
    ids = {"steps": str(w.clusters.create(cluster_name="steps", num_workers=1, **COMMON).result().cluster_id)}
    failed = w.clusters.create(cluster_name="broken", num_workers=1, **{**COMMON, "node_type_id": FULL})
    ids["broken"] = str(failed.cluster_id)
    until(lambda: w.clusters.get(ids["broken"]).state is State.TERMINATED, "it does not fail")
    rules = '{"num_workers": {"type": "fixed", "value": 1}, "node_type_id": {"type": "fixed", "value": "i3.xlarge"}}'
    ids["policy"] = str(w.cluster_policies.create(name="small", definition=rules).policy_id)
    w.volumes.create("main", "default", "steps", VolumeType.MANAGED)
    user = w.users.create(user_name="colleague@example.com", display_name="Zoe Colleague")
    yield ids
    machines.kernels.compute = None
    machines.knobs.full_types = frozenset()
    for name in ("steps", "broken"):
        w.clusters.permanent_delete(ids[name])
    w.volumes.delete("main.default.steps")
    w.cluster_policies.delete(ids["policy"])
    w.users.delete(str(user.id))


Step = Callable[[Hands, WorkspaceClient, dict[str, str], Path], None]


def start_again(hands: Hands, _w: WorkspaceClient, _ids: dict[str, str], _tmp: Path) -> None:
    row = hands.page.locator("tbody tr").filter(has_text="broken")
    expect(row).to_contain_text(f"no instances of {FULL}")
    hands.click(row.get_by_role("button", name="Start broken"))
    expect(row).not_to_contain_text(f"no instances of {FULL}")
    expect(row).to_contain_text(f"no instances of {FULL}")  # it fails once more


def resize(hands: Hands, w: WorkspaceClient, ids: dict[str, str], _tmp: Path) -> None:
    page = hands.open("steps")
    workers = 3 if w.clusters.get(ids["steps"]).num_workers != 3 else 2
    hands.click(page.get_by_role("button", name=re.compile("^Change Workers")))
    hands.type(page.get_by_role("textbox", name="Workers", exact=True), str(workers))
    until(lambda: w.clusters.get(ids["steps"]).num_workers == workers, "it is not resized")
    until(lambda: w.clusters.get(ids["steps"]).state is State.RUNNING, "it is not running")


def run_and_draw(hands: Hands, _w: WorkspaceClient, _ids: dict[str, str], _tmp: Path) -> None:
    page = hands.open("steps")
    hands.press("Control+Backquote")
    cell = page.get_by_label("Cells", exact=True).locator("> li").last
    hands.type(cell.get_by_label(re.compile("^Code")), "SELECT 1", "Control+Enter")
    hands.click(cell.get_by_text("Chart", exact=True))
    expect(cell.get_by_role("img")).to_be_visible()


def add_library(hands: Hands, w: WorkspaceClient, ids: dict[str, str], _tmp: Path) -> None:
    page = hands.open("steps")
    hands.click(page.get_by_role("tab", name="Libraries"))
    hands.type(page.get_by_role("combobox", name="Package"), "tabulate")
    expect(page.locator("tbody tr").filter(has_text="tabulate")).to_be_visible()


def look_at_a_log(hands: Hands, _w: WorkspaceClient, _ids: dict[str, str], _tmp: Path) -> None:
    page = hands.open("steps")
    hands.click(page.get_by_role("tab", name="Driver logs"))
    expect(page.get_by_label("The log", exact=True).locator(".line").first).to_be_visible()


def see_what_a_week_costs(hands: Hands, _w: WorkspaceClient, _ids: dict[str, str], _tmp: Path) -> None:
    hands.click(hands.page.get_by_role("link", name="Spend", exact=True))
    expect(hands.page.locator(".totals")).to_contain_text("$")


def upload_and_use(hands: Hands, w: WorkspaceClient, _ids: dict[str, str], tmp: Path) -> None:
    page = hands.page
    hands.click(page.get_by_role("link", name="Files", exact=True))
    for name in ("Volumes", "main/", "default/", "steps/"):
        hands.click(page.get_by_role("link", name=name, exact=True).first)
    (tmp / "rows.csv").write_text("a,b\n1,2\n")
    hands.count += 1
    page.get_by_label("Files to upload").set_input_files([tmp / "rows.csv"])
    hands.click(page.get_by_role("button", name="rows.csv", exact=True))
    expect(page.get_by_label("rows.csv", exact=True).locator(".usage")).to_contain_text("/Volumes/main/default/steps/rows.csv")
    w.files.delete("/Volumes/main/default/steps/rows.csv")


def share(hands: Hands, w: WorkspaceClient, ids: dict[str, str], _tmp: Path) -> None:
    page = hands.open("steps")
    hands.click(page.get_by_role("tab", name="Permissions"))
    form = page.get_by_role("form", name="Grant a permission")
    hands.type(form.get_by_label("Name"), "Zo", "")
    hands.click(page.get_by_role("option", name="colleague@example.com"))
    hands.click(form.get_by_role("button", name="Add"))
    expect(page.locator("tbody tr").filter(has_text="colleague@example.com")).to_be_visible()
    w.api_client.do("PUT", f"/api/2.0/permissions/clusters/{ids['steps']}", body={"access_control_list": []})


def create_from_a_policy(hands: Hands, w: WorkspaceClient, _ids: dict[str, str], _tmp: Path) -> None:
    page = hands.page
    hands.click(page.get_by_role("tab", name="Policies"))
    hands.click(page.get_by_role("link", name="Create compute with small"))
    expect(page.get_by_label("Name", exact=True)).to_be_visible()
    hands.click(page.get_by_role("button", name="Create compute"))
    expect(page).to_have_url(re.compile("/compute/clusters/"))
    w.clusters.permanent_delete(page.url.rpartition("/")[2].partition("?")[0])


def follow_a_start(hands: Hands, w: WorkspaceClient, ids: dict[str, str], _tmp: Path) -> None:
    w.clusters.delete(ids["steps"]).result()
    row = hands.page.locator("tbody tr").filter(has_text="steps")
    hands.click(row.get_by_role("button", name="Start steps"))
    page = hands.open("steps")
    expect(
        page.get_by_label("Start: its phases").or_(page.get_by_role("main").get_by_text("RUNNING", exact=True)).first
    ).to_be_visible()
    until(lambda: w.clusters.get(ids["steps"]).state is State.RUNNING, "it is not running")


STEPS: dict[str, Step] = {
    "Find why a start failed, and start again": start_again,
    "Resize": resize,
    "Run a command, see its table and chart": run_and_draw,
    "Add a library": add_library,
    "Look at a log": look_at_a_log,
    "See what a week costs": see_what_a_week_costs,
    "Upload a file and use it in a cluster": upload_and_use,
    "Share a cluster": share,
    "Make a cluster from a policy": create_from_a_policy,
    "Follow a start": follow_a_start,
}


@pytest.mark.parametrize("width", widths(390, 1440))
def test_the_ten_steps_take_what_the_table_says(
    session: Session, w: WorkspaceClient, workspace: dict[str, str], width: int, tmp_path: Path
) -> None:
    said = {match["step"]: int(match["now"]) for match in TABLE.finditer(Path("docs/ui.md").read_text())}
    assert said.keys() == STEPS.keys()
    session.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    counted = {}
    for name, step in STEPS.items():
        hands = Hands(session)
        step(hands, w, workspace, tmp_path)
        counted[name] = hands.count
    assert counted == said


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("width", widths(390))
def test_each_step_is_done_by_keyboard_alone(
    session: Session, w: WorkspaceClient, workspace: dict[str, str], *, width: int, step: str, tmp_path: Path
) -> None:
    if width == SIX_TABS:
        for _ in range(5):
            session.open().goto(f"{session.server.url}/compute")
    session.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    STEPS[step](Keyboard(session), w, workspace, tmp_path)
    if pictures := os.environ.get("BRICKYARD_TEST_PICTURES"):
        session.page.screenshot(path=f"{pictures}/{width}-{step.split(',', maxsplit=1)[0].replace(' ', '-')}.png")
