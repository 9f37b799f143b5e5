"""`dbutils.secrets`: what contexts on nodes ask for, in the name of their users. The answers are kept nowhere."""

from __future__ import annotations

import base64
import contextlib

from brickyard.clusters.attach.contextusers import context_caller
from brickyard.domain.errors import ApiError, DatabaseTrouble
from brickyard.domain.node import AskSecrets, SecretsReply, ServerAddress
from brickyard.domain.secrets import SecretName
from brickyard.features.secrets.service import SecretService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.storage.sealer import Sealer
from brickyard.store.membership import ALONE, Members, addresses
from brickyard.store.store import Store


class ContextSecrets:
    """One per server."""

    def __init__(
        self,
        *,
        store: Store,
        secrets: SecretService,
        tokens: InstanceTokens,
        sealer: Sealer,
        members: Members = ALONE,
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._tokens = tokens
        self._sealer = sealer
        self._members = members

    async def ask(self, asked: AskSecrets) -> SecretsReply:
        """Answers an agent, whose own token has been checked. Refusals are answers too."""
        proof, servers = self._tokens.server_token(asked.instance_id), addresses(self._members)
        try:
            caller = await context_caller(self._store, self._tokens, asked)
            if asked.key:
                _, value = await self._secrets.get(caller, SecretName(asked.scope, asked.key))
                return self._reply(value, proof=proof, servers=servers)
            if asked.scope:
                names = [row.key for row in await self._secrets.list_secrets(caller, asked.scope)]
            else:
                names = [row.name for row in await self._secrets.list_scopes(caller)]
            return SecretsReply(server_token=proof, names=tuple(names), servers=servers)
        except DatabaseTrouble:
            raise
        except ApiError as error:
            return SecretsReply(server_token=proof, error_code=error.error_code, message=error.message, servers=servers)

    def _reply(self, value: bytes, *, proof: str, servers: tuple[ServerAddress, ...]) -> SecretsReply:
        sealed = ""
        with contextlib.suppress(UnicodeDecodeError):  # bytes that are not text appear in no log
            sealed = self._sealer.seal([value.decode()])
        return SecretsReply(server_token=proof, value=base64.b64encode(value).decode(), sealed=sealed, servers=servers)
