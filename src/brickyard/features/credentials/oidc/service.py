"""Log-in with an external OpenID Connect provider: the browser goes there and comes back, and gets a session here.

What a log-in needs on its way back (state, nonce, verifier) is kept by the browser that began it, in a signed cookie: so no other
browser can end it, any server of the workspace can, and strangers write nothing into the database. A log-in that has succeeded is
recorded until its cookie expires, so it cannot be repeated.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from joserfc import jwe, jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from brickyard.access.credentials import end
from brickyard.access.homes import Homes
from brickyard.access.principals import active_principal, check_admins
from brickyard.access.users import new_group, new_user
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.decoding import converter
from brickyard.domain.identity import CredentialKind, IdentityKind, TokenRow, UserRow
from brickyard.domain.printable import printable
from brickyard.domain.signin import ATTEMPT_MS, Provider, ProviderTrouble, SignInInvalid, SignInRefused, cookie_key
from brickyard.domain.usernames import unclear
from brickyard.features.credentials.digests import Digests
from brickyard.features.credentials.oidc.client import ProviderClient
from brickyard.features.credentials.oidc.rules import (
    Attempt,
    Person,
    authorization_url,
    log_out_url,
    merged,
    needs_userinfo,
    person,
)
from brickyard.features.credentials.sessions import SessionService
from brickyard.store.identity import LOCK
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_to_attempt = converter(Attempt)


_AGAIN = "Log in again; use the same browser, and one window at a time."


class Begun(NamedTuple):
    """Where the browser goes, and the cookie by which it is known again: its name ends with `key`."""

    url: str
    key: str
    cookie: str


class Ended(NamedTuple):
    """The cookie of the new session, and the path to go to."""

    session: str
    next: str


class _LogIn(msgspec.Struct, frozen=True, kw_only=True):
    """Details of a log-in: the provider's ids of the person and of its session, and the ID token, sealed, to log out with."""

    sub: str
    sid: str = ""
    id_token: str = ""


_decode_log_in = msgspec.json.Decoder(_LogIn).decode


class SignInService:
    """One per server, for one event loop. `key` is the workspace's secret."""

    def __init__(
        self,
        provider: Provider,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        sessions: SessionService,
        digests: Digests,
        homes: Homes,
        key: bytes,
        client: ProviderClient | None = None,
    ) -> None:
        self.provider = provider
        self._store = store
        self._clock = clock
        self._ids = ids
        self._sessions = sessions
        self._digests = digests
        self._homes = homes
        self._key = OctKey.import_key(hmac.new(key, b"log-ins with a provider", hashlib.sha256).digest())
        self._client = client or ProviderClient(provider, clock=clock)

    async def begin(self, *, base_url: str, callback: str, next_path: str) -> Begun:
        """`callback` is the path to which the provider sends the browser back. Raises ProviderTrouble."""
        attempt = Attempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            redirect_uri=base_url + callback,
            next=next_path,
            expires_ms=self._clock.now_ms() + ATTEMPT_MS,
        )
        url = authorization_url(self.provider, await self._client.metadata(), attempt)
        cookie = jwt.encode({"alg": "HS256"}, msgspec.structs.asdict(attempt), self._key)
        return Begun(url, cookie_key(attempt.state), cookie)

    async def finish(self, cookie: str, answer: Mapping[str, str], *, instead_of: str = "") -> Ended:
        """A new session of the user that the provider names. It replaces the session of the cookie `instead_of`. `answer` is
        what the provider has sent along: state, code, iss, error. Raises SignInInvalid, SignInRefused and ProviderTrouble."""
        attempt = self._attempt(cookie, answer.get("state", ""))
        await self._check_answer(answer)
        claims, id_token, access_token = await self._client.claims(attempt, answer.get("code", ""))
        if needs_userinfo(claims, self.provider):
            more = await self._client.userinfo(access_token)
            claims = claims if more is None else merged(claims, more)
        who = person(claims, self.provider)
        now = self._clock.now_ms()

        def work(tx: Tx) -> str:
            tx.lock(LOCK)
            self._spend(tx, attempt, who)
            user = self._user(tx, who, now)
            self._set_groups(tx, user, who)
            principal = active_principal(tx, user.user_name)
            if principal is None:
                said = f"{who.user_name} is not active in this workspace. An administrator can activate you again."
                raise SignInRefused(said, user_name=who.user_name)
            tx.identify(principal, credential_id=f"{self.provider.issuer} {printable(str(claims['sub'])[:200])}")
            log_in = _LogIn(sub=str(claims["sub"]), sid=str(claims.get("sid", "")), id_token=self._sealed(id_token))
            parent = self._record(tx, user.user_name, log_in, now)
            return self._sessions.open(tx, user.user_name, instead_of=instead_of, parent=parent)

        return Ended(await self._store.write(work), attempt.next)

    async def log_out_url(self, log_in: TokenRow | None, *, back: str) -> str:
        """Where the browser goes on to log out at the provider after the session has ended that came from this log-in; "" if that
        is not wanted, or is impossible now."""
        if log_in is None or not self.provider.single_log_out:
            return ""
        try:
            found = await self._client.metadata()
            sealed = _decode_log_in(log_in.details).id_token
            hint = (jwe.decrypt_compact(sealed, self._key).plaintext or b"").decode() if sealed else ""
        except (ProviderTrouble, msgspec.MsgspecError, JoseError, ValueError):
            return ""
        return log_out_url(self.provider, found, id_token=hint, back=back, state=secrets.token_urlsafe(8))

    async def end_by_provider(self, logout_token: str) -> None:
        """Ends the sessions of somebody who has logged out at the provider. Raises SignInInvalid and ProviderTrouble."""
        told = await self._client.logged_out(logout_token)

        def work(tx: Tx) -> None:
            for row in tx.tokens.all(CredentialKind.PROVIDER):
                log_in = _decode_log_in(row.details)
                if told.ends(sub=log_in.sub, sid=log_in.sid, began_ms=row.created_ms):
                    if (principal := active_principal(tx, row.user_name)) is not None:
                        tx.identify(principal, credential_id=f"{self.provider.issuer} {printable(log_in.sub[:200])}")
                    end(tx, row.token_id)

        await self._store.write(work)

    async def close(self) -> None:
        await self._client.close()

    def _record(self, tx: Tx, user_name: str, log_in: _LogIn, now: int) -> str:
        """Records what the provider must be told when the session ends, and what it tells when it ends the session itself."""
        token_id = self._ids.hex(64)
        tx.tokens.insert(
            TokenRow(
                token_id=token_id,
                digest=self._digests.of(secrets.token_urlsafe(32)),
                user_name=user_name,
                comment="",
                created_ms=now,
                expiry_ms=now + self._sessions.lifetime_ms,
                kind=CredentialKind.PROVIDER,
                details=msgspec.json.encode(log_in).decode(),
            )
        )
        return token_id

    def _sealed(self, id_token: str) -> str:
        """Encrypts it, so that it cannot be read from the database."""
        return jwe.encrypt_compact({"alg": "dir", "enc": "A256GCM"}, id_token, self._key) if self.provider.single_log_out else ""

    def _attempt(self, cookie: str, state: str) -> Attempt:
        """The log-in that this browser has begun. Raises SignInInvalid."""
        try:
            attempt = _to_attempt(jwt.decode(cookie, self._key, algorithms=["HS256"]).claims)
        except (JoseError, ValueError) as error:
            raise SignInInvalid(f"This log-in was not begun in this browser, or it took too long. {_AGAIN}") from error
        if not state or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise SignInInvalid(f"The answer belongs to another log-in (state). {_AGAIN}")
        if attempt.expires_ms <= self._clock.now_ms():
            raise SignInInvalid(f"The log-in took longer than {ATTEMPT_MS // 60_000} minutes. {_AGAIN}")
        return attempt

    async def _check_answer(self, answer: Mapping[str, str]) -> None:
        required = (await self._client.metadata()).authorization_response_iss_parameter_supported
        issuer = answer.get("iss", "")
        if (issuer or required) and issuer != self.provider.issuer:
            raise SignInInvalid(f"The answer comes from another identity provider (iss). {_AGAIN}")
        if error := answer.get("error", ""):
            said = printable(f"{error} {answer.get('error_description', '')}"[:300]).strip()
            raise SignInRefused(f"The identity provider did not log you in: {said}.")
        if not answer.get("code"):
            raise SignInInvalid(f"The answer has no code. {_AGAIN}")

    def _spend(self, tx: Tx, attempt: Attempt, who: Person) -> None:
        """Records that this log-in has succeeded. Raises SignInInvalid if it had before."""
        digest = self._digests.of(attempt.state)
        if tx.tokens.by_hash(digest) is not None:
            raise SignInInvalid(f"This log-in was finished before. {_AGAIN}")
        tx.tokens.insert(
            TokenRow(
                token_id=self._ids.hex(64),
                digest=digest,
                user_name=who.user_name,
                comment="",
                created_ms=self._clock.now_ms(),
                expiry_ms=attempt.expires_ms,
                kind=CredentialKind.SIGN_IN,
            )
        )

    def _user(self, tx: Tx, who: Person, now: int) -> UserRow:
        """The user with that name; a new one where the settings say so. Raises SignInRefused."""
        user = tx.users.get(who.user_name)
        # Not only a new name: in lower case, the Kelvin sign is the k of somebody else.
        known = user is not None and user.user_name == who.user_name
        if (user is not None or self.provider.create_users) and not known and (why := unclear(who.user_name)):
            raise SignInRefused(f"Your user name could be mistaken for another one: {why}.", user_name=who.user_name)
        if user is None and self.provider.create_users:
            user = new_user(who.user_name, ids=self._ids, now_ms=now, display_name=who.display_name)
            tx.users.put(user)
            self._homes.retire(tx, user.user_name)
            self._homes.make(user.user_name)
        if user is None or user.kind is not IdentityKind.USER:
            raise SignInRefused(
                f"{who.user_name} is no user of this workspace. An administrator can add you (brickyard user add).",
                user_name=who.user_name,
            )
        return user

    def _set_groups(self, tx: Tx, user: UserRow, who: Person) -> None:
        """Puts the user into those groups of the settings that the provider names, and takes them out of the others."""
        for name in sorted(set(self.provider.groups.values())):
            group = tx.groups.by_name(name)
            if group is None and name in who.groups:
                group = new_group(name, ids=self._ids, now_ms=self._clock.now_ms())
                tx.groups.put(group)
            if group is None:
                continue
            inside = user.user_id in tx.groups.members([group.group_id]).get(group.group_id, ())
            if name in who.groups and not inside:
                tx.groups.add(group.group_id, [user.user_id])
            elif inside and name not in who.groups:
                tx.groups.remove(group.group_id, [user.user_id])
                check_admins(tx)
