"""The editor of notebooks in a real browser: cells, what runs, and that nothing that was typed is lost or overwrites others'."""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel
from databricks.sdk.service.workspace import ImportFormat, Language
from playwright.sync_api import Browser, Locator, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.support.patience import until
from tests.support.tokens import create
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
FOLDER = "/Shared/editor"
PICTURES = os.environ.get("BRICKYARD_TEST_PICTURES", "")  # a directory, to look at them
HEADER = "# Databricks notebook source\n"
BETWEEN = "\n\n# COMMAND ----------\n\n"
NOTE = f"# MAGIC %md\n# MAGIC # About\n# MAGIC **Sales** of the {HOSTILE} day"
SOURCE = HEADER + BETWEEN.join(
    (
        NOTE,
        "x = 1",
        "# MAGIC %sql\n# MAGIC SELECT 42",
        "# MAGIC %sh\n# MAGIC ls",
        "# MAGIC %scala\n# MAGIC val y = 1",
        "print('last')",
    )
)
WIDGETS: list[dict[str, Any]] = [
    {"name": "country", "kind": "text", "label": f"Country {HOSTILE}", "value": "de", "default": "de", "choices": []},
    {"name": "size", "kind": "dropdown", "label": "", "value": "S", "default": "S", "choices": ["S", "L"]},
    {"name": "day", "kind": "combobox", "label": "Day", "value": "Mon", "default": "Mon", "choices": ["Mon", "Tue"]},
    {"name": "several", "kind": "multiselect", "label": "Several", "value": "a", "default": "a", "choices": ["a", "b"]},
]
# A page that is closed gets no chance to save, as if it had crashed.
CRASHES = """() => {
  const stop = (event) => event.stopImmediatePropagation();
  addEventListener("pagehide", stop, true);
  document.addEventListener("visibilitychange", stop, true);
}"""
commands: list[str] = []
numbers = itertools.count(1)


def computed(command: str) -> Answer:
    commands.append(command)
    if "SELECT" in command:
        schema = [{"name": "name", "type": '"string"'}, {"name": "amount", "type": '"integer"'}]
        return Answer(results={"resultType": "table", "schema": schema, "data": [["a", 42], ["b", 7]], "truncated": False})
    if "boom" in command:
        return Answer(results={"resultType": "error", "summary": "Wrong", "cause": "the trace"})
    if "widgets" in command:
        return Answer(results={"resultType": "text", "data": "made"}, widgets=[] if "removeAll" in command else WIDGETS)
    if "sleep" in command:
        return Answer(results={"resultType": "text", "data": "woke up"}, after_s=3600, progress={"printed": "so far\n"})
    return Answer(results={"resultType": "text", "data": f"{HOSTILE} printed"})


@pytest.fixture(scope="module")
def cluster(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[str]:
    machines.kernels.compute = computed
    made = w.clusters.create(cluster_name="for notebooks", num_workers=1, **COMMON).result()
    yield str(made.cluster_id)
    machines.kernels.compute = None
    w.clusters.permanent_delete(str(made.cluster_id))


@pytest.fixture
def path(w: WorkspaceClient) -> str:
    """A notebook of the test's own."""
    w.workspace.mkdirs(FOLDER)
    made = f"{FOLDER}/notes {next(numbers)}"
    put(w, made, SOURCE)
    return made


def put(w: WorkspaceClient, path: str, source: str, language: Language = Language.PYTHON) -> None:
    content = base64.b64encode(source.encode()).decode()
    w.workspace.import_(path, content=content, format=ImportFormat.SOURCE, language=language, overwrite=True)


def text(w: WorkspaceClient, path: str) -> str:
    return base64.b64decode(w.workspace.export(path).content or "").decode()


def opened(session: Session, path: str) -> Page:
    page = session.go(f"/workspace/notebook?path={path}")
    expect(cells(page).first).to_be_visible()
    return page


def cells(page: Page) -> Locator:
    return page.get_by_label("Cells", exact=True).locator("> li")


def code(page: Page, number: int) -> Locator:
    return page.get_by_label(f"Code {number}", exact=True)


def saved(page: Page) -> None:
    expect(page.get_by_role("status", name="Saving")).to_have_text("Saved")


def attach(page: Page, cluster: str) -> None:
    page.get_by_label("Cluster", exact=True).select_option(cluster)


def test_a_notebook_is_shown_and_only_what_is_edited_changes(session: Session, w: WorkspaceClient, path: str) -> None:
    page = opened(session, path)
    expect(cells(page)).to_have_count(6)
    expect(cells(page).nth(0).get_by_role("heading")).to_have_text("About")
    expect(cells(page).nth(0)).to_contain_text("Sales of the")
    expect(code(page, 3)).to_have_text("SELECT 42")
    expect(page.get_by_label("Language of cell 3")).to_have_value("sql")
    expect(page.get_by_label("Language of cell 4")).to_have_value("shell")
    expect(cells(page).nth(4).get_by_role("note")).to_contain_text("JAR")
    readable(page)
    saved(page)
    assert text(w, path) == SOURCE
    code(page, 2).fill("x = 2")
    saved(page)
    assert text(w, path) == SOURCE.replace("x = 1", "x = 2")

    cells(page).nth(0).get_by_role("button", name="Edit the note of cell 1").click()
    code(page, 1).fill("# Other")
    code(page, 1).press("Control+Enter")
    expect(cells(page).nth(0).get_by_role("heading")).to_have_text("Other")
    code(page, 6).fill("")
    code(page, 6).press_sequentially("%sql\n")
    expect(page.get_by_label("Language of cell 6")).to_have_value("sql")
    page.keyboard.type("SELECT 6")
    saved(page)
    assert text(w, path).endswith("# MAGIC %sql\n# MAGIC SELECT 6") and "# MAGIC # Other\n" in text(w, path)
    assert all("script" in each for each in session.said)  # what the browser says of the handler in the note that it did not run


def test_cells_are_added_moved_and_deleted_with_the_keyboard(session: Session, w: WorkspaceClient, path: str) -> None:
    put(w, path, f"{HEADER}one{BETWEEN}two")
    page = opened(session, path)
    code(page, 1).click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    expect(cells(page)).to_have_count(3)
    page.keyboard.press("Enter")
    expect(code(page, 2)).to_be_focused()
    page.keyboard.type("42")  # nothing is suggested for it, which Escape would close first
    page.keyboard.press("Escape")
    expect(code(page, 2)).not_to_be_focused()
    page.keyboard.press("Alt+ArrowUp")
    expect(code(page, 1)).to_have_text("42")
    saved(page)
    assert text(w, path) == f"{HEADER}42{BETWEEN}one{BETWEEN}two"
    page.keyboard.press("d")
    page.keyboard.press("d")
    expect(cells(page)).to_have_count(2)
    page.get_by_role("button", name="Add text").click()
    page.keyboard.type("a note")
    page.keyboard.press("Control+Enter")
    saved(page)
    assert text(w, path) == f"{HEADER}one{BETWEEN}two{BETWEEN}# MAGIC %md\n# MAGIC a note\n"
    assert session.said == []


def test_cells_run_on_a_cluster(session: Session, w: WorkspaceClient, cluster: str, path: str) -> None:
    run_line = "%run ./setup $day=1"
    put(w, path, f"{HEADER}x = 1{BETWEEN}# MAGIC %sql\n# MAGIC SELECT 1{BETWEEN}# MAGIC {run_line}{BETWEEN}sleep{BETWEEN}after")
    page = opened(session, path)
    attach(page, cluster)
    code(page, 1).press("Shift+Enter")
    expect(cells(page).nth(0)).to_contain_text("printed")
    expect(code(page, 2)).to_be_focused()
    commands.clear()
    page.get_by_role("button", name="Run all").click()
    expect(cells(page).nth(1).get_by_label("The result")).to_contain_text("42")
    expect(cells(page).nth(3)).to_contain_text("so far")
    assert any(f"%run {FOLDER}/setup $day=1" in each for each in commands)
    cells(page).nth(1).get_by_role("button", name="Chart").click()
    expect(cells(page).nth(1).get_by_role("img", name=re.compile("^Bar chart"))).to_be_visible()
    readable(page)

    page.reload()
    expect(cells(page).nth(0)).to_contain_text("printed")
    expect(cells(page).nth(3)).to_contain_text("so far")
    page.get_by_role("button", name="Interrupt").click()
    expect(cells(page).nth(3).get_by_role("status")).to_have_text("Cancelled")
    expect(cells(page).nth(4).get_by_role("status")).to_have_count(0)

    code(page, 4).fill("boom")
    page.get_by_role("button", name="Run all").click()
    expect(cells(page).nth(3).get_by_role("alert")).to_have_text("Wrong")
    expect(page.get_by_role("button", name="Run all")).to_be_enabled()
    expect(cells(page).nth(4).get_by_role("status")).to_have_count(0)
    assert session.said == []


def test_widgets_have_controls_and_what_is_chosen_counts_for_the_next_run(
    session: Session, machines: SimulatedProvider, w: WorkspaceClient, cluster: str, path: str
) -> None:
    put(w, path, f"{HEADER}dbutils.widgets.text{BETWEEN}dbutils.widgets.removeAll")
    page = opened(session, path)
    attach(page, cluster)
    widgets = page.get_by_role("region", name="Widgets")
    expect(widgets).to_have_count(0)
    code(page, 1).press("Control+Enter")
    expect(widgets.get_by_label("Country <img")).to_have_value("de")
    widgets.get_by_label("Country <img").fill("fr")
    widgets.get_by_label("size", exact=True).select_option("L")
    widgets.get_by_role("combobox", name="Day").fill("any day")
    widgets.get_by_role("combobox", name="Several").press("ArrowDown")
    page.get_by_role("option", name="b", exact=True).click()
    page.keyboard.press("Escape")
    expect(widgets.get_by_role("status")).to_be_visible()
    readable(page)
    page.reload()
    expect(widgets.get_by_label("Country <img")).to_have_value("fr")
    chosen = {"country": "fr", "size": "L", "day": "any day", "several": "a,b"}
    code(page, 1).press("Control+Enter")
    until(lambda: machines.kernels.chosen[-1] == chosen, "the chosen values")
    # The simulated driver has kept its values, as code does that gives a widget another one.
    expect(widgets.get_by_label("Country <img")).to_have_value("de")
    expect(widgets.get_by_role("status")).to_have_count(0)
    code(page, 2).press("Control+Enter")
    expect(widgets).to_have_count(0)
    assert machines.kernels.chosen[-1] == {} and session.said == []


def test_titles_of_cells_are_shown_and_edited(session: Session, w: WorkspaceClient, path: str) -> None:
    put(w, path, f"{HEADER}# DBTITLE 0,Kept{BETWEEN}one{BETWEEN}# DBTITLE 1,First\n# MAGIC %sql\n# MAGIC SELECT 1{BETWEEN}two")
    page = opened(session, path)
    expect(cells(page).nth(2)).to_contain_text("First")
    for number, action, title in ((3, "Edit the title", "Second"), (4, "Add a title", "Third")):
        page.get_by_role("button", name=f"More actions on cell {number}").click()
        page.get_by_role("menuitem", name=action).click()
        page.get_by_label(f"Title of cell {number}").fill(title)
        page.keyboard.press("Enter")
        expect(cells(page).nth(number - 1)).to_be_focused()
        expect(cells(page).nth(number - 1)).to_contain_text(title)
    saved(page)
    titled = f"# DBTITLE 1,Second\n# MAGIC %sql\n# MAGIC SELECT 1{BETWEEN}# DBTITLE 1,Third\ntwo"
    assert text(w, path) == f"{HEADER}# DBTITLE 0,Kept{BETWEEN}one{BETWEEN}{titled}"
    readable(page)
    assert session.said == []


def test_each_tab_keeps_what_was_typed_there(session: Session, w: WorkspaceClient, path: str) -> None:
    put(w, path, f"{HEADER}begin")
    session.changed = True  # the route is the context's: the next test gets another one
    session.context.route("**/api/2.0/workspace/import", lambda route: route.abort())
    first = opened(session, path)
    second = session.page = session.open()
    opened(session, path)
    for page, typed in ((first, "1111"), (second, "2222")):
        code(page, 1).fill(typed)
        expect(page.get_by_role("alert")).to_contain_text("This browser keeps your changes")
    told = second.get_by_role("status", name="Another tab")
    expect(told).to_contain_text("Another tab of this browser has unsaved changes")
    told.get_by_role("button", name="Show the differences").click()
    expect(told.get_by_label("Differences")).to_contain_text("+ 1111")
    readable(second)
    for page, typed in ((first, "1111"), (second, "2222")):
        page.evaluate(CRASHES)
        page.reload()
        expect(code(page, 1)).to_have_text(typed)


def test_what_somebody_else_saved_is_not_overwritten(session: Session, w: WorkspaceClient, path: str) -> None:
    put(w, path, f"{HEADER}begin")
    page = opened(session, path)
    put(w, path, f"{HEADER}theirs")
    code(page, 1).fill("mine")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Someone else changed this notebook")
    assert text(w, path) == f"{HEADER}theirs"
    alert.get_by_role("button", name="Show the differences").click()
    expect(alert.get_by_label("Differences")).to_contain_text("- theirs")
    expect(alert.get_by_label("Differences")).to_contain_text("+ mine")
    readable(page)
    page.reload()  # what was typed is kept until it is decided
    expect(code(page, 1)).to_have_text("mine")
    page.get_by_role("button", name="Keep my version").click()
    saved(page)
    assert text(w, path) == f"{HEADER}mine"

    put(w, path, f"{HEADER}theirs again")
    code(page, 1).fill("mine again")
    page.get_by_role("button", name="Take their version").click()
    page.get_by_role("button", name="Discard").click()
    expect(code(page, 1)).to_have_text("theirs again")
    saved(page)
    assert text(w, path) == f"{HEADER}theirs again"

    # Without edits of one's own, it is shown.
    put(w, path, f"{HEADER}newest")
    expect(code(page, 1)).to_have_text("newest")

    w.workspace.delete(path)
    code(page, 1).fill("after the deletion")
    page.get_by_role("button", name="Save it again").click()
    saved(page)
    assert text(w, path) == f"{HEADER}after the deletion"


def test_what_was_typed_outlives_a_server_that_is_gone(session: Session, w: WorkspaceClient, path: str) -> None:
    put(w, path, f"{HEADER}begin")
    page = opened(session, path)
    page.route("**/api/2.0/workspace/import", lambda route: route.abort())
    code(page, 1).fill("typed while it was away")
    expect(page.get_by_role("alert")).to_contain_text("This browser keeps your changes")
    page.close()
    assert text(w, path) == f"{HEADER}begin"
    session.page = session.open()
    page = opened(session, path)
    expect(code(page, 1)).to_have_text("typed while it was away")
    saved(page)
    until(lambda: text(w, path) == f"{HEADER}typed while it was away", "the save")
    # Leaving saves at once.
    code(page, 1).fill("left")
    page.get_by_role("link", name="Compute").first.click()
    until(lambda: text(w, path) == f"{HEADER}left", "the save on leaving")


def test_versions_are_shown_and_restored(session: Session, w: WorkspaceClient, path: str) -> None:
    w.workspace.delete(path)
    put(w, path, f"{HEADER}first")
    page = opened(session, path)
    code(page, 1).fill("second")
    saved(page)
    page.get_by_role("button", name="Versions").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=re.compile("^Show the version of")).first.click()
    expect(dialog.get_by_label("Differences")).to_contain_text("- second")
    readable(page)
    dialog.get_by_role("button", name="Restore this version").click()
    saved(page)
    until(lambda: text(w, path) == f"{HEADER}first", "the version")


def test_who_may_only_read_changes_nothing(session: Session, w: WorkspaceClient, chromium: Browser) -> None:
    name = f"reader{next(numbers)}@example.com"
    w.users.create(user_name=name)
    entry = AccessControlRequest(user_name=name, permission_level=PermissionLevel.CAN_READ)
    private = f"/Users/{w.current_user.me().user_name}/private {next(numbers)}"
    put(w, private, SOURCE)
    number = str(w.workspace.get_status(private).object_id)
    w.permissions.update("notebooks", number, access_control_list=[entry])
    reader = Session(chromium.new_context(viewport={"width": 1440, "height": 900}), session.server)
    reader.log_in(create(w, name, comment="", days=None))
    page = opened(reader, private)
    expect(page.get_by_role("status", name="Saving")).to_have_text("Read only")
    expect(page.get_by_role("button", name="Add code")).to_have_count(0)
    expect(page.get_by_label("Language of cell 2")).to_have_count(0)
    code(page, 2).click()
    page.keyboard.type("changed")
    expect(code(page, 2)).to_have_text("x = 1")
    page.keyboard.press("Escape")
    for key in ("b", "d", "d", "Alt+ArrowDown"):
        page.keyboard.press(key)
    expect(cells(page)).to_have_count(6)
    readable(page)
    assert text(w, private) == SOURCE
    page.goto(f"{session.server.url}/workspace/notebook?path=/Users/nobody@example.com/secret")
    expect(page.get_by_role("alert")).to_contain_text("Could not read the notebook")
    reader.context.close()


def test_a_notebook_is_created_from_the_files(session: Session, w: WorkspaceClient, path: str) -> None:
    page = session.go(f"/files?path=/Workspace{FOLDER}")
    page.get_by_role("link", name=path.rpartition("/")[2], exact=True).click()
    expect(code(page, 2)).to_have_text("x = 1")
    page.get_by_role("link", name=f"/Workspace{FOLDER}").click()
    page.get_by_role("button", name="Create a notebook").click()
    name = f"made {next(numbers)}"
    page.get_by_label("Name").fill(name)
    page.get_by_label("Language").select_option("SQL")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    code(page, 1).fill("SELECT 1")
    saved(page)
    assert text(w, f"{FOLDER}/{name}") == "-- Databricks notebook source\nSELECT 1\n"
    assert w.workspace.get_status(f"{FOLDER}/{name}").language is Language.SQL


def test_it_fits_and_can_be_read(session: Session, cluster: str, path: str) -> None:
    page = opened(session, path)
    attach(page, cluster)
    code(page, 2).press("Control+Enter")
    code(page, 3).press("Control+Enter")
    expect(cells(page).nth(2).get_by_label("The result")).to_contain_text("42")
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for width, scheme in itertools.product((390, 640, 900, 1440), schemes):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        until(lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a page without scrolling sideways")
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/notebook-{width}-{scheme}.png")
    readable(page)
