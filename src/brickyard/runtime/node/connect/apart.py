"""Spark Connect on clusters that isolate users: our guard (UserGuard.java) stands in front of it, and sessions have no way
into the driver's JVM."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from ..jvm.janino import DRIVER_JAVA, at_hand
from ..jvm.launch import NO_ENTITIES
from ..jvm.scala import Scala
from .server import ConnectServer

GUARD_CLASS = "brickyard.UserGuard"  # the name by which the conf refers to it
GUARD_SOURCE = DRIVER_JAVA / "UserGuard.java"
SESSION_TOKEN = "session-"  # noqa: S105 - the prefix of such tokens
REFLECTION = ("java_method", "reflect", "try_reflect")  # SQL functions that can call any method of the JVM
NAMES, TEXTS = "spark.redaction.regex", "spark.redaction.string.regex"  # which settings hold secrets: by name, by value


class ApartConnectServer(ConnectServer):
    """The server for Spark 4. The conf must name the guard, and contains no token."""

    def __init__(self, scala: Scala, spark_context: Any, *, token: str, places: str) -> None:
        """`places`: the directories that Spark's `file:` and `dbfs:` reach, ":" between them; "": all."""
        super().__init__(scala, spark_context)
        self._token = token
        self._places = places
        self._session_key = secrets.token_hex(32)

    def _start(self, service: Any) -> None:
        with at_hand(self._scala, GUARD_SOURCE) as loader:
            loader.loadClass(GUARD_CLASS).newInstance().prepare(self._token, self._session_key)
            self._close_ways(loader)
            self._close_files()
            super()._start(service)

    def session_token(self, session_id: str) -> str:
        """Returns a token that permits the use of that session and nothing else."""
        return SESSION_TOKEN + hmac.new(self._session_key.encode(), session_id.encode(), "sha256").hexdigest()

    def _close_ways(self, loader: Any) -> None:
        """Runs before any session exists: all sessions derive from the first one and from the built-ins."""
        first = self._scala.session()
        first.extensions().injectCheckRule(loader.loadClass(f"{GUARD_CLASS}$Plans").newInstance())
        first.extensions().injectParser(loader.loadClass(f"{GUARD_CLASS}$Parsers").newInstance())
        self._hide_secrets(first.sharedState().conf())  # a copy of the context's conf, with which every session begins
        self._drop_reflection()
        self._guard_jdbc(loader)

    def _hide_secrets(self, conf: Any) -> None:
        """Removes what Spark's UI hides: no session needs it, and its user could read it. What says so contains secrets, too."""
        compiled = self._scala.jvm.java.util.regex.Pattern.compile
        names, texts = (compiled(conf.get(key)) if conf.contains(key) else None for key in (NAMES, TEXTS))
        for pair in conf.getAll():
            name, value = str(pair._1()), str(pair._2())
            hidden = name in (NAMES, TEXTS) or (names is not None and names.matcher(name).find())
            if hidden or (texts is not None and texts.matcher(value).find()):
                conf.remove(name)

    def _close_files(self) -> None:
        """Spark itself has opened by now what is not its users'."""
        system, apart = self._scala.jvm.java.lang.System, self._scala.java("brickyard.Apart")
        system.setProperty(apart.PLACES, self._places)
        for option in NO_ENTITIES:
            name, _, value = option[2:].partition("=")
            system.setProperty(name, value)
        apart.hideVariables()
        self._sc.hadoopConfiguration().setRestrictSystemProperties(True)

    def _drop_reflection(self) -> None:
        functions = self._scala.object("org.apache.spark.sql.catalyst.analysis", "FunctionRegistry").builtin()
        for name in REFLECTION:
            functions.dropFunction(self._scala.jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))

    def _guard_jdbc(self, loader: Any) -> None:
        """Replaces Spark's basic JDBC connection provider with the guard's."""
        package = "org.apache.spark.sql.execution.datasources.jdbc.connection"
        providers = self._scala.object(package, "ConnectionProvider")
        field = providers.getClass().getSuperclass().getDeclaredField("providers")
        field.setAccessible(True)
        guarded = self._scala.jvm.java.util.ArrayList()
        guarded.add(loader.loadClass(f"{GUARD_CLASS}$Jdbc").newInstance())
        for each in self._scala.items(field.get(providers)):
            if str(each.name()) != "basic":
                guarded.add(each)
        field.set(providers, self._scala.jvm.scala.jdk.javaapi.CollectionConverters.asScala(guarded).toSeq())
