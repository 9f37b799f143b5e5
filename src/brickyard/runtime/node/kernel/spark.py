"""Spark as a kernel sees it: attached to the cluster's driver, with every job in the group of the command that started it."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import py4j.java_gateway
from py4j.clientserver import ClientServerConnection, JavaClient
from pyspark.sql import SparkSession

from .attach import attach


class KernelSpark:
    """`spark` of one kernel. `begin` is called before every command, on the thread that runs commands."""

    def __init__(self) -> None:
        self.spark = attach()
        self.context = self.spark.sparkContext
        # What `SparkSession.builder.getOrCreate()` and `SparkSession.getActiveSession()` return here.
        SparkSession._instantiatedSession = self.spark
        if hasattr(SparkSession, "_activeSession"):
            SparkSession._activeSession = self.spark
        session = self.spark._jsparkSession
        self._sessions = getattr(self.spark._jvm, session.getClass().getName() + "$")
        self._group: str | None = None
        self._description = ""
        self._follow_threads()

    def begin(self, command_id: str, description: str) -> None:
        """Jobs started from now on belong to that command: cancelling its group cancels them."""
        self._group, self._description = command_id, description
        self.context.setJobGroup(command_id, description, True)
        # After an interrupt this thread may speak to a new thread of the JVM, which does not know the session.
        getattr(self._sessions, "MODULE$").setActiveSession(self.spark._jsparkSession)

    def _follow_threads(self) -> None:
        """Every thread of this process has a connection, and behind it a JVM thread, of its own: each joins the job group of
        the command that runs now before it asks for anything, also when it was started by an earlier one.

        Not so the connections that the JVM opens, for streams: those jobs are in the group by which the stream ends them.
        """
        connect, send = JavaClient._create_new_connection, ClientServerConnection.send_command

        def create(client: Any) -> Any:
            connection = connect(client)
            connection.job_group = None
            return connection

        def send_command(connection: Any, command: str) -> Any:
            try:
                if getattr(connection, "job_group", self._group) != self._group:
                    connection.job_group = self._group  # first: what follows goes over this very connection
                    self._join_group(connection)
                return send(connection, command)
            except (KeyboardInterrupt, SystemExit):
                connection.close()  # its answer was not read, and would be taken for the next call's
                raise

        JavaClient._create_new_connection = create
        ClientServerConnection.send_command = send_command
        # Py4J reports interrupts through the root logger, which would set up logging for the user and print a traceback.
        py4j.java_gateway.logging = logging.getLogger("py4j.java_gateway")

    def _join_group(self, connection: Any) -> None:
        self.context.setJobGroup(self._group, self._description, True)
        # The call has put the connection on Py4J's list of idle ones, and the call that we are part of will do so again.
        with contextlib.suppress(ValueError):
            connection.java_client.deque.remove(connection)
