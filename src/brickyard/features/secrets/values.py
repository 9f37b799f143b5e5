"""Puts the values of secrets into what is delivered to nodes.

A specification, and the assignment in an instance's row, only name secrets: {{secrets/scope/key}}. The values are read in the
name of the cluster's owner each time a node asks for its assignment, and are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_scope
from brickyard.access.principals import active_principal
from brickyard.domain.access import Permission
from brickyard.domain.errors import PermissionDenied
from brickyard.domain.node import Assignment, Failure
from brickyard.domain.places import Kind
from brickyard.domain.secrets import SecretName, all_references, filled, filled_before, references
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.domain.variables import BadReference, expanded, literal
from brickyard.logs.transfers import own_credentials
from brickyard.storage.sealer import Sealer
from brickyard.storage.vault import Vault, VaultError
from brickyard.store.tx import Tx

MAX_VARIABLE = 128 * 1024 - 1  # bytes of NAME=value; Linux starts no program with a longer one


class _Unresolved(Exception):
    """A secret cannot be used."""

    def __init__(self, code: TerminationReasonCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class SecretValues:
    """One per server."""

    def __init__(self, *, authorizer: Authorizer, vault: Vault, sealer: Sealer) -> None:
        self._authorizer = authorizer
        self._vault = vault
        self._sealer = sealer

    def deliver(self, tx: Tx, assignment: Assignment) -> Assignment:
        """The assignment with values in place of references, and the values to redact. If one cannot be had, an assignment that
        says why and has neither settings nor variables."""
        used = sorted({name.folded for name in all_references(assignment.spark_conf, assignment.spark_env_vars)})
        if not used:
            return self._with_credentials(assignment)
        try:
            values = {name: self._value(tx, assignment.user, name) for name in used}
            conf = _filled(assignment.spark_conf, values)
            _check_variables(_filled(assignment.spark_env_vars, values), assignment.spark_env_vars)
            variables = _filled_literally(assignment.spark_env_vars, values)
        except _Unresolved as error:
            refusal = Failure(code=error.code.value, message=str(error))
            return msgspec.structs.replace(assignment, spark_conf={}, spark_env_vars={}, refusal=refusal)
        redact = tuple(sorted(set(values.values())))
        sealed = self._sealer.seal(redact)
        return self._with_credentials(
            msgspec.structs.replace(assignment, spark_conf=conf, spark_env_vars=variables, redact=redact, sealed=sealed)
        )

    def _with_credentials(self, assignment: Assignment) -> Assignment:
        """Adds, sealed, what a server needs to deliver the logs that the node may leave (reconcile/logdelivery.py)."""
        logs = assignment.logs
        if logs is None or logs.kind != Kind.S3:
            return assignment
        try:
            variables = expanded(assignment.spark_env_vars, {})
        except BadReference:
            return assignment  # its node will not start either
        sealed = self._sealer.seal_variables(own_credentials(Kind.S3, variables))
        return msgspec.structs.replace(assignment, logs=msgspec.structs.replace(logs, sealed=sealed))

    def _value(self, tx: Tx, owner: str, name: SecretName) -> str:
        principal = active_principal(tx, owner)
        if tx.secrets.scope(name.scope) is None:
            raise _resolution(f"secret {name} cannot be read: the scope does not exist. Create it, or remove the reference.")
        denied = TerminationReasonCode.SECRET_PERMISSION_DENIED
        if principal is None:
            why = f"secret {name} cannot be read: {owner}, the cluster's owner, is no active user of the workspace."
            raise _Unresolved(denied, why)
        try:
            self._authorizer.require(tx, principal, Permission.READ, of_scope(name.scope), to="read secrets of")
        except PermissionDenied as error:
            raise _Unresolved(denied, f"secret {name} cannot be read for the cluster's owner: {error.message}") from error
        found = tx.secrets.get(name)
        if found is None:
            raise _resolution(f"secret {name} does not exist. Put it, or remove the reference.")
        try:
            value = self._vault.open(name, found[1]).decode()
        except VaultError as error:
            raise _resolution(f"secret {name} cannot be read: {error}") from error
        except UnicodeDecodeError:
            raise _resolution(f"secret {name} is not text, so no setting or variable can hold it.") from None
        if "\0" in value:
            raise _resolution(f"secret {name} has a NUL character, so no setting or variable can hold it.")
        return value


def _filled(values: Mapping[str, str], secrets: Mapping[SecretName, str]) -> dict[str, str]:
    return {key: filled(text, lambda name: secrets[name.folded]) for key, text in values.items()}


def _filled_literally(values: Mapping[str, str], secrets: Mapping[SecretName, str]) -> dict[str, str]:
    """The variables, of which nodes expand references to others: what is in a secret stays as it is."""
    return {key: filled_before(text, lambda name, rest: literal(secrets[name.folded], rest)) for key, text in values.items()}


def _check_variables(variables: Mapping[str, str], given: Mapping[str, str]) -> None:
    for name, value in variables.items():
        if len(name) + 1 + len(value.encode()) > MAX_VARIABLE:
            first = next(iter(references(given[name])), SecretName("", ""))
            raise _resolution(f"secret {first} makes the variable {name} longer than an environment can hold (128 KB).")


def _resolution(message: str) -> _Unresolved:
    return _Unresolved(TerminationReasonCode.SECRET_RESOLUTION_ERROR, message)
