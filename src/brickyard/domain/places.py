"""Parses every address that a specification may name: of an init script, a library, or a destination of logs.

Pure, and the only parser. `parse` returns a `Place`, or raises PlaceError with a sentence for people.

| address | kind | path |
|---|---|---|
| `dbfs:/a/b`, `/dbfs/a/b` | DBFS | `a/b`: below `/dbfs` |
| `/Volumes/c/s/v/a`, `dbfs:/Volumes/c/s/v/a` | VOLUMES | `c/s/v/a`: below `/Volumes` |
| `/Workspace/a`, `workspace:/a` | WORKSPACE | `a`: below `/Workspace` |
| `file:/a/b` | FILE | `a/b`: below the node's own `/` |
| `s3://bucket/key`, `s3a://bucket/key` | S3 | the key |
| `abfss://container@account.dfs.core.windows.net/key` | ABFSS | the key |
| `gs://bucket/key` | GS | the key |

Paths are never decoded (`%20` is three characters) and never lead outside: `..`, `.`, empty names, NUL and other control
characters are refused. One slash at the end is allowed, and dropped.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

MAX_PATH = 4096  # bytes, as on Linux
MAX_NAME = 255
MAX_KEY = 1024  # bytes, in every object store


class Kind(StrEnum):
    DBFS = "dbfs"
    VOLUMES = "volumes"
    WORKSPACE = "workspace"
    FILE = "file"
    S3 = "s3"
    ABFSS = "abfss"
    GS = "gs"


OBJECT_STORES: Final = frozenset({Kind.S3, Kind.ABFSS, Kind.GS})
# Where nodes see a kind of file, and with which prefix Databricks writes it.
MOUNTS: Final = {Kind.DBFS: "/dbfs", Kind.VOLUMES: "/Volumes", Kind.WORKSPACE: "/Workspace", Kind.FILE: ""}
_PREFIXES: Final = {Kind.DBFS: "dbfs:", Kind.VOLUMES: "/Volumes", Kind.WORKSPACE: "/Workspace", Kind.FILE: "file:"}


class PlaceError(ValueError):
    """The address cannot be used; the message says why in a sentence."""


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file, object or directory. `path` is relative and has no slash at either end; it is empty for the top."""

    kind: Kind
    path: str = ""
    bucket: str = ""  # of an object store; the container for ABFSS
    account: str = ""  # ABFSS: the account's host name
    region: str = ""  # S3
    endpoint: str = ""  # S3: a URL; counts more than the region

    @property
    def is_object(self) -> bool:
        """Whether it lies in an object store, and not in files that nodes see."""
        return self.kind in OBJECT_STORES

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def node_path(self) -> str:
        """Where nodes see it. Only for files."""
        return f"{MOUNTS[self.kind]}/{self.path}".rstrip("/") or "/"

    @property
    def address(self) -> str:
        """The address in its usual form; `parse` reads it again as the same place."""
        if not self.is_object:
            return f"{_PREFIXES[self.kind]}/{self.path}"
        bucket = f"{self.bucket}@{self.account}" if self.kind is Kind.ABFSS else self.bucket
        return f"{self.kind.value}://{bucket}" + (f"/{self.path}" if self.path else "")

    def child(self, name: str) -> Place:
        """What lies below it. `name` may have several parts. Raises PlaceError."""
        _check_parts(name, name, limit=MAX_KEY if self.is_object else MAX_PATH)
        return parse(f"{self.address.removesuffix('/')}/{name}", region=self.region, endpoint=self.endpoint)


_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_GS_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_CONTAINER = re.compile(r"\$web|\$root|[a-z0-9](?:-?[a-z0-9]){2,62}")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}\.dfs\.core\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.\-:\[\]]+/?")

_KNOWN = "dbfs:/, /dbfs/, /Volumes/, /Workspace/, file:/, s3://, s3a://, abfss:// or gs://"


def parse(text: str, *, bare: Kind | None = None, region: str = "", endpoint: str = "") -> Place:
    """Raises PlaceError.

    With `bare`, a path without a prefix (`/Users/me/setup.sh`) lies in that kind's tree: fields that can only name one kind are
    often written so. `region` and `endpoint` are for S3.
    """
    _check_text(text)
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        return _parse_path(text, bare)
    if (region or endpoint) and scheme not in ("s3", "s3a"):
        raise PlaceError(f"{text!r} is not in S3, so it has neither region nor endpoint.")
    if scheme in ("dbfs", "workspace", "file"):
        return _file(Kind(scheme), _after_scheme(text, rest), text)
    if scheme in ("s3", "s3a"):
        return _s3(rest, text, region=region, endpoint=endpoint)
    if scheme == "abfss":
        return _abfss(rest, text)
    if scheme == "gs":
        return _object(Kind.GS, rest, text, _GS_BUCKET)
    raise PlaceError(f"{text!r} begins with {scheme}:, which is not supported; use {_KNOWN}.")


def _parse_path(text: str, bare: Kind | None) -> Place:
    if not text.startswith("/"):
        raise PlaceError(f"{text!r} is not an address; begin it with {_KNOWN}.")
    for kind in (Kind.DBFS, Kind.VOLUMES, Kind.WORKSPACE):
        top = MOUNTS[kind]
        if text == top or text.startswith(top + "/"):
            return _file(kind, text.removeprefix(top) or "/", text)
    if bare is None:
        raise PlaceError(f"{text!r} is not an address; begin it with {_KNOWN}.")
    return _file(bare, text, text)


def _after_scheme(text: str, rest: str) -> str:
    """The path of `dbfs:/a` or `dbfs:///a`. A host is refused."""
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    if not path.startswith("/") or path.startswith("//"):
        scheme = text.partition(":")[0]
        raise PlaceError(f"{text!r} has no absolute path; write {scheme}:/PATH.")
    return path


def _file(kind: Kind, path: str, text: str) -> Place:
    if kind is Kind.DBFS and (path == "/Volumes" or path.startswith("/Volumes/")):
        kind, path = Kind.VOLUMES, path.removeprefix("/Volumes") or "/"
    elif kind is Kind.WORKSPACE and path.startswith("/Workspace/"):
        path = path.removeprefix("/Workspace")
    inner = path.removeprefix("/").removesuffix("/")
    if inner or path != "/":
        _check_parts(inner, text, limit=MAX_PATH)
    if kind is Kind.VOLUMES and inner.count("/") < 2:
        raise PlaceError(f"{text!r} is not in a volume; write /Volumes/CATALOG/SCHEMA/VOLUME/PATH.")
    return Place(kind=kind, path=inner)


def _s3(rest: str, text: str, *, region: str, endpoint: str) -> Place:
    if region and (len(region) > 64 or not _REGION.fullmatch(region)):
        raise PlaceError(f"{region!r} is not a region of S3; write one like us-west-2.")
    if endpoint and (len(endpoint) > 300 or not _ENDPOINT.fullmatch(endpoint)):
        raise PlaceError(f"{endpoint!r} is not an endpoint of S3; write a URL like https://s3-us-west-2.amazonaws.com.")
    place = _object(Kind.S3, rest, text, _BUCKET)
    return msgspec.structs.replace(place, region=region, endpoint=endpoint.removesuffix("/"))


def _abfss(rest: str, text: str) -> Place:
    container, at, tail = rest.removeprefix("//").partition("@")
    account, _, key = tail.partition("/")
    if not rest.startswith("//") or not at or not _CONTAINER.fullmatch(container) or not _ACCOUNT.fullmatch(account):
        raise PlaceError(f"{text!r} is not an address in Azure; write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH.")
    return Place(kind=Kind.ABFSS, bucket=container, account=account, path=_key(key, text))


def _object(kind: Kind, rest: str, text: str, names: re.Pattern[str]) -> Place:
    scheme = text.partition(":")[0]
    bucket, _, key = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not bucket:
        raise PlaceError(f"{text!r} names no bucket; write {scheme}://BUCKET/KEY.")
    if not names.fullmatch(bucket) or ".." in bucket:
        raise PlaceError(f"{bucket!r} in {text!r} is not the name of a bucket.")
    return Place(kind=kind, bucket=bucket, path=_key(key, text))


def _key(key: str, text: str) -> str:
    inner = key.removesuffix("/")
    if inner or key:
        _check_parts(inner, text, limit=MAX_KEY)
    return inner


def _check_text(text: str) -> None:
    if not text:
        raise PlaceError("The address is empty.")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise PlaceError(f"{text!r} contains a control character.")
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        raise PlaceError(f"{text!r} cannot be written as UTF-8.")


def _check_parts(path: str, text: str, *, limit: int) -> None:
    _check_text(path or "/")
    parts = path.split("/")
    if ".." in parts or "." in parts:
        raise PlaceError(f"{text!r} contains '.' or '..'; write the path without them.")
    if "" in parts:
        raise PlaceError(f"{text!r} has an empty name in its path.")
    if len(path.encode()) > limit:
        raise PlaceError(f"The path of {text[:80]!r}... is longer than {limit} bytes.")
    if limit == MAX_PATH and any(len(part.encode()) > MAX_NAME for part in parts):
        raise PlaceError(f"A name in the path of {text[:80]!r}... is longer than {MAX_NAME} bytes.")
