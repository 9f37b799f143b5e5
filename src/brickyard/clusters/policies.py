"""The policies that govern clusters: which there are, and how many clusters a user may have under one."""

from __future__ import annotations

import hashlib

from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.policies import PolicyRow
from brickyard.plan.policies.families import FAMILIES, Family
from brickyard.plan.policies.governing import family_of
from brickyard.store.tx import Tx

_SHOWN = 140  # characters of the client's value that a message repeats: more than any id has


def _default_of(family: Family) -> PolicyRow:
    """The workspace's policy of a family, until somebody edits it."""
    digest = hashlib.blake2b(family.policy_family_id.encode(), digest_size=8).hexdigest().upper()
    return PolicyRow(
        policy_id=digest,
        name=family.name,
        description=family.description,
        policy_family_id=family.policy_family_id,
        is_default=True,
    )


DEFAULTS = {row.policy_id: row for row in map(_default_of, FAMILIES)}


def find_policy(tx: Tx, policy_id: str | None) -> PolicyRow | None:
    """The policy with that id, the families' own included. None if no id is given, or there is no such policy."""
    return tx.policies.get(policy_id) or DEFAULTS.get(policy_id) if policy_id else None


def existing_policy(tx: Tx, policy_id: str) -> PolicyRow:
    """The policy with that id. Raises ResourceDoesNotExist."""
    row = find_policy(tx, policy_id)
    if row is None:
        raise ResourceDoesNotExist(f"Can't find a cluster policy with id: {policy_id[:_SHOWN]}.")
    return row


def check_room(tx: Tx, policy: PolicyRow | None, user_name: str, *, more: int = 1) -> None:
    """Raises QuotaExceeded if the user cannot have so many more active clusters under the policy."""
    if why := no_room(tx, policy, user_name, more=more):
        raise QuotaExceeded(why)


def no_room(tx: Tx, policy: PolicyRow | None, user_name: str, *, more: int = 1, ending: int = 0) -> str:
    """Why the user cannot have so many more active clusters under the policy; "" if they can. `ending` of the active ones do not
    count."""
    if policy is None or policy.max_clusters_per_user is None:
        return ""
    tx.lock(f"policy/{policy.policy_id}/{user_name}")  # else two creates would each count without the other
    active = tx.policies.active_clusters(policy.policy_id, user_name) - ending
    waiting = sum(run.clusters_to_come(policy.policy_id) for run in tx.runs.active_of(user_name))
    if active + waiting + more <= policy.max_clusters_per_user:
        return ""
    to_come = f" and {waiting} more to come for runs" if waiting else ""
    return (
        f"{user_name} has {active} active clusters{to_come} under the policy {policy.name}, which allows "
        f"{policy.max_clusters_per_user}: terminate one first."
    )


def check_source(definition: str | None, family: str, overrides: str | None) -> str:
    """Checks where the rules come from: a definition, or a family with overrides. Returns the text of the policy's own rules.
    Raises InvalidParameterValue and ResourceDoesNotExist."""
    if family and definition:
        raise InvalidParameterValue("definition and policy_family_id are both given: leave one out.")
    if not family and not definition:
        raise InvalidParameterValue("Missing required field: definition")
    if overrides and not family:
        raise InvalidParameterValue("policy_family_definition_overrides needs policy_family_id.")
    if family and family not in family_of:
        raise unknown_family(family)
    return overrides or "{}" if family else definition or ""


def unknown_family(policy_family_id: str) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"Can't find a policy family with id: {policy_family_id[:140]}.")
