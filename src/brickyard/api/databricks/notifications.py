"""The Notification Destinations API."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.features.notifications.service import DestinationService

_DESTINATIONS = Group(
    "notification_destinations",
    lambda ctx: ctx.services.notification_destinations,
    "/api/2.0/notification-destinations",
)
OPERATIONS: tuple[Operation, ...] = (
    _DESTINATIONS("POST", DestinationService.create, "Create a notification destination", name="create", needs=ADMIN),
    _DESTINATIONS("GET", DestinationService.list, "Notification destinations, oldest first", name="list", needs=IN_WORKSPACE),
    _DESTINATIONS(
        "GET /{id}", DestinationService.get, "One notification destination", name="get", needs=IN_WORKSPACE, errors=(404,)
    ),
    _DESTINATIONS(
        "PATCH /{id}", DestinationService.update, "Change a notification destination", name="update", needs=ADMIN, errors=(404,)
    ),
    _DESTINATIONS(
        "DELETE /{id}", DestinationService.delete, "Delete a notification destination", name="delete", needs=ADMIN, errors=(404,)
    ),
)
