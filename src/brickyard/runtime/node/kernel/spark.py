"""A kernel's Spark: attached to the cluster's driver, with every job in the group of the command that started it."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import py4j.java_gateway
from py4j.clientserver import ClientServerConnection, JavaClient
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from .attach import attach


class KernelSpark:
    """`spark` for one kernel. `begin` is called before every command, on the thread that runs commands."""

    def __init__(self, gateway: Any = None) -> None:
        """`gateway`: a connection to the driver's JVM, if there is one already."""
        self.spark = attach(gateway)
        self.context = self.spark.sparkContext
        # `SparkSession.builder.getOrCreate()` and `SparkSession.getActiveSession()` return this session.
        SparkSession._instantiatedSession = self.spark
        if hasattr(SparkSession, "_activeSession"):
            SparkSession._activeSession = self.spark
        session = self.spark._jsparkSession
        self._sessions = getattr(self.spark._jvm, session.getClass().getName() + "$")
        owners = JavaClass("brickyard.SessionOwner", self.context._gateway._gateway_client)
        self._own, self._join = owners.own, owners.join  # looked up once: each command calls the second
        self._sc, self._owned = self.context._jsc.sc(), False
        self._group: str | None = None
        self._description = self._user = self._pool = ""
        self._follow_threads()

    def begin(self, command_id: str, description: str, user: str, pool: str) -> None:
        """Assigns jobs started from now on to that command: cancelling its group cancels them. `user`, `pool`: the context's."""
        self._group, self._description, self._user, self._pool = command_id, description, user, pool
        if pool and not self._owned:
            self._own(self.spark._jsparkSession, user, pool, False)
            self._owned = True
        self._join(self._sc, command_id, description, user, pool)
        # After an interrupt, this thread may reach a new thread of the JVM, which does not know the session.
        getattr(self._sessions, "MODULE$").setActiveSession(self.spark._jsparkSession)

    def _follow_threads(self) -> None:
        """Makes every thread's connection join the job group of the running command before each request, even if an earlier
        command started the thread. Every thread of this process has its own connection and its own JVM thread behind it.

        Excludes connections opened by the JVM for streams: their jobs are in the group by which the stream ends them.
        """
        connect, send = JavaClient._create_new_connection, ClientServerConnection.send_command

        def create(client: Any) -> Any:
            connection = connect(client)
            connection.job_group = None
            return connection

        def send_command(connection: Any, command: str) -> Any:
            try:
                if getattr(connection, "job_group", self._group) != self._group:
                    connection.job_group = self._group  # set first, because the next call uses this same connection
                    self._join_group(connection)
                return send(connection, command)
            except (KeyboardInterrupt, SystemExit):
                connection.close()  # its answer was not read, and the next call would take it for its own
                raise

        JavaClient._create_new_connection = create
        ClientServerConnection.send_command = send_command
        # Py4J reports interrupts through the root logger, which would set up logging for the user and print a traceback.
        py4j.java_gateway.logging = logging.getLogger("py4j.java_gateway")

    def _join_group(self, connection: Any) -> None:
        self._join(self._sc, self._group, self._description, self._user, self._pool)
        # Our call has put the connection on Py4J's list of idle ones, and the surrounding call will do so again.
        with contextlib.suppress(ValueError):
            connection.java_client.deque.remove(connection)
