"""Gives jobs to other owners, for the permissions API."""

from __future__ import annotations

import msgspec

from brickyard.access.principals import active_principal
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied
from brickyard.features.jobs.rows import JobRows
from brickyard.store.tx import Tx


class JobOwners:
    """One per server. Implements `features.permissions.service.Owners`."""

    def give(self, tx: Tx, caller: Caller, job_id: int, user_name: str) -> bool:
        """Makes the user or service principal the owner of a job; False if it is a submitted run, whose owner stays. The rights
        of the job's runs follow an administrator's transfer, unless `run_as` is set. They do not follow an owner's: else
        everybody could have their code run with another's rights. Raises ApiError."""
        row = tx.rows(JobRows).get(job_id)
        if row is None:
            return False
        if caller.user_name != row.owned_by and not caller.is_admin:
            raise PermissionDenied(f"access_control_list: only {row.owned_by} or an administrator may give job {job_id} away.")
        if active_principal(tx, user_name) is None:
            raise InvalidParameterValue(f"access_control_list: {user_name} is deactivated and cannot own job {job_id}.")
        follows = caller.is_admin and row.settings.run_as is None
        row = msgspec.structs.replace(row, owner=user_name, run_as=user_name if follows else row.run_as)
        tx.rows(JobRows).update(row)
        return True
