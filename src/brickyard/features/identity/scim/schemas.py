"""The attributes of SCIM resources, as clients ask for them (RFC 7643, 7). Attributes without a use here are kept too, but not
listed."""

from __future__ import annotations

from typing import Any

CORE = "urn:ietf:params:scim:schemas:core:2.0:"
WORKSPACE_USER = "urn:ietf:params:scim:schemas:extension:workspace:2.0:User"


def _attribute(name: str, description: str, *, kind: str = "string", **others: Any) -> dict[str, Any]:
    text = {"caseExact": False, "uniqueness": "none"} if kind in ("string", "reference") else {}
    return {
        "name": name,
        "type": kind,
        "multiValued": False,
        "description": description,
        "required": False,
        **text,
        "mutability": "readWrite",
        "returned": "default",
        **others,
    }


def _list(name: str, description: str, *parts: dict[str, Any], **others: Any) -> dict[str, Any]:
    return _attribute(name, description, kind="complex", multiValued=True, subAttributes=list(parts), **others)


def _references(name: str, description: str, *, mutability: str) -> dict[str, Any]:
    return _list(
        name,
        description,
        _attribute("value", "The id", caseExact=True, mutability="immutable"),
        _attribute("display", "The name", mutability="readOnly"),
        _attribute("$ref", "The address of the resource", kind="reference", mutability="readOnly", **_REFERS),
        mutability=mutability,
    )


_REFERS = {"referenceTypes": ["User", "Group", "ServicePrincipal"], "caseExact": True}
_DISPLAY_NAME = _attribute("displayName", "The name that people see")
_ACTIVE = _attribute("active", "Whether it may use the workspace", kind="boolean")
_GROUPS = _references("groups", "The groups that it is in, through other groups too", mutability="readOnly")
_ENTITLEMENTS = _list("entitlements", "What it may do in the workspace", _attribute("value", "The entitlement", caseExact=True))
_SCHEMAS = {
    f"{CORE}User": (
        "User",
        "A person",
        [
            _attribute("userName", "An e-mail address", required=True, uniqueness="server", mutability="immutable"),
            _attribute(
                "name",
                "The parts of the name",
                kind="complex",
                subAttributes=[_attribute("givenName", "The first name"), _attribute("familyName", "The last name")],
            ),
            _DISPLAY_NAME,
            _ACTIVE,
            _list(
                "emails",
                "E-mail addresses",
                _attribute("value", "The address"),
                _attribute("type", "Its kind, such as work"),
                _attribute("primary", "Whether it is the main one", kind="boolean"),
            ),
            _ENTITLEMENTS,
            _GROUPS,
        ],
    ),
    f"{CORE}Group": (
        "Group",
        "A group of users, service principals and groups",
        [
            _attribute("displayName", "The name", required=True, uniqueness="server"),
            _references("members", "The direct members", mutability="readWrite"),
            _ENTITLEMENTS,
            _GROUPS,
        ],
    ),
    f"{CORE}ServicePrincipal": (
        "ServicePrincipal",
        "A program",
        [
            _attribute(
                "applicationId", "A UUID, made by the server if it is absent", uniqueness="server", mutability="immutable"
            ),
            _DISPLAY_NAME,
            _ACTIVE,
            _ENTITLEMENTS,
            _GROUPS,
        ],
    ),
    WORKSPACE_USER: ("WorkspaceUser", "Says that a user is one of a workspace", []),
}


def schemas(place: str) -> list[dict[str, Any]]:
    """All of them. `place` is the address of the list."""
    return [
        {
            "schemas": [f"{CORE}Schema"],
            "id": urn,
            "name": name,
            "description": description,
            "attributes": attributes,
            "meta": {"resourceType": "Schema", "location": f"{place}/{urn}"},
        }
        for urn, (name, description, attributes) in _SCHEMAS.items()
    ]
