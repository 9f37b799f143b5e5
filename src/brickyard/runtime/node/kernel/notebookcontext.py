"""`dbutils.notebook.entry_point.getDbutils().notebook().getContext()`: what a notebook knows of where it runs, in the shape of
the Scala objects that programs find there on Databricks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_INSTEAD = (
    "For databricks-sdk, give WorkspaceClient(host=..., token=dbutils.secrets.get(...)) the address and a token that is a secret."
)
_NO_CREDENTIAL = f"no token is handed to code on clusters. {_INSTEAD}"
_NO_URL = f"the workspace's address is not known on clusters. {_INSTEAD}"


class Option:
    """A value that may be missing. `why`: what is said about one that is."""

    def __init__(self, value: str | None, why: str) -> None:
        self._value, self._why = value, why

    def get(self) -> str:
        if self._value is None:
            raise LookupError(f"java.util.NoSuchElementException: None.get: {self._why}")
        return self._value

    def getOrElse(self, default: Any) -> Any:
        return default if self._value is None else self._value

    def isDefined(self) -> bool:
        return self._value is not None

    nonEmpty = isDefined

    def isEmpty(self) -> bool:
        return self._value is None

    def toString(self) -> str:
        return "None" if self._value is None else f"Some({self._value})"

    __repr__ = __str__ = toString


class Tags:
    """A map of the context's tags."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def get(self, name: str) -> Option:
        return Option(self._values.get(name), f"there is no tag {name!r} here. There are: {', '.join(self._values)}.")

    def apply(self, name: str) -> str:
        return self.get(name).get()

    __getitem__ = apply

    def getOrElse(self, name: str, default: Any) -> Any:
        return self.get(name).getOrElse(default)

    def contains(self, name: str) -> bool:
        return name in self._values

    __contains__ = contains

    def toString(self) -> str:
        return f"Map({', '.join(f'{name} -> {value}' for name, value in self._values.items())})"

    __repr__ = __str__ = toString


class NotebookContext:
    """The context. The callables are asked when somebody wants to know; an empty answer means unknown."""

    def __init__(self, *, user: Callable[[], str], cluster_id: Callable[[], str], path: Callable[[], str]) -> None:
        self._user, self._cluster_id, self._path = user, cluster_id, path

    def tags(self) -> Tags:
        found = {"user": self._user(), "clusterId": self._cluster_id(), "notebookLanguage": "python"}
        return Tags({name: value for name, value in found.items() if value})

    def userName(self) -> Option:
        return self.tags().get("user")

    def clusterId(self) -> Option:
        return self.tags().get("clusterId")

    def notebookPath(self) -> Option:
        return Option(self._path() or None, "the path of this notebook is not known here.")

    def apiToken(self) -> Option:
        return Option(None, _NO_CREDENTIAL)

    def apiUrl(self) -> Option:
        return Option(None, _NO_URL)

    def browserHostName(self) -> Option:
        return Option(None, _NO_URL)

    def jobId(self) -> Option:
        return Option(None, "no job runs here.")

    currentRunId = rootRunId = jobGroup = jobId

    def extraContext(self) -> Tags:
        return Tags({"notebook_path": self._path()} if self._path() else {})

    def toJson(self) -> str:
        return json.dumps(
            {
                "rootRunId": None, "currentRunId": None, "jobGroup": None, "tags": self.tags()._values,
                "extraContext": self.extraContext()._values,
            }
        )  # fmt: skip

    def safeToJson(self) -> str:
        return json.dumps({"attributes": {**self.tags()._values, **self.extraContext()._values}})


class EntryPoint:
    """Leads to the context, as Py4J's entry point does on Databricks."""

    def __init__(self, context: NotebookContext) -> None:
        self._context = context

    def getDbutils(self) -> EntryPoint:
        return self

    def notebook(self) -> EntryPoint:
        return self

    def getContext(self) -> NotebookContext:
        return self._context
