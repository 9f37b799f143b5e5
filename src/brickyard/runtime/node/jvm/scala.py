"""Scala by way of Py4J, which speaks Java."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Scala:
    """The little of Scala that Py4J does not speak by itself."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self._any = self.object("scala.reflect", "ClassTag").Any()
        self.none = self.jvm.scala.Option.empty()

    def object(self, package: str, name: str) -> Any:
        """The object `package.name` (name: Outer$Inner for nested ones)."""
        holder = self.jvm
        for part in package.split("."):
            holder = getattr(holder, part)
        return getattr(getattr(holder, f"{name}$"), "MODULE$")

    def ask(self, endpoint: Any, message: Any) -> Any:
        """One question to an RPC endpoint. Raises Py4JError."""
        return endpoint.askSync(message, self._any)

    def items(self, sequence: Any) -> Iterator[Any]:
        """The items of a Seq, each fetched when it is its turn. Raises Py4JError."""
        return (sequence.apply(number) for number in range(int(sequence.size())))

    def field(self, owner: Any, name: str) -> Any:
        """What a field holds that has no method to read it. Raises Py4JError when there is none of that name."""
        declared = owner.getClass().getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(owner)

    def compiled(self, source: Path, parent: Any) -> Any:
        """A class loader with the class in a file of Java source, over the loader `parent`. Raises Py4JError."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(parent)
        compiler.cook(source.read_text())
        return compiler.getClassLoader()

    def spark_conf(self, values: Mapping[str, str]) -> Any:
        """A new SparkConf."""
        conf = self.jvm.org.apache.spark.SparkConf()
        for key, value in values.items():
            conf.set(key, value)
        return conf

    def rpc_env(self, system: str, host: str, conf: Any) -> tuple[Any, Any]:
        """An RPC environment on a free port of `host`, and its security manager."""
        companion = self.object("org.apache.spark", "SecurityManager")
        secret_file = getattr(companion, "$lessinit$greater$default$3")()
        security = self.jvm.org.apache.spark.SecurityManager(conf, self.none, secret_file)
        return self.object("org.apache.spark.rpc", "RpcEnv").create(system, host, 0, conf, security, False), security
