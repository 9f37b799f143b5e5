"""What the owner of a run may still have done for it (`reconcile.runrights`)."""

from __future__ import annotations

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.access.principals import active_principal
from brickyard.clusters.attach.withdrawal import code_refusal
from brickyard.clusters.facts import ingredients
from brickyard.clusters.policies import find_policy, no_room
from brickyard.domain.access import Permission, Principal
from brickyard.domain.cluster import Cluster, public_state
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.run import Run, Task
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.domain.tasks import SubmitTask
from brickyard.plan.admit import check_creator, check_uses
from brickyard.plan.attach import Client, cluster_refusal
from brickyard.plan.spec import named_pools
from brickyard.store.tx import Tx


class RunRights:
    """Implements `reconcile.runrights.Rights` with what is in the database now."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def refused(self, tx: Tx, run: Run, task: Task, cluster: Cluster | None) -> str:
        owner = active_principal(tx, run.creator_user_name)
        if owner is None:
            return f"{run.creator_user_name} is no longer an active user of the workspace."
        try:
            if cluster is None and task.cluster is not None:
                self._may_make(tx, owner, task.cluster)
            elif cluster is not None and public_state(cluster) in (State.TERMINATING, State.TERMINATED):
                self._authorizer.require(tx, owner, Permission.CAN_RESTART, of_cluster(cluster), to="start")
        except PermissionDenied as error:
            return error.message
        return self.code_refused(tx, run, task, cluster) if cluster is not None else ""

    def code_refused(self, tx: Tx, run: Run, task: Task, cluster: Cluster) -> str:
        """Why the run's owner may not run the task on the cluster now; "" if they may."""
        user = run.creator_user_name
        single = cluster_refusal(cluster, user_name=user, client=client_of(task.spec))
        return single or code_refusal(tx, self._authorizer, user, cluster)

    def full(self, tx: Tx, run: Run, policy_id: str, *, more: int, ending: int) -> str:
        return no_room(tx, find_policy(tx, policy_id), run.creator_user_name, more=more, ending=ending)

    def _may_make(self, tx: Tx, owner: Principal, spec: ClusterSpec) -> None:
        pools = tx.pools.many(named_pools(spec))
        found = ingredients(tx, self._authorizer, owner, find_policy(tx, spec.policy_id), pools)
        check_creator(owner, found)
        check_uses(owner, found)


def client_of(task: SubmitTask) -> Client:
    """The kind of work that the task is to its cluster."""
    return Client.SQL if task.on_warehouse else Client.JOBS
