"""The driver's web UI, made on first request: clusters start without it, and most never need one.

Spark collects everything that the UI shows whether there is a UI or not (the live AppStatusStore), so a late one misses nothing.
Every user of the machine can reach its port; it is served only to holders of a token (JWSFilter, Spark 4).
"""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError

from ..jvm.scala import Scala
from . import conf as sparkconf


def open_web_ui(scala: Scala, sc: Any, key: str) -> Any:
    """Returns a bound SparkUI of that SparkContext, guarded by `key`. Raises Py4JError."""
    if sc.ui().isDefined():  # the user's conf requested it, and `sparkconf` has added the guard
        return sc.ui().get()
    conf = sc.getConf()
    for name, value in sparkconf.guarded_ui(key).items():
        conf.set(name, value)
    companion = scala.object("org.apache.spark.ui", "SparkUI")
    version = getattr(companion, "create$default$8")()
    ui = companion.create(
        scala.jvm.scala.Option.apply(sc), sc.statusStore(), conf, scala.security_manager(sc), sc.appName(), "", sc.startTime(),
        version,
    )  # fmt: skip
    ui.setAppId(sc.applicationId())
    ui.bind()
    with contextlib.suppress(Py4JError):  # the pages of Spark's core work without it
        session = scala.session()
        scala.jvm.org.apache.spark.sql.execution.ui.SQLTab(session.sharedState().statusStore(), ui)
        _add_connect(scala, sc, ui)
    ui.attachAllHandlers()
    return ui


def _add_connect(scala: Scala, sc: Any, ui: Any) -> None:
    """Adds the sessions and operations of Spark Connect: its server records them where the rest of the UI finds its data."""
    pages = scala.jvm.org.apache.spark.sql.connect.ui
    if isinstance(pages.SparkConnectServerTab, JavaClass):  # this runtime has Spark Connect
        pages.SparkConnectServerTab(pages.SparkConnectServerAppStatusStore(sc.statusStore().store()), ui)
