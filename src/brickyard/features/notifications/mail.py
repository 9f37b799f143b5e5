"""Sends e-mail through the workspace's SMTP server."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate

import structlog

from brickyard.domain.mailserver import MailServer
from brickyard.domain.printable import printable
from brickyard.features.notifications.model import Undelivered

ANSWER_S = 5.0  # for each answer of the server

log = structlog.get_logger(__name__)


class MailSender:
    """One per server of the workspace."""

    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def send(self, addresses: Sequence[str], *, subject: str, text: str, delivery: str) -> None:
        """Sends one message; `delivery` is its identity. Raises Undelivered unless the server takes it for one of the
        addresses at least."""
        message = EmailMessage()
        message["From"] = self._server.sender
        message["To"] = ", ".join(addresses)
        message["Subject"] = subject.replace("=?", "= ?")  # else decoded as an encoded word, which may hold line breaks
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{delivery}@{self._server.sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        try:
            refused = await asyncio.to_thread(self._send, message)
        except (OSError, smtplib.SMTPException) as error:  # TLS errors are OSErrors
            raise Undelivered(printable(str(error)[:300]) or type(error).__name__) from error
        if refused:
            log.warning("notification_refused", addresses=sorted(refused), delivery=delivery)

    def _send(self, message: EmailMessage) -> list[str]:
        """Returns the addresses that the server has refused. Blocks."""
        server = self._server
        context = ssl.create_default_context()
        if server.tls == "whole":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=ANSWER_S, context=context)
        else:
            smtp = smtplib.SMTP(server.host, server.port, timeout=ANSWER_S)
        with smtp:
            if server.tls == "start":
                smtp.starttls(context=context)
            if server.user:
                smtp.login(server.user, server.password)
            return list(smtp.send_message(message))
