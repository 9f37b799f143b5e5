"""Where a cluster's logs are delivered: reads `cluster_log_conf`. Pure."""

from __future__ import annotations

from brickyard.domain import places
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import LogDestination
from brickyard.domain.places import Kind, Place, PlaceError
from brickyard.domain.spec import ClusterLogConf, S3StorageInfo

_FIELDS = {"dbfs": (Kind.DBFS, Kind.VOLUMES), "volumes": (Kind.VOLUMES,), "s3": (Kind.S3,), "file": (Kind.DBFS, Kind.VOLUMES)}
_PREFIX = {"dbfs": "dbfs:/", "volumes": "/Volumes/", "s3": "s3://", "file": "file:/dbfs/ or file:/Volumes/"}
_BARE = {"dbfs": Kind.DBFS, "volumes": Kind.VOLUMES, "file": Kind.FILE}  # what a path without a prefix is
_ENCRYPTIONS = ("sse-s3", "sse-kms")
_VOLUME_PARTS = 3  # catalog, schema, volume: they must exist


def log_destination(conf: ClusterLogConf | None) -> LogDestination | None:
    """The destination, or None if there is none. Raises InvalidParameterValue."""
    infos = {name: getattr(conf, name) for name in _FIELDS if conf is not None}
    given = {name: info.destination for name, info in infos.items() if info is not None and info.destination}
    if len(given) > 1:
        raise InvalidParameterValue(f"cluster_log_conf names {' and '.join(given)}; name one destination.")
    for name, destination in given.items():
        field = f"cluster_log_conf.{name}.destination"
        try:
            s3 = conf.s3 if name == "s3" and conf is not None else None
            options = {"region": s3.region or "", "endpoint": s3.endpoint or ""} if s3 is not None else {}
            place = places.parse(destination, bare=None if s3 is not None else _BARE[name], **options)
            if name == "file" and place.kind is Kind.FILE:
                place = as_nodes_see(place)
        except PlaceError as error:
            raise InvalidParameterValue(f"{field}: {error}") from error
        if place.kind not in _FIELDS[name]:
            why = ": a node's own files go with the node" if name == "file" else ""
            raise InvalidParameterValue(f"{field} is {destination!r}; it must begin with {_PREFIX[name]}{why}.")
        if s3 is not None:
            return _s3(s3, place)
        return LogDestination(kind=place.kind, path=place.path, volume=_VOLUME_PARTS if place.kind is Kind.VOLUMES else 0)
    return None


def as_nodes_see(place: Place) -> Place:
    """The file of the workspace that nodes see at this path of their own, if it is one: `file:/dbfs/x` is `dbfs:/x`. Raises
    PlaceError."""
    return places.parse(place.node_path, bare=Kind.FILE)


def _s3(info: S3StorageInfo, place: Place) -> LogDestination:
    field = "cluster_log_conf.s3."
    if not info.region and not info.endpoint:
        raise InvalidParameterValue(f"{field}region is missing: give region or endpoint.")
    if info.canned_acl:
        raise InvalidParameterValue(
            f"{field}canned_acl is {info.canned_acl[:100]!r}, and canned ACLs are not supported here: leave it out, and let the"
            " bucket own its objects (BucketOwnerEnforced, which is the default of S3)."
        )
    kind, key = info.encryption_type or "", info.kms_key or ""
    if (kind or key) and not info.enable_encryption:
        raise InvalidParameterValue(f"{field}{'encryption_type' if kind else 'kms_key'} needs enable_encryption: set it to true.")
    if kind and kind not in _ENCRYPTIONS:
        raise InvalidParameterValue(f"{field}encryption_type is {kind[:100]!r}; it must be sse-s3 or sse-kms.")
    if key and kind != "sse-kms":
        raise InvalidParameterValue(f"{field}kms_key needs encryption_type sse-kms.")
    return LogDestination(
        kind=place.kind, path=place.path, bucket=place.bucket, region=place.region, endpoint=place.endpoint,
        encryption=(kind or "sse-s3") if info.enable_encryption else "", kms_key=key,
    )  # fmt: skip
