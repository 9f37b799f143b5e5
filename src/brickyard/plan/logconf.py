"""Where a cluster's logs are delivered: reads `cluster_log_conf`. Pure."""

from __future__ import annotations

from brickyard.domain import places
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import LogDestination
from brickyard.domain.places import Kind, PlaceError
from brickyard.domain.spec import ClusterLogConf

_FIELDS = {"dbfs": (Kind.DBFS, Kind.VOLUMES), "volumes": (Kind.VOLUMES,)}
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
            place = places.parse(destination, bare=_FIELDS[name][0])
        except PlaceError as error:
            raise InvalidParameterValue(f"{field}: {error}") from error
        if place.kind not in _FIELDS[name]:
            kinds = "dbfs:/" if name == "dbfs" else "/Volumes/"
            raise InvalidParameterValue(f"{field} is {destination!r}; it must begin with {kinds}.")
        return LogDestination(kind=place.kind, path=place.path, volume=_VOLUME_PARTS if place.kind is Kind.VOLUMES else 0)
    return None
