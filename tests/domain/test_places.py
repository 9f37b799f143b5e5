"""Addresses: each is one place or refused with a sentence, and none leads outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.places import MOUNTS, OBJECT_STORES, Kind, Place, PlaceError, parse
from tests.support.golden import Golden


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("dbfs:/init-scripts/setup.sh", Kind.DBFS, "init-scripts/setup.sh"),
        ("dbfs:///a/b", Kind.DBFS, "a/b"),
        ("dbfs:/", Kind.DBFS, ""),
        ("/dbfs/a b/c%20d", Kind.DBFS, "a b/c%20d"),
        ("/dbfs", Kind.DBFS, ""),
        ("dbfs:/a/", Kind.DBFS, "a"),
        ("/Volumes/c/s/v/x.sh", Kind.VOLUMES, "c/s/v/x.sh"),
        ("dbfs:/Volumes/c/s/v", Kind.VOLUMES, "c/s/v"),
        ("/dbfs/Volumes/c/s/v", Kind.VOLUMES, "c/s/v"),
        ("/Workspace/Users/a@b.c/x.sh", Kind.WORKSPACE, "Users/a@b.c/x.sh"),
        ("workspace:/cluster-init-scripts/setup-datadog.sh", Kind.WORKSPACE, "cluster-init-scripts/setup-datadog.sh"),
        ("workspace:/Workspace/x", Kind.WORKSPACE, "x"),
        ("file:/my/local/file.sh", Kind.FILE, "my/local/file.sh"),
        ("file:///my/local/file.sh", Kind.FILE, "my/local/file.sh"),
        ("s3://my-bucket/some-prefix", Kind.S3, "some-prefix"),
        ("s3a://my-bucket/a/b/", Kind.S3, "a/b"),
        ("s3://my-bucket", Kind.S3, ""),
        ("abfss://box@account.dfs.core.windows.net/a/b", Kind.ABFSS, "a/b"),
        ("gs://my_bucket/file.sh", Kind.GS, "file.sh"),
    ],
)
def test_documented_addresses(text: str, kind: Kind, path: str) -> None:
    place = parse(text)
    assert (place.kind, place.path) == (kind, path)


def test_buckets_accounts_and_options() -> None:
    place = parse("s3a://logs/x", region="us-west-2", endpoint="http://127.0.0.1:9000/")
    assert place == Place(kind=Kind.S3, bucket="logs", path="x", region="us-west-2", endpoint="http://127.0.0.1:9000")
    place = parse("abfss://box@account.dfs.core.windows.net/a")
    assert (place.bucket, place.account) == ("box", "account.dfs.core.windows.net")


def test_a_path_without_prefix_needs_a_kind(golden: Golden) -> None:
    assert parse("/Users/me/x.sh", bare=Kind.WORKSPACE).node_path == "/Workspace/Users/me/x.sh"
    assert parse("/dbfs/x.sh", bare=Kind.WORKSPACE).kind is Kind.DBFS
    with golden.refused(PlaceError):
        parse("/Users/me/x.sh")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "setup.sh",
        "~/setup.sh",
        "dbfs:setup.sh",
        "dbfs://host/x",
        "dbfs:////x",
        "dbfs:/a/../b",
        "dbfs:/..",
        "/dbfs/../etc/passwd",
        "/Volumes/../dbfs/x/y",
        "s3://bucket/../other",
        "dbfs:/a/./b",
        "dbfs:/a//b",
        "s3://bucket//",
        "dbfs:/a\0b",
        "dbfs:/a\nb",
        "dbfs:/\ud800",
        "/Volumes",
        "/Volumes/my-init.sh",
        "dbfs:/Volumes/c/s",
        "dbfs:/" + "x" * 256,
        "dbfs:/" + "x/" * 2050 + "x",
        "s3://bucket/" + "x" * 1025,
        "s3://",
        "s3:/bucket/x",
        "s3://Bad_Bucket/x",
        "s3://a..b/x",
        "s3://user:password@bucket/x",
        "gs:///x",
        "abfss://account.dfs.core.windows.net/x",
        "abfss://box@elsewhere/x",
        "wasbs://box@account.blob.core.windows.net/x",
        "https://example.org/x.sh",
    ],
)
def test_what_is_refused(text: str, golden: Golden) -> None:
    with golden.refused(PlaceError):
        parse(text)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"region": "us west"}, "region"),
        ({"endpoint": "localhost:9000"}, "endpoint"),
        ({"endpoint": "https://user:pw@host"}, "endpoint"),
        ({"endpoint": "https://host/path"}, "endpoint"),
    ],
)
def test_options_of_s3_are_checked(options: dict[str, str], why: str, golden: Golden) -> None:
    with pytest.raises(PlaceError, match=why):
        parse("s3://bucket/x", **options)  # type: ignore[arg-type] # mypy cannot match a dict's values to keywords
    with golden.refused(PlaceError):
        parse("gs://bucket/x", **options)  # type: ignore[arg-type] # as above


_PREFIXES = ["dbfs:", "/dbfs", "/Volumes", "/Workspace", "workspace:", "file:", "s3:", "s3a:", "abfss:", "gs:"]
_PARTS = ["/", "//", ".", "..", "a", "b", "bucket", "box@account.dfs.core.windows.net", "\0", "é", "%2e%2e", ":", "@"]
_PIECES = _PREFIXES + _PARTS


@given(
    st.one_of(st.text(max_size=60), st.lists(st.sampled_from(_PIECES), max_size=12).map("".join)),
    st.sampled_from([None, *MOUNTS]),
)
def test_no_address_leads_outside(text: str, bare: Kind | None) -> None:
    try:
        place = parse(text, bare=bare)
    except PlaceError as error:
        assert str(error).endswith((".", "..."))
        return
    parts = place.path.split("/") if place.path else []
    assert not {"", ".", ".."} & set(parts)
    assert "\0" not in place.path
    assert parse(place.address) == place
    assert place.is_object == (place.kind in OBJECT_STORES) == bool(place.bucket)
    if not place.is_object:
        assert place.node_path.startswith(MOUNTS[place.kind] + "/") or not place.path


@given(st.text(max_size=30))
def test_a_child_stays_below(name: str) -> None:
    top = parse("dbfs:/a/b")
    try:
        child = top.child(name)
    except PlaceError:
        return
    assert child.path == f"a/b/{name}"
    assert parse(child.address) == child
