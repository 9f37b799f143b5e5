"""The Cluster Policies API's calls, policy families, and the compliance of clusters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_policy
from brickyard.clusters.policies import DEFAULTS, check_source, existing_policy, unknown_family
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.policies import (
    CreatePolicy,
    EditPolicy,
    ListPolicies,
    ListPoliciesResponse,
    ListSortColumn,
    ListSortOrder,
    PolicyFamily,
    PolicyFields,
    PolicyId,
    PolicyRow,
    PolicyView,
)
from brickyard.plan import enforcement
from brickyard.plan.libraries import enforceable
from brickyard.plan.policies.families import FAMILIES, Family
from brickyard.plan.policies.governing import definition_text, family_of, said
from brickyard.plan.policies.language import parse
from brickyard.plan.policies.limits import bad_defaults
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_NAME = 100
MAX_DESCRIPTION = 1_000
_NAMES = "policy names"  # writers lock this so that no two of them assign the same name


class PolicyService:
    """One per server. Methods raise ApiError. `strict`: a definition with mistakes is refused when it is saved; otherwise, as in
    Databricks, it is refused when somebody uses the policy."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, strict: bool = True) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._strict = strict

    async def create(self, caller: Caller, request: CreatePolicy) -> str:
        """Creates a policy and returns its id."""

        def work(tx: Tx) -> str:
            self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="create cluster policies in the")
            row = self._checked(
                request,
                PolicyRow(
                    policy_id=self._ids.policy_id(), name="", creator_user_name=caller.user_name, created_ms=self._clock.now_ms()
                ),
            )
            _take_name(tx, row)
            tx.policies.put(row)
            return row.policy_id

        return await self._store.write(work)

    async def edit(self, caller: Caller, request: EditPolicy) -> None:
        """Replaces a policy's content. Clusters that it governs keep what they have; they may not comply any more."""

        def work(tx: Tx) -> None:
            tx.lock(_NAMES)  # else a policy that is deleted at the same time would be written anew
            found = self._find(tx, caller, request.policy_id, Permission.ADMIN, to="edit")
            if found.is_default and (request.policy_family_id or found.policy_family_id) != found.policy_family_id:
                raise InvalidParameterValue(f"The default policy {found.name} stays with its family {found.policy_family_id}.")
            row = self._checked(request, found)
            _take_name(tx, row)
            tx.policies.put(row)

        await self._store.write(work)

    async def delete(self, caller: Caller, request: PolicyId) -> None:
        """Deletes a policy. Clusters that it governs can still run, but cannot be edited before they leave it. What was to be
        enforced when they end is not."""

        def work(tx: Tx) -> None:
            tx.lock(_NAMES)
            found = self._find(tx, caller, request.policy_id, Permission.ADMIN, to="delete")
            if found.is_default:
                raise InvalidParameterValue(f"The default policy {found.name} cannot be deleted.")
            for cluster_id in tx.policies.active(found.policy_id):
                cluster = tx.clusters.get(cluster_id)
                if cluster is not None and cluster.enforcement is not None:
                    done, event = enforcement.failed(cluster, now=self._clock.now_ms(), user=caller.user_name)
                    tx.clusters.update(done)
                    tx.events.append(event)
            tx.policies.delete(found.policy_id)

        await self._store.write(work)

    async def get(self, caller: Caller, request: PolicyId) -> PolicyView:
        """One policy."""
        return await self._store.read(
            lambda tx: policy_view(self._find(tx, caller, request.policy_id, Permission.CAN_USE, to="see"))
        )

    async def list(self, caller: Caller, request: ListPolicies) -> ListPoliciesResponse:
        """The policies that the caller may use."""

        def work(tx: Tx) -> list[PolicyRow]:
            kind = ObjectKind.CLUSTER_POLICY
            defaults = self._authorizer.shown(tx, caller, kind, DEFAULTS.values(), of_policy)
            stored = tx.policies.shown(self._authorizer.visible(tx, caller, kind))
            return [*{row.policy_id: row for row in (*defaults, *stored)}.values()]

        by_name = request.sort_column is ListSortColumn.POLICY_NAME
        descending = request.sort_order is ListSortOrder.DESC or (request.sort_order is None and not by_name)
        rows = sorted(
            await self._store.read(work),
            key=lambda row: (row.name if by_name else "", row.created_ms, row.policy_id),
            reverse=descending,
        )
        return ListPoliciesResponse(policies=[policy_view(row) for row in rows])

    async def families(self, caller: Caller) -> Sequence[PolicyFamily]:
        """All policy families."""
        await self._may_look(caller)
        return [_family_view(family) for family in FAMILIES]

    async def family(self, caller: Caller, policy_family_id: str) -> PolicyFamily:
        """One policy family."""
        await self._may_look(caller)
        if policy_family_id not in family_of:
            raise unknown_family(policy_family_id)
        return _family_view(family_of[policy_family_id])

    async def _may_look(self, caller: Caller) -> None:
        to = "see the policy families of the"
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.WORKSPACE_ACCESS, WORKSPACE, to=to))

    def _find(self, tx: Tx, caller: Caller, policy_id: str, permission: Permission, *, to: str) -> PolicyRow:
        row = existing_policy(tx, policy_id)
        self._authorizer.require(tx, caller, permission, of_policy(row), to=to)
        return row

    def _checked(self, request: PolicyFields, row: PolicyRow) -> PolicyRow:
        """The row with the request's content. Raises InvalidParameterValue."""
        name = (request.name or "").strip()
        if not 1 <= len(name) <= MAX_NAME:
            raise InvalidParameterValue(f"name has {len(name)} characters; it must have 1 to {MAX_NAME}.")
        if len(request.description or "") > MAX_DESCRIPTION:
            raise InvalidParameterValue(
                f"description has {len(request.description or '')} characters; at most {MAX_DESCRIPTION} are allowed."
            )
        if (most := request.max_clusters_per_user) is not None and most < 1:
            raise InvalidParameterValue(f"max_clusters_per_user is {most}; it must be positive. Leave it out for no limit.")
        family = request.policy_family_id or (row.policy_family_id if row.is_default else "")
        self._check_source(request, family)
        return msgspec.structs.replace(
            row,
            name=name,
            description=request.description or "",
            definition="" if family else request.definition or "",
            policy_family_id=family,
            overrides=request.policy_family_definition_overrides or "" if family else "",
            max_clusters_per_user=most,
            libraries=enforceable(request.libraries or ()),
        )

    def _check_source(self, request: PolicyFields, family: str) -> None:
        text = check_source(request.definition, family, request.policy_family_definition_overrides)
        definition, problems = parse(text)
        problems += bad_defaults(definition)
        if problems and (self._strict or not _is_object(text)):
            field = "policy_family_definition_overrides" if family else "definition"
            raise InvalidParameterValue(f"{field} is malformed: {said(problems)}")


def policy_view(row: PolicyRow) -> PolicyView:
    """A policy as clients see it. Pure."""
    return PolicyView(
        policy_id=row.policy_id,
        name=row.name,
        definition=definition_text(row),
        description=row.description or None,
        creator_user_name=row.creator_user_name or None,
        created_at_timestamp=row.created_ms or None,
        is_default=row.is_default or None,
        max_clusters_per_user=row.max_clusters_per_user,
        policy_family_id=row.policy_family_id or None,
        policy_family_definition_overrides=row.overrides or None,
        libraries=row.libraries or None,
    )


def _family_view(family: Family) -> PolicyFamily:
    return PolicyFamily(**family._asdict())


def _is_object(text: str) -> bool:
    """Whether the text is a JSON object: anything else could not be merged with a family, or shown."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _take_name(tx: Tx, row: PolicyRow) -> None:
    tx.lock(_NAMES)
    default = next((each.policy_id for each in DEFAULTS.values() if each.name == row.name), None)
    other = tx.policies.named(row.name) or default
    if other is not None and other != row.policy_id:
        raise InvalidParameterValue(f"name {row.name} is taken by cluster policy {other}: choose another name.")
