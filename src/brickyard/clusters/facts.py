"""Reads what decides about a new specification, for `plan.admit`. The pools that it names stay locked until the commit."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster, of_policy, of_pool, of_scope
from brickyard.access.principals import active_principal
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.missing import missing_cluster
from brickyard.clusters.policies import find_policy, no_room
from brickyard.domain.access import Principal
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool
from brickyard.domain.requests import CreateCluster
from brickyard.domain.secrets import SecretName, all_references
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.access import Acl
from brickyard.plan.admit import Facts, Ingredients, joins_policy
from brickyard.plan.policies.governing import ALL_PURPOSE, govern
from brickyard.plan.spec import Offered, named_pools
from brickyard.store.tx import Tx


class FactReader:
    """One per server."""

    def __init__(self, *, offers: Offers, authorizer: Authorizer, photon: bool) -> None:
        self._offers = offers
        self._authorizer = authorizer
        self._photon = photon

    def of_create(self, tx: Tx, caller: Principal, request: CreateCluster) -> Facts:
        copied, token = request.clone_from.source_cluster_id if request.clone_from else None, request.idempotency_token
        source = tx.clusters.get(copied) if copied is not None else None  # locked before any pool, as everywhere
        facts = self.of_spec(tx, caller, request, secrets=True)
        if token:
            # Two creates with one token: the second writer finds the row of the first. On PostgreSQL, where writers run
            # concurrently, the lock makes them take turns.
            tx.lock(f"idempotency/{caller.user_name}/{token}")
            if (same := tx.clusters.by_idempotency_token(token, caller.user_name)) is not None:
                return msgspec.structs.replace(facts, same=same)
        missing = copied is not None and (source is None or source.deleted_ms > 0)
        return msgspec.structs.replace(
            facts,
            source=source,
            source_missing=missing_cluster(tx, copied) if missing and copied is not None else None,
            source_acl=self._authorizer.acl(tx, of_cluster(source), of=caller) if source is not None else None,
            over_limit=no_room(tx, facts.policy, caller.user_name) if facts.policy is not None else "",
        )

    def of_edit(self, tx: Tx, caller: Principal, requested: ClusterSpec, cluster: Cluster) -> Facts:
        facts = self.of_spec(tx, caller, requested)
        owner = active_principal(tx, cluster.creator_user_name)
        readers = (caller,) if owner is None else (caller, owner)
        given = facts.offered.governed.given if facts.offered.governed is not None else requested
        return msgspec.structs.replace(
            facts,
            over_limit=no_room(tx, facts.policy, cluster.creator_user_name) if joins_policy(cluster, requested) else "",
            readers=readers,
            scopes=self._scopes(tx, readers, given, before=cluster.spec),
        )

    def of_spec(
        self, tx: Tx, caller: Principal, requested: ClusterSpec, *, cluster_type: str = ALL_PURPOSE, secrets: bool = False
    ) -> Facts:
        """What is known of a specification itself. `secrets`: also of the scopes of secrets to which it refers."""
        policy, choice = find_policy(tx, requested.policy_id), self._offers.choice()
        governed, malformed = None, None
        try:
            governed = govern(requested, policy, choice, cluster_type=cluster_type) if policy is not None else None
        except InvalidParameterValue as error:
            malformed = error
        given = governed.given if governed is not None else requested
        names = named_pools(given) if malformed is None else ()
        pools = tx.pools.many(names) if names else {}
        name = given.single_user_name or ""
        single_user = tx.users.get(name) if name else None
        return Facts(
            caller=caller,
            policy=policy,
            malformed=malformed,
            ingredients=ingredients(tx, self._authorizer, caller, policy, pools),
            offered=Offered(
                node_types=choice.node_types,
                runtimes=self._offers.runtimes,
                photon=self._photon,
                max_nodes=self._offers.max_nodes,
                pools=pools,
                users=frozenset({single_user.user_name}) if single_user is not None else frozenset(),
                governed=governed,
            ),
            readers=(caller,),
            scopes=self._scopes(tx, (caller,), given) if secrets else {},
        )

    def _scopes(
        self, tx: Tx, readers: tuple[Principal, ...], spec: ClusterSpec, *, before: ClusterSpec | None = None
    ) -> dict[str, Acl | None]:
        new = _references(spec) - (_references(before) if before is not None else set())
        of = next((each for each in readers if not each.is_admin), readers[0])
        return {
            scope: self._authorizer.acl(tx, of_scope(scope), of=of) if tx.secrets.scope(scope) is not None else None
            for scope in sorted({name.scope for name in new})
        }


def ingredients(
    tx: Tx, authorizer: Authorizer, principal: Principal, policy: PolicyRow | None, pools: Mapping[str, Pool]
) -> Ingredients:
    """Who may use a policy and pools, as far as it matters for the principal."""
    return Ingredients(
        workspace=authorizer.acl(tx, WORKSPACE, of=principal),
        policy=authorizer.acl(tx, of_policy(policy), of=principal) if policy is not None else None,
        pools=tuple(authorizer.acl(tx, of_pool(pool), of=principal) for pool in pools.values()),
    )


def _references(spec: ClusterSpec) -> set[SecretName]:
    return {name.folded for name in all_references(spec.spark_conf, spec.spark_env_vars)}
