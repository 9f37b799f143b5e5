"""Who calls the SQL service, and with what."""

from __future__ import annotations

import time
from typing import NamedTuple

from brickyard.domain.access import Principal
from brickyard.domain.delivery import Delivery
from brickyard.domain.statements import Statement, StatementSource
from brickyard.gateway.sql.driver import Login, Renewed, Target


class Client(NamedTuple):
    """Who calls, which cluster, with what credentials and program, and what becomes of the answer. `warehouse_id`: "" if the
    client named the cluster."""

    principal: Principal
    cluster_id: str
    authorization: str
    address: str
    application: str
    delivery: Delivery
    warehouse_id: str = ""
    renewed: Renewed | None = None  # in place of `authorization`, where that counts nowhere else
    base_url: str = ""  # of the server for links; "": the client gets none

    @property
    def user(self) -> str:
        return self.principal.user_name

    def target(self, session_id: str, incarnation: str = "") -> Target:
        """A session of the caller."""
        return Target(
            self.cluster_id, session_id, self.user, Login(self.authorization, self.address, caller=self.renewed), incarnation
        )

    def statement(self, statement_id: str, session_id: str, text: str) -> Statement:
        """A statement of the caller that begins now."""
        return Statement(
            statement_id=statement_id,
            user_name=self.user,
            cluster_id=self.cluster_id,
            warehouse_id=self.warehouse_id,
            session_id=session_id,
            text=text,
            source=StatementSource.THRIFT,
            client_application=self.application,
            started_ms=int(time.time() * 1000),
        )
