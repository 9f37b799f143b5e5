"""Spark as a kernel sees it: attached to the cluster's driver, with every job in the group of the command that started it."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import py4j.java_gateway
from attach import attach
from py4j.clientserver import ClientServerConnection, JavaClient
from pyspark import SparkContext
from pyspark.sql import SparkSession


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
        self._main = threading.current_thread()
        self._group: str | None = None
        self._description = ""
        _refuse_stop()
        _survive_interrupts()
        self._follow_threads()

    def begin(self, command_id: str, description: str) -> None:
        """Jobs started from now on belong to that command: cancelling its group cancels them."""
        self._group, self._description = command_id, description
        self.context.setJobGroup(command_id, description, True)
        # After an interrupt this thread may speak to a new thread of the JVM, which does not know the session.
        getattr(self._sessions, "MODULE$").setActiveSession(self.spark._jsparkSession)

    def _follow_threads(self) -> None:
        """Threads that a command starts have JVM threads of their own; put those into the command's job group as well."""
        connect = JavaClient._create_new_connection

        def create(client: Any) -> Any:
            connection = connect(client)
            if self._group is not None and threading.current_thread() is not self._main:
                # The connection is this thread's by now, so the call goes over it. Py4J puts it on its list of
                # idle ones afterwards, where it must not stand twice.
                self.context.setJobGroup(self._group, self._description, True)
                if connection in client.deque:
                    client.deque.remove(connection)
            return connection

        JavaClient._create_new_connection = create


def _refuse_stop() -> None:
    """The SparkContext belongs to the whole cluster: scripts that end with `spark.stop()` go on instead."""

    def stop(_self: Any) -> None:
        print("stop() was ignored: Spark runs as long as the cluster. Terminate the cluster to stop it.", file=sys.stderr)

    SparkContext.stop = stop  # type: ignore[method-assign]
    SparkSession.stop = stop  # type: ignore[method-assign]


def _survive_interrupts() -> None:
    """A connection whose answer was not read is closed, or its answer would be taken for the next call's."""
    send = ClientServerConnection.send_command

    def send_command(connection: Any, command: str) -> Any:
        try:
            return send(connection, command)
        except (KeyboardInterrupt, SystemExit):
            connection.close()
            raise

    ClientServerConnection.send_command = send_command
    # Py4J reports interrupts through the root logger, which would set up logging for the user and print a traceback.
    py4j.java_gateway.logging = logging.getLogger("py4j.java_gateway")
