"""Termination reasons: maps failures to the API's code, type and parameters, and to a sentence for people."""

from __future__ import annotations

import re

from brickyard.domain.cluster import LaunchError
from brickyard.domain.node import Failure
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType

_CLIENT = TerminationReasonType.CLIENT_ERROR
_CLOUD = TerminationReasonType.CLOUD_FAILURE

# Whose fault a code is; codes not listed are the service's. Clients do not retry CLIENT_ERROR.
_TYPES = {
    TerminationReasonCode.SPARK_STARTUP_FAILURE: _CLIENT,
    TerminationReasonCode.INVALID_ARGUMENT: _CLIENT,
    TerminationReasonCode.INIT_SCRIPT_FAILURE: _CLIENT,
    TerminationReasonCode.GLOBAL_INIT_SCRIPT_FAILURE: _CLIENT,
    TerminationReasonCode.SECRET_PERMISSION_DENIED: _CLIENT,
    TerminationReasonCode.SECRET_RESOLUTION_ERROR: _CLIENT,
    TerminationReasonCode.DRIVER_OUT_OF_MEMORY: _CLIENT,
    TerminationReasonCode.UNSUPPORTED_INSTANCE_TYPE: _CLIENT,
    TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED: _CLIENT,
    TerminationReasonCode.INSTANCE_POOL_NOT_FOUND: _CLIENT,
    TerminationReasonCode.CLOUD_PROVIDER_RESOURCE_STOCKOUT: _CLOUD,
    TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE: _CLOUD,
    TerminationReasonCode.CLOUD_PROVIDER_SHUTDOWN: _CLOUD,
    TerminationReasonCode.SPOT_INSTANCE_TERMINATION: _CLOUD,
    TerminationReasonCode.DRIVER_EVICTION: _CLOUD,
}

# A line that tells of normal work, as log4j and Python's logging write it: time, level, text.
_CHATTER = re.compile(r"\d\S* (\S+ ){0,2}\[?(TRACE|DEBUG|INFO)\b|(DEBUG|INFO):")

# The termination code for each kind of provider error.
_LAUNCH_CODES = {
    "CapacityError": TerminationReasonCode.CLOUD_PROVIDER_RESOURCE_STOCKOUT,
    "QuotaError": TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE,
    "InvalidError": TerminationReasonCode.INVALID_ARGUMENT,
    "ThrottledError": TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE,
    "TransientError": TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE,
}


def simple_reason(code: TerminationReasonCode, **parameters: str) -> TerminationReason:
    """A reason with the type that belongs to its code."""
    kind = _TYPES.get(code, TerminationReasonType.SERVICE_FAULT)
    return TerminationReason(code=code, type=kind, parameters=parameters or None)


def launch_reason(error: LaunchError, *, what: str) -> tuple[TerminationReason, str]:
    """The reason and message for an instance that the provider refused to launch."""
    code = _LAUNCH_CODES.get(error.kind, TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE)
    parameters = {"databricks_error_message": error.message}
    if error.asked:
        parameters |= {"asked": error.asked, "left": error.left}
    return simple_reason(code, **parameters), f"No instance is available for {what}: {error.message}"


def failure_reason(failure: Failure, *, what: str, instance_id: str) -> tuple[TerminationReason, str]:
    """The reason and message for a node that reported a failure; the last log lines go into a parameter, and those that may
    explain something into the message as well."""
    try:
        code = TerminationReasonCode(failure.code)
    except ValueError:
        code = TerminationReasonCode.DRIVER_UNEXPECTED_FAILURE
    parameters = {"instance_id": instance_id, "databricks_error_message": failure.message}
    if failure.log_tail:
        parameters["log_tail"] = failure.log_tail
    message = f"{what} failed: {failure.message}"
    if lines := [line for line in failure.log_tail.splitlines() if line.strip() and not _CHATTER.match(line)]:
        message += "\nLast lines of its log:\n" + "\n".join(lines)
    return simple_reason(code, **parameters), message


def shortage_text(reason: TerminationReason) -> str:
    """The text of a reason, for people."""
    return (reason.parameters or {}).get("databricks_error_message", str(reason.code))
