"""What the tests of the editor share: clusters to edit, and what they do on the form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from databricks.sdk import WorkspaceClient
from playwright.sync_api import Locator, Page, expect

from tests.ui.axe import HOSTILE

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"
DEFINITION = {
    "num_workers": {"type": "range", "minValue": 1, "maxValue": 3},
    "autotermination_minutes": {"type": "fixed", "value": 20},
    "node_type_id": {"type": "allowlist", "values": [TYPE, "i3.2xlarge"], "defaultValue": TYPE},
    "custom_tags.team": {"type": "regex", "pattern": "[a-z]+"},
    "spark_conf.spark.sql.shuffle.partitions": {"type": "fixed", "value": "8"},
    "spark_env_vars.SECRET": {"type": "fixed", "value": "unseen", "hidden": True},
    "init_scripts": {"type": "forbidden"},
}


def made_of(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """A pool, a policy, and two clusters, one of which runs: by name, their ids."""
    ids: dict[str, Any] = {
        "pool": w.instance_pools.create(
            instance_pool_name="warm", node_type_id=TYPE, min_idle_instances=1, preloaded_spark_versions=[RUNTIME]
        ).instance_pool_id,
        "policy": str(w.cluster_policies.create(name="Small", definition=json.dumps(DEFINITION)).policy_id),
    }
    common: dict[str, Any] = {"spark_version": RUNTIME, "node_type_id": TYPE, "num_workers": 1}
    running = w.clusters.create(cluster_name="edited", spark_conf={"a.b": "1"}, custom_tags={"team": "data"}, **common)
    hostile = w.clusters.create(cluster_name=HOSTILE, **common)
    ids |= {"edited": str(running.result().cluster_id), "hostile": str(hostile.result().cluster_id)}
    w.clusters.delete(ids["hostile"]).result()
    yield {name: str(each) for name, each in ids.items()}
    for each in w.clusters.list():
        w.clusters.permanent_delete(str(each.cluster_id))
    w.cluster_policies.delete(ids["policy"])
    w.instance_pools.delete(str(ids["pool"]))


def accepted(page: Page) -> None:
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()


def opened(page: Page, title: str) -> Locator:
    """A section of the form, open."""
    head = page.get_by_role("button", name=re.compile(f"^{title}"))
    if head.get_attribute("aria-expanded") == "false":
        head.click()
    return page.get_by_role("region", name=re.compile(f"^{title}"))


def choose(page: Page, label: str, option: str | re.Pattern[str]) -> None:
    page.get_by_label(label, exact=True).first.click()
    page.get_by_role("option", name=option).first.click()


def paste(field: Locator, text: str) -> None:
    field.evaluate(
        """(element, text) => {
            const data = new DataTransfer();
            data.setData("text", text);
            element.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
        }""",
        text,
    )


def body_of(page: Page) -> Any:
    """What the JSON tab shows."""
    page.get_by_role("tab", name="JSON").click()
    shown = page.locator(".cm-content")
    expect(shown).to_be_visible()
    found = json.loads("\n".join(shown.locator(".cm-line").all_inner_texts()))
    page.get_by_role("tab", name="Form").click()
    return found
