"""Full disks and used-up memory, with real processes on a small disk of their own (`scenarios.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.room import apart

AGAIN = pytest.param(True, id="without-privileges", marks=pytest.mark.extended)
EITHER = pytest.mark.parametrize("user", [pytest.param(False, id="as-we-are"), AGAIN])


@EITHER
def test_a_cluster_is_deleted_on_a_full_disk(tmp_path: Path, user: bool) -> None:
    apart.run("a_cluster_is_deleted_on_a_full_disk", tmp_path, user=user)


def test_a_killed_server_starts_on_a_full_disk(tmp_path: Path) -> None:
    apart.run("a_killed_server_starts_on_a_full_disk", tmp_path, user=True)


def test_a_server_starts_without_an_inode(tmp_path: Path) -> None:
    apart.run("a_server_starts_without_an_inode", tmp_path, user=True, inodes=20_000)


@pytest.mark.extended  # the start after a kill has less to go by
def test_a_server_starts_on_a_full_disk_after_a_clean_stop(tmp_path: Path) -> None:
    apart.run("a_server_starts_on_a_full_disk_after_a_clean_stop", tmp_path, user=True)


def test_a_database_opens_while_others_take_every_byte(tmp_path: Path) -> None:
    apart.run("a_database_opens_while_others_take_every_byte", tmp_path, user=True)


@EITHER
def test_the_one_that_fills_the_disk_is_ended(tmp_path: Path, user: bool) -> None:
    apart.run("the_one_that_fills_the_disk_is_ended", tmp_path, user=user)


@pytest.mark.extended  # as the one that takes the bytes
def test_the_one_that_takes_the_inodes_is_ended(tmp_path: Path) -> None:
    apart.run("the_one_that_takes_the_inodes_is_ended", tmp_path, user=True, inodes=20_000)


def test_who_fills_dbfs_is_ended(tmp_path: Path) -> None:
    apart.run("who_fills_dbfs_is_ended", tmp_path, user=True)


def test_a_node_without_groups_gives_way(tmp_path: Path) -> None:
    apart.run("a_node_without_groups_gives_way", tmp_path, user=False, groups=False)


def test_snapshots_on_a_full_disk(tmp_path: Path) -> None:
    apart.run("snapshots_on_a_full_disk", tmp_path, user=True)
