"""`validate_only`: the call is made in a transaction that is never committed, so its verdict is that of the real call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE
from brickyard.clusters.commands import ClusterCommands
from brickyard.clusters.missing import existing_cluster
from brickyard.clusters.policies import check_source
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, InvalidParameterValue
from brickyard.domain.places import Place
from brickyard.domain.policies import PolicyRow
from brickyard.domain.requests import CreateCluster, EditCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.validation import (
    UNSAVED_POLICY,
    ClusterType,
    ClusterValidation,
    FieldError,
    FieldLock,
    HourlyPrice,
    PolicyProblem,
    PolicyTrial,
    TryPolicy,
)
from brickyard.plan.liveedit import restart_fields
from brickyard.plan.policies.evaluation import locks
from brickyard.plan.policies.governing import Governed
from brickyard.plan.policies.language import parse
from brickyard.plan.scripts import script_places
from brickyard.plan.spec import named
from brickyard.plan.specifying import mistakes, plain_spec
from brickyard.plan.spend import price_per_hour
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class NamedFiles(Protocol):
    """Looks for the files that a specification names."""

    async def trouble(self, caller: Caller, place: Place) -> str:
        """What is wrong with a file, as the end of a sentence ("does not exist"); "" if nothing is known to be."""
        ...


class Tried(NamedTuple):
    """The effective specification of the cluster that a call makes or changes, and the fields for which it restarts."""

    effective: ClusterSpec
    restart_fields: list[str] = []


class _Judged(Exception):
    """Rolls the transaction back, and carries what came of it."""

    def __init__(self, verdict: ClusterValidation) -> None:
        super().__init__()
        self.verdict = verdict


class ClusterValidations:
    """One per server. Methods raise what the real call would raise, except for mistakes in the specification."""

    def __init__(
        self, *, store: Store, commands: ClusterCommands, authorizer: Authorizer, currency: str, files: NamedFiles | None
    ) -> None:
        self._store = store
        self._files = files
        self._authorizer = authorizer
        self._commands = commands
        self._currency = currency

    async def create(self, caller: Caller, request: CreateCluster) -> ClusterValidation:
        """What `create` would do."""
        judged = await self._judge(caller, request, lambda tx: Tried(self._commands.create(tx, caller, request).spec))
        return await self._warned(caller, request, judged)

    async def edit(self, caller: Caller, request: EditCluster) -> ClusterValidation:
        """What `edit` would do."""

        def work(tx: Tx) -> Tried:
            before = existing_cluster(tx, request.cluster_id)
            self._commands.edit(tx, caller, request)
            after = existing_cluster(tx, request.cluster_id)
            restarts = after.incarnation != before.incarnation
            return Tried(after.spec, restart_fields(before.spec, after.spec) if restarts else [])

        return await self._warned(caller, request, await self._judge(caller, request, work))

    async def _warned(
        self, caller: Caller, request: CreateCluster | EditCluster, verdict: ClusterValidation
    ) -> ClusterValidation:
        """The verdict, with the scripts that are not there: those of the policy as well."""
        if self._files is None:
            return verdict
        spec = verdict.effective or verdict.under_policy or plain_spec(request)
        warnings = []
        for field, place in script_places(spec.init_scripts or ()):
            if trouble := await self._files.trouble(caller, place):
                warnings.append(FieldError(field=field, message=f"{place.address} {trouble}."))
        return msgspec.structs.replace(verdict, warnings=warnings)

    async def try_policy(self, caller: Caller, request: TryPolicy) -> PolicyTrial:
        """What `create`, or a run with a new cluster, would do under a policy that is not saved. Only administrators can save
        one, and so try one."""
        to = "try cluster policies in the"
        await self._store.read(lambda tx: self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to=to))
        family = request.policy_family_id or ""
        text = check_source(request.definition, family, request.policy_family_definition_overrides)
        _, problems = parse(text)
        if problems:
            return PolicyTrial(problems=[PolicyProblem(**each._asdict()) for each in problems])
        policy = PolicyRow(
            policy_id=UNSAVED_POLICY,
            name=f"{UNSAVED_POLICY} ",  # no saved policy has a name that ends with a blank
            definition="" if family else text,
            policy_family_id=family,
            overrides=text if family else "",
        )
        fields = msgspec.structs.asdict(request.cluster)
        create = CreateCluster(**(fields | {"policy_id": UNSAVED_POLICY}))

        def work(tx: Tx) -> Tried:
            tx.policies.put(policy)
            if request.cluster_type is ClusterType.JOB:
                return Tried(self._commands.specify(tx, caller, plain_spec(create)).spec)
            return Tried(self._commands.create(tx, caller, create).spec)

        return PolicyTrial(problems=[], verdict=await self._judge(caller, create, work, request.cluster_type))

    async def _judge(
        self,
        caller: Caller,
        request: CreateCluster | EditCluster,
        work: Callable[[Tx], Tried],
        cluster_type: ClusterType = ClusterType.ALL_PURPOSE,
    ) -> ClusterValidation:
        """`work` does what is asked for, and returns what came of it."""
        spec = plain_spec(request)

        def tried(tx: Tx) -> None:
            try:
                done = work(tx)
            except InvalidParameterValue as error:
                user = caller.user_name
                if isinstance(request, EditCluster):  # a single-user cluster keeps its user
                    user = existing_cluster(tx, request.cluster_id).spec.single_user_name or user
                raise _Judged(self._refused(tx, caller, spec, error, cluster_type, user=user)) from None
            raise _Judged(self._accepted(tx, caller, spec, done, cluster_type))

        try:
            await self._store.write(tried)
        except _Judged as judged:
            return judged.verdict
        raise AssertionError("the transaction is never committed")

    def _accepted(self, tx: Tx, caller: Caller, spec: ClusterSpec, done: Tried, cluster_type: ClusterType) -> ClusterValidation:
        offered = self._commands.offered(tx, caller, spec, cluster_type=cluster_type)
        price = price_per_hour(done.effective, offered.node_types)
        return ClusterValidation(
            valid=True,
            errors=[],
            locks=_locked(offered.governed),
            effective=done.effective,
            restart_fields=done.restart_fields,
            price_per_hour=HourlyPrice(least=price.least, most=price.most, currency=self._currency)
            if price is not None
            else None,
        )

    def _refused(
        self, tx: Tx, caller: Caller, spec: ClusterSpec, error: InvalidParameterValue, cluster_type: ClusterType, *, user: str
    ) -> ClusterValidation:
        """All mistakes that can be found; what the real call says is among them."""
        try:
            offered = self._commands.offered(tx, caller, spec, cluster_type=cluster_type)
        except ApiError:  # of the policy itself, or of what the real call would not have got to
            return ClusterValidation(valid=False, errors=[_error(error.message)], locks=[])
        found = [FieldError(**each._asdict()) for each in mistakes(spec, offered, user=user)]
        if not any(each.message in error.message for each in found):
            found.insert(0, _error(error.message))
        under_policy = offered.governed.given if offered.governed is not None else None
        return ClusterValidation(valid=False, errors=found, locks=_locked(offered.governed), under_policy=under_policy)


def _error(message: str) -> FieldError:
    return FieldError(field=named(message), message=message)


def _locked(governed: Governed | None) -> list[FieldLock]:
    if governed is None:
        return []
    name = governed.policy.name.strip()
    return [
        FieldLock(field=each.path, value=each.value, hidden=each.hidden, reason=f"Policy {name}: {each.reason}")
        for each in locks(governed.definition)
    ]
