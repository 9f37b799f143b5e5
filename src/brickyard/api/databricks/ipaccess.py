"""The IP Access Lists API."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.features.ipaccess import model
from brickyard.features.ipaccess.service import IpAccessListService


async def _create(lists: IpAccessListService, caller: Caller, request: model.CreateIpAccessList) -> model.IpAccessListResponse:
    return model.IpAccessListResponse(ip_access_list=await lists.create(caller, request))


async def _list(lists: IpAccessListService, caller: Caller) -> model.ListIpAccessListsResponse:
    return model.ListIpAccessListsResponse(ip_access_lists=await lists.list(caller))


async def _get(lists: IpAccessListService, caller: Caller, request: model.IpAccessListId) -> model.IpAccessListResponse:
    return model.IpAccessListResponse(ip_access_list=await lists.get(caller, request))


async def _replace(lists: IpAccessListService, caller: Caller, request: model.ReplaceIpAccessList) -> model.IpAccessListResponse:
    return model.IpAccessListResponse(ip_access_list=await lists.replace(caller, request))


async def _update(lists: IpAccessListService, caller: Caller, request: model.UpdateIpAccessList) -> model.IpAccessListResponse:
    return model.IpAccessListResponse(ip_access_list=await lists.update(caller, request))


_LISTS = Group(
    "ip_access_lists",
    lambda ctx: ctx.services.ip_access_lists,
    "/api/2.0/ip-access-lists",
    "/api/2.0/preview/ip-access-lists",
    needs=ADMIN,
)
OPERATIONS: tuple[Operation, ...] = (
    _LISTS("POST", _create, "Create an IP access list", name="create", with_source=True),
    _LISTS("GET", _list, "All IP access lists, oldest first", name="list"),
    _LISTS("GET /{ip_access_list_id}", _get, "One IP access list", name="get", errors=(404,)),
    _LISTS("PUT /{ip_access_list_id}", _replace, "Replace an IP access list", name="replace", with_source=True, errors=(404,)),
    _LISTS("PATCH /{ip_access_list_id}", _update, "Change an IP access list", name="update", with_source=True, errors=(404,)),
    _LISTS(
        "DELETE /{ip_access_list_id}",
        IpAccessListService.delete,
        "Delete an IP access list",
        name="delete",
        with_source=True,
        errors=(404,),
    ),
)
