"""The Libraries API, driven by the official SDK on the simulated provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.service.compute import (
    CloneCluster,
    Library,
    LibraryFullStatus,
    LibraryInstallStatus,
    MavenLibrary,
    PythonPyPiLibrary,
    RCranLibrary,
    State,
)
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask

from brickyard.domain.libraries import NO_R
from brickyard.providers.simulated import SimulatedProvider
from tests.support.golden import Golden
from tests.support.patience import until

GOOD, BAD = "simplejson==3.8.0", "no-such-package"
INSTALLED, FAILED, PENDING = LibraryInstallStatus.INSTALLED, LibraryInstallStatus.FAILED, LibraryInstallStatus.PENDING


def pypi(package: str, repo: str | None = None) -> Library:
    return Library(pypi=PythonPyPiLibrary(package=package, repo=repo))


@pytest.fixture
def cluster(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[str]:
    """A running cluster of a driver and two workers."""
    machines.knobs.bad_libraries = frozenset({BAD})
    made = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=2)
    made.result()
    assert made.cluster_id is not None
    yield made.cluster_id
    w.clusters.permanent_delete(made.cluster_id)


def statuses(w: WorkspaceClient, cluster_id: str) -> list[LibraryFullStatus]:
    return list(w.libraries.cluster_status(cluster_id))


def settled(w: WorkspaceClient, cluster_id: str) -> dict[str, LibraryInstallStatus]:
    """Waits until nothing is on its way, as Terraform does; the statuses by package."""
    open_ones = (PENDING, LibraryInstallStatus.RESOLVING, LibraryInstallStatus.INSTALLING)

    def over() -> dict[str, LibraryInstallStatus] | None:
        now = statuses(w, cluster_id)
        found = {
            str(each.library.pypi.package): each.status for each in now if each.library and each.library.pypi and each.status
        }
        return found if not any(each.status in open_ones for each in now) else None

    return until(over, f"libraries are never settled: {statuses(w, cluster_id)}")


def test_installed_on_a_running_cluster_and_again_at_every_start(w: WorkspaceClient, cluster: str, golden: Golden) -> None:
    w.libraries.install(cluster, [pypi(GOOD), pypi(BAD)])
    assert settled(w, cluster) == {GOOD: INSTALLED, BAD: FAILED}
    assert w.clusters.get(cluster).state is State.RUNNING, "a failed library fails no cluster"
    good, bad = statuses(w, cluster)
    assert good.messages is None and bad.messages
    golden("\n".join(bad.messages), BAD)
    assert good.is_library_for_all_clusters is False
    asked = w.api_client.do("GET", "/api/2.0/libraries/cluster-status", query={"cluster_id": cluster})
    assert isinstance(asked, dict)
    for each, status in zip(asked["library_statuses"], (INSTALLED, FAILED), strict=True):
        assert [(node["role"], node["status"]) for node in each["nodes"]] == [
            (role, status.value) for role in ("driver", "worker", "worker")
        ]
        assert len({node["instance_id"] for node in each["nodes"]}) == 3
    w.libraries.install(cluster, [pypi(GOOD)])
    assert len(statuses(w, cluster)) == 2, "it is there already"

    w.clusters.resize_and_wait(cluster, num_workers=3)
    assert settled(w, cluster)[GOOD] is INSTALLED, "on the node that joined later, too"
    w.clusters.delete_and_wait(cluster)
    assert {each.status for each in statuses(w, cluster)} == {PENDING}, "a terminated cluster keeps what is wanted"
    w.clusters.start_and_wait(cluster)
    assert settled(w, cluster) == {GOOD: INSTALLED, BAD: FAILED}


def test_uninstalled_when_the_cluster_starts_again(w: WorkspaceClient, cluster: str, machines: SimulatedProvider) -> None:
    w.libraries.install(cluster, [pypi("a"), pypi("b"), pypi("c")])
    settled(w, cluster)
    w.libraries.uninstall(cluster, [pypi("a"), pypi("never-installed")])
    found = [(each.library.pypi.package, each.status) for each in statuses(w, cluster) if each.library and each.library.pypi]
    assert found == [("b", INSTALLED), ("c", INSTALLED), ("a", LibraryInstallStatus.UNINSTALL_ON_RESTART)]
    machines.knobs.bad_libraries = frozenset({"a"})
    w.libraries.install(cluster, [pypi("a")])
    assert settled(w, cluster)["a"] is FAILED, "it is installed anew: what was installed before does not count"
    machines.knobs.bad_libraries = frozenset()
    w.libraries.uninstall(cluster, [pypi("a")])
    w.libraries.install(cluster, [pypi("a")])
    assert settled(w, cluster)["a"] is INSTALLED, "it stays after all"
    w.libraries.uninstall(cluster, [pypi("a")])
    w.clusters.restart_and_wait(cluster)
    assert settled(w, cluster) == {"b": INSTALLED, "c": INSTALLED}
    w.clusters.delete_and_wait(cluster)
    w.libraries.uninstall(cluster, [pypi("b")])
    assert [each.library for each in statuses(w, cluster)] == [pypi("c")], "nothing runs: it is gone at once"


def test_a_failed_library_is_tried_again(w: WorkspaceClient, cluster: str, machines: SimulatedProvider) -> None:
    w.libraries.install(cluster, [pypi(GOOD), pypi(BAD)])
    assert settled(w, cluster) == {GOOD: INSTALLED, BAD: FAILED}
    machines.knobs.bad_libraries = frozenset({GOOD})
    w.libraries.install(cluster, [pypi(GOOD), pypi(BAD)])
    assert settled(w, cluster) == {GOOD: INSTALLED, BAD: INSTALLED}, "only what failed is tried again"
    assert [each.messages for each in statuses(w, cluster)] == [None, None]


def test_a_run_tries_its_failed_libraries_again(w: WorkspaceClient, cluster: str, machines: SimulatedProvider) -> None:
    w.libraries.install(cluster, [pypi(BAD)])
    settled(w, cluster)
    machines.knobs.bad_libraries = frozenset()
    task = SubmitTask(
        task_key="t",
        existing_cluster_id=cluster,
        spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"),
        libraries=[pypi(BAD)],
    )
    run = w.jobs.submit(tasks=[task])
    assert settled(w, cluster) == {BAD: INSTALLED}
    w.jobs.cancel_run(run.run_id or 0)


def test_a_clone_has_the_libraries_of_its_source(w: WorkspaceClient, cluster: str) -> None:
    w.libraries.install(cluster, [pypi("a"), pypi("b")])
    w.libraries.uninstall(cluster, [pypi("b")])
    made = w.clusters.create(
        spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1, clone_from=CloneCluster(cluster)
    )
    made.result()
    assert made.cluster_id is not None
    assert settled(w, made.cluster_id) == {"a": INSTALLED}
    everything = {each.cluster_id: len(each.library_statuses or []) for each in w.libraries.all_cluster_statuses()}
    assert (everything[cluster], everything[made.cluster_id]) == (2, 1)
    w.clusters.permanent_delete(made.cluster_id)
    assert made.cluster_id not in {each.cluster_id for each in w.libraries.all_cluster_statuses()}


def test_jars_and_maven_libraries_are_one_library_each(w: WorkspaceClient, cluster: str) -> None:
    wanted = [Library(jar="dbfs:/a.jar"), Library(maven=MavenLibrary(coordinates="org.test:a_2.13:1.0+b", exclusions=["*:b"]))]
    w.libraries.install(cluster, [*wanted, Library(maven=MavenLibrary(coordinates="a:b:1", repo="", exclusions=[]))])
    w.libraries.install(cluster, [Library(maven=MavenLibrary(coordinates="a:b:1"))])
    until(lambda: {each.status for each in statuses(w, cluster)} == {INSTALLED}, "they are never installed")
    last = Library(maven=MavenLibrary(coordinates="a:b:1"))
    assert [each.library for each in statuses(w, cluster)] == [*wanted, last], (
        "no repo and no exclusions are the same as empty ones"
    )


def test_what_a_node_cannot_have_is_skipped_with_a_reason(w: WorkspaceClient, cluster: str) -> None:
    w.libraries.install(cluster, [Library(cran=RCranLibrary(package="ggplot2"))])
    until(lambda: statuses(w, cluster)[0].status is LibraryInstallStatus.SKIPPED, "it is never skipped")
    assert statuses(w, cluster)[0].messages == [NO_R]
    w.libraries.install(cluster, [Library(cran=RCranLibrary(package="ggplot2", repo=""))])
    assert len(statuses(w, cluster)) == 1, "an empty repo is none"


@pytest.mark.parametrize(
    ("library", "field"),
    [
        (Library(), "pypi"),
        (Library(whl="dbfs:/a.whl", requirements="dbfs:/r.txt"), "whl"),
        (Library(egg="dbfs:/a.egg"), "egg"),
        (Library(jar="dbfs:/a.zip"), ".jar"),
        (Library(jar="file:/opt/a.jar"), "libraries[1]"),
        (Library(maven=MavenLibrary(coordinates="a:b")), "maven.coordinates"),
        (Library(maven=MavenLibrary(coordinates="a:b:latest.release")), "maven.coordinates"),
        (Library(maven=MavenLibrary(coordinates="a:b:[1,2)")), "maven.coordinates"),
        (Library(maven=MavenLibrary(coordinates='a:b:1"/>')), "maven.coordinates"),
        (Library(maven=MavenLibrary(coordinates="a:b:1", repo="file:///etc")), "repo"),
        (Library(maven=MavenLibrary(coordinates="a:b:1", repo="https://me:secret@there.test")), "maven.repo"),
        (Library(maven=MavenLibrary(coordinates="a:b:1", exclusions=["slf4j"])), "maven.exclusions"),
        (Library(whl="dbfs:/a.egg"), ".whl"),
        (Library(cran=RCranLibrary(package="forecast==8.0")), "cran.package"),
        (Library(cran=RCranLibrary(package="forecast", repo="file:///etc")), "repo"),
        (Library(whl="dbfs:/../a.whl"), ".."),
        (Library(whl="file:/etc/a.whl"), "libraries[1]"),
        (pypi(""), "pypi.package"),
        (pypi("a\n--index-url=http://b"), "pypi.package"),
        (pypi("--index-url=http://b"), "pypi.package"),
        (pypi("a @ http://127.0.0.1/a.whl"), "pypi.package"),
        (pypi("/etc/passwd"), "pypi.package"),
        (pypi("a", repo="file:///etc"), "repo"),
    ],
)
def test_a_library_that_no_cluster_can_have_is_refused(w: WorkspaceClient, library: Library, field: str, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, "libraries[1]", field):
        w.libraries.install(_any(w), [pypi("fine"), library])
    assert list(w.libraries.cluster_status(_any(w))) == [], "one bad library, and none is installed"


def _any(w: WorkspaceClient) -> str:
    """A cluster that needs not run."""
    for cluster in w.clusters.list():
        if cluster.cluster_name == "for refusals" and cluster.cluster_id:
            return cluster.cluster_id
    made = w.clusters.create(
        cluster_name="for refusals", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
    )
    return str(made.cluster_id)


def test_a_cluster_that_does_not_exist(w: WorkspaceClient, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, "none"):
        w.libraries.install("none", [pypi("a")])
    with golden.refused(InvalidParameterValue, "none"):
        list(w.libraries.cluster_status("none"))
