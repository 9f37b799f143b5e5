"""Settings and variables that the cluster controls itself: where its parts are, and who may talk to them.

A node ignores user values for them, so they are refused here by name instead of being stored and ignored. A test compares these
tables with the node host's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.secrets import malformed, references
from brickyard.domain.variables import check as check_expansion

_APART = "it isolates this cluster from others"
_PLACE = "the cluster decides where its parts run"
_GPUS = "the node type decides which GPUs a node has"
_DISK = "scratch files go to the node's own directory, which is removed with the node"

# A key, or a prefix ending with a dot for every key below it -> why users cannot set it.
OWNED_CONF: dict[str, str] = {
    "spark.authenticate": _APART,
    "spark.authenticate.": _APART,
    "spark.brickyard.": _APART,
    "spark.connect.authenticate.": _APART,
    "spark.connect.grpc.binding.": _PLACE,
    "spark.deploy.": _PLACE,
    "spark.driver.bindAddress": _PLACE,
    "spark.driver.host": _PLACE,
    "spark.driver.port": _PLACE,
    "spark.driver.resource.gpu.": _GPUS,
    "spark.driver.resourcesFile": _GPUS,
    "spark.executorEnv.PATH": "every node has its own Python environment first on the path; set PATH in spark_env_vars",
    "spark.hadoop.fs.brickyard.": _PLACE,
    "spark.hadoop.fs.dbfs.impl": _PLACE,
    "spark.hadoop.fs.file.impl": _PLACE,
    "spark.local.dir": _DISK,
    "spark.master.": _PLACE,
    "spark.network.crypto.saslFallback": _APART,
    "spark.submit.deployMode": _PLACE,
    "spark.ui.reverseProxy": _PLACE,
    "spark.ui.reverseProxyUrl": _PLACE,
    "spark.worker.resource.gpu.": _GPUS,
    "spark.worker.resourcesFile": _GPUS,
}

OWNED_VARIABLES: dict[str, str] = {
    "BRICKYARD_INSTANCE_ID": _PLACE,
    "CLASSPATH": "use spark.driver.extraClassPath and spark.executor.extraClassPath in spark_conf",
    "JAVA_HOME": "the runtime includes Java; choose another spark_version to change it",
    "PYSPARK_GATEWAY_PORT": _APART,
    "PYSPARK_GATEWAY_SECRET": _APART,
    "PYSPARK_PIN_THREAD": "commands in several contexts depend on its value",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": _APART,
    "SPARK_EXECUTOR_DIRS": _DISK,
    "SPARK_HOME": "the runtime includes Spark; choose another spark_version to change it",
    "SPARK_LOCAL_DIRS": _DISK,
    "SPARK_LOCAL_HOSTNAME": _PLACE,
    "SPARK_LOCAL_IP": _PLACE,
    "SPARK_MASTER_HOST": _PLACE,
    "SPARK_PUBLIC_DNS": _PLACE,
    "SPARK_USER": "commands run as the cluster's own user",
    "SPARK_WORKER_DIR": _DISK,
}

_USERS = ("spark.brickyard.layers",)  # what users set of what begins like ours

_SHOWN = 140
MAX_VARIABLE = 128 << 10  # bytes of NAME=VALUE with its end, on Linux
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOCAL_MASTER = re.compile(r"local(\[(\*|\d+)(,\s*(\*|\d+))?\])?")
_FORM = "write {{secrets/scope/key}}"

# Values that end up on a command line, which every process of the node can read, or that programs print when they start.
_SHOWN_CONF = re.compile(
    r"spark\.(driver|executor)\.(\w+JavaOptions|extraClassPath|extraLibraryPath)"
    r"|spark\.(auth|rpc|network|port).*|spark\.ssl(?!.*Password).*|spark\.(jars|files|archives|submit)(\..*)?|spark\.app\.name"
)
_SHOWN_VARIABLES = frozenset(
    {"_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_EXECUTOR_OPTS", "SPARK_JAVA_OPTS"}
)
_OPEN = "its value is visible in process lists or in logs; use another setting, or read the secret with dbutils.secrets"


def check_conf(conf: Mapping[str, str], *, single: bool) -> None:
    """Raises InvalidParameterValue for a setting that users cannot set. `single`: the cluster has only a driver."""
    for key, value in conf.items():
        name = f"spark_conf.{key[:_SHOWN]}"
        if not key or any(character in "\0=" or character.isspace() for character in key):
            raise InvalidParameterValue(
                f"spark_conf has a bad key {key[:_SHOWN]!r}: it is empty, or has a '=' or a blank. Write the name of the setting "
                "as the key, and the rest as its value."
            )
        if "\0" in value:
            raise InvalidParameterValue(f"{name} has a NUL character: remove it.")
        _check_references(name, value, shown=_SHOWN_CONF.fullmatch(key) is not None)
        if key == "spark.master" and not (single and _LOCAL_MASTER.fullmatch(value)):
            raise InvalidParameterValue(
                f"{name} is {value[:_SHOWN]!r}: every cluster has its own master. Leave it out; only a SingleNode cluster may "
                "set it, to local[*]."
            )
        if why := _owned(key):
            raise InvalidParameterValue(f"{name} cannot be set: {why}. Leave it out.")


def check_variables(variables: Mapping[str, str]) -> None:
    """Raises InvalidParameterValue for an environment variable that users cannot set."""
    for name, value in variables.items():
        if not _NAME.fullmatch(name):
            raise InvalidParameterValue(
                f"spark_env_vars has a bad name {name[:_SHOWN]!r}: use letters, digits and _, and no digit at the start."
            )
        if "\0" in value:
            raise InvalidParameterValue(f"spark_env_vars.{name} has a NUL character, which no environment can hold: remove it.")
        if (size := len(name) + len(value.encode()) + 2) > MAX_VARIABLE:
            raise InvalidParameterValue(
                f"spark_env_vars.{name} takes {size} bytes with its name; no program starts with more than {MAX_VARIABLE}. "
                "Put it into a file."
            )
        _check_references(f"spark_env_vars.{name}", value, shown=name in _SHOWN_VARIABLES)
        if why := OWNED_VARIABLES.get(name):
            raise InvalidParameterValue(f"spark_env_vars.{name} cannot be set: {why}. Leave it out.")
    name, why = check_expansion(variables)
    if why:
        raise InvalidParameterValue(f"spark_env_vars{'.' if name else ''}{name} cannot be expanded: {why}.")


def _check_references(name: str, value: str, *, shown: bool) -> None:
    """Raises InvalidParameterValue for a reference to a secret that is misspelt, or that would be shown (`shown`)."""
    if malformed(value):
        raise InvalidParameterValue(f"{name} has a bad reference to a secret: {_FORM}.")
    if shown and references(value):
        raise InvalidParameterValue(f"{name} cannot refer to a secret: {_OPEN}.")


def _owned(key: str) -> str:
    """Why the cluster controls that setting; "" if it does not."""
    if why := OWNED_CONF.get(key):
        return why
    if key in _USERS:
        return ""
    return next((why for prefix, why in OWNED_CONF.items() if prefix.endswith(".") and key.startswith(prefix)), "")
