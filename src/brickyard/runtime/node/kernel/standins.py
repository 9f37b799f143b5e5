"""Modules that programs written for Databricks import: `dbruntime`, `pyspark.dbutils`, `databricks.sdk.runtime`.

Each is made when it is first imported, and only if nothing of the name is installed: with the real databricks-sdk, its
`databricks.sdk.runtime` takes what is here from `dbruntime`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

NAMES = ("dbutils", "spark", "sc", "sqlContext", "sql", "table", "udf", "getArgument", "display", "displayHTML")


class _InstalledBelow:
    """The places of a package that may be installed later, as importlib reads `__path__`."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __iter__(self) -> Iterator[str]:
        found = (Path(entry or ".").joinpath(*self._names) for entry in list(sys.path))
        return (str(path) for path in found if path.is_dir())


class ReplContext:
    """What `dbruntime.databricks_repl_context.get_context()` returns. What is not known here is None."""

    isInCluster = isInNotebook = True

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def clusterId(self) -> str | None:
        return self._of(self._context.clusterId())

    @property
    def notebookPath(self) -> str | None:
        return self._of(self._context.notebookPath())

    @property
    def user(self) -> str | None:
        return self._of(self._context.userName())

    @staticmethod
    def _of(option: Any) -> str | None:
        found = option.getOrElse(None)
        return None if found is None else str(found)

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class StandIns(MetaPathFinder, Loader):
    """Finds the modules, after everything that is installed."""

    def __init__(self, namespace: Mapping[str, Any], context: Any) -> None:
        self._namespace = namespace
        self._context = context
        self._modules: dict[str, Callable[[], dict[str, Any]]] = {
            "dbruntime": lambda: {"__path__": [], "UserNamespaceInitializer": _initializer(self._names)},
            "dbruntime.databricks_repl_context": lambda: {"get_context": lambda: ReplContext(self._context)},
            "pyspark.dbutils": self._pyspark_dbutils,
            "databricks": lambda: {"__path__": _InstalledBelow("databricks")},
            "databricks.sdk": lambda: {"__path__": _InstalledBelow("databricks", "sdk")},
            "databricks.sdk.runtime": lambda: {**self._names(), "is_local_implementation": False},
        }

    def find_spec(self, fullname: str, _path: object = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._modules else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._modules[module.__name__]())

    def _names(self) -> dict[str, Any]:
        return {name: self._namespace[name] for name in NAMES if name in self._namespace}

    def _pyspark_dbutils(self) -> dict[str, Any]:
        dbutils = self._namespace["dbutils"]

        def make(_spark: Any = None) -> Any:
            """Returns the `dbutils` of this context."""
            return dbutils

        return {"DBUtils": make}


def _initializer(names: Callable[[], dict[str, Any]]) -> type:
    class UserNamespaceInitializer:
        """What a notebook's namespace begins with."""

        @classmethod
        def getOrCreate(cls) -> UserNamespaceInitializer:
            return cls()

        def get_namespace_globals(self) -> dict[str, Any]:
            return names()

        def get_spark_session(self) -> Any:
            return names()["spark"]

    return UserNamespaceInitializer
