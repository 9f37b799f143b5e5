"""Scala through Py4J, which speaks only Java."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError

from .launch import properties_text


class Scala:
    """The few Scala features that Py4J does not support itself."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self._any = self.object("scala.reflect", "ClassTag").Any()
        self.none = self.java("scala.Option").empty()
        self._sessions: Any = None

    def java(self, name: str) -> Any:
        """Returns a class by its full name. Through `jvm`, every part of the name would be a question to the JVM."""
        return JavaClass(name, self.gateway._gateway_client)

    def object(self, package: str, name: str) -> Any:
        """Returns the object `package.name` (name: Outer$Inner for nested ones)."""
        return getattr(self.java(f"{package}.{name}$"), "MODULE$")

    @property
    def sessions(self) -> Any:
        """The class of Spark's sessions. From Spark 4.0 on, `org.apache.spark.sql.SparkSession` asks Scala's reflection for it,
        for which a JVM that has just started needs a second of processor time. Raises Py4JError."""
        if self._sessions is None:
            place = "sql.classic" if self._late else "sql"
            self._sessions = self.java(f"org.apache.spark.{place}.SparkSession")
        return self._sessions

    def session(self) -> Any:
        """Returns the session from which all others derive, and makes it if there is none. Raises Py4JError."""
        builder = self.sessions.builder()
        if not self._late or not isinstance(self.jvm.brickyard.LateFunctions, JavaClass):  # before our classes are compiled
            return builder.getOrCreate()
        thread = self.jvm.java.lang.Thread.currentThread()
        loader = thread.getContextClassLoader()
        thread.setContextClassLoader(self.jvm.brickyard.LateFunctions.over(loader))
        try:
            return builder.getOrCreate()
        finally:
            with contextlib.suppress(Py4JError):
                thread.setContextClassLoader(loader)

    @cached_property
    def _late(self) -> bool:
        """Whether Spark uses Scala's reflection for sessions: 4.0 and later."""
        return not str(self.java("org.apache.spark.package").SPARK_VERSION()).startswith("3.")

    def ask(self, endpoint: Any, message: Any) -> Any:
        """Asks an RPC endpoint one question. Raises Py4JError."""
        return endpoint.askSync(message, self._any)

    def items(self, sequence: Any) -> Iterator[Any]:
        """Yields the items of a Seq, fetching each when needed. Raises Py4JError."""
        return (sequence.apply(number) for number in range(int(sequence.size())))

    def texts(self, *texts: str) -> Any:
        """Returns an array of strings, such as methods take for any number of them."""
        return self.array("java.lang.String", texts)

    def columns(self, *columns: Any) -> Any:
        """Returns an array of columns."""
        return self.array("org.apache.spark.sql.Column", columns)

    def array(self, kind: str, items: Sequence[Any]) -> Any:
        """Returns an array of that class."""
        found = self.gateway.new_array(self.java(kind), len(items))
        for index, item in enumerate(items):
            found[index] = item
        return found

    def field(self, owner: Any, name: str) -> Any:
        """Returns the value of a field that has no accessor. Raises Py4JError if there is no such field."""
        declared = owner.getClass().getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(owner)

    def security_manager(self, sc: Any) -> Any:
        """Returns the context's security manager. By its field: SparkEnv of Spark 4.3 names classes that its wheel lacks in its
        methods, so none of these can be called from here. Raises Py4JError."""
        declared = self.jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("securityManager")
        declared.setAccessible(True)
        return declared.get(sc.env())

    def compiled(self, source: Path, parent: Any) -> Any:
        """Compiles a Java source file and returns a class loader with its class, a child of the loader `parent`. Raises
        Py4JError."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(parent)
        compiler.cook(source.read_text())
        return compiler.getClassLoader()

    def spark_conf(self, values: Mapping[str, str]) -> Any:
        """Returns a new SparkConf, made with a few calls for any number of values."""
        read = self.java("java.util.Properties")()
        read.load(self.java("java.io.StringReader")(properties_text(values)))
        conf = self.java("org.apache.spark.SparkConf")()
        conf.setAll(self.java("org.apache.spark.api.python.PythonUtils").toScalaMap(read))
        return conf

    def rpc_env(self, system: str, host: str, conf: Any) -> tuple[Any, Any]:
        """Returns an RPC environment on a free port of `host`, and its security manager."""
        companion = self.object("org.apache.spark", "SecurityManager")
        secret_file = getattr(companion, "$lessinit$greater$default$3")()
        security = self.java("org.apache.spark.SecurityManager")(conf, self.none, secret_file)
        return self.object("org.apache.spark.rpc", "RpcEnv").create(system, host, 0, conf, security, False), security
