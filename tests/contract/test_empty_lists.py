"""What clients list before they begin, and that there is none."""

from __future__ import annotations

import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound

from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server


def test_lists_are_empty(w: WorkspaceClient) -> None:
    assert list(w.repos.list()) == []
    assert list(w.git_credentials.list()) == []
    assert list(w.pipelines.list_pipelines()) == []
    assert list(w.instance_profiles.list()) == []
    assert list(w.serving_endpoints.list()) == []
    assert list(w.experiments.list_experiments()) == []
    assert list(w.experiments.search_experiments()) == []


def test_what_would_change_something_is_refused_by_name(w: WorkspaceClient, golden: Golden) -> None:
    for call in (
        lambda: w.repos.create(url="https://example.com/r.git", provider="gitHub"),
        lambda: w.git_credentials.create(git_provider="gitHub"),
        lambda: w.pipelines.create(name="p"),
        lambda: w.instance_profiles.add("arn:aws:iam::1:instance-profile/p"),
        lambda: w.experiments.create_experiment("e"),
    ):
        with golden.refused(NotFound, "POST"):
            call()


def test_a_stranger_learns_nothing(server: Server) -> None:
    for token, status in (("", 401), (TOKEN, 200)):
        head = {"Authorization": f"Bearer {token}"} if token else {}
        assert requests.get(f"{server.url}/api/2.0/repos", headers=head, timeout=PATIENCE_S).status_code == status
