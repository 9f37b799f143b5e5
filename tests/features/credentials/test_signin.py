"""Log-in with an external provider: who gets in, and what a provider, a browser or a stranger cannot do. On both databases."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from brickyard.domain.caller import Caller
from brickyard.domain.errors import ApiError, InvalidState
from brickyard.domain.identity import ADMINS_ID, CredentialKind, GroupRow, IdentityKind, UserRow
from brickyard.domain.signin import ATTEMPT_MS, Provider, ProviderTrouble, SignInInvalid, SignInRefused
from brickyard.features.credentials.oidc.client import FRESH_MS, KEPT_MS, ProviderClient
from brickyard.features.credentials.oidc.service import Begun, SignInService
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support import world as shared
from tests.support.credentials import ROOT_TOKEN
from tests.support.databases import both_databases
from tests.support.golden import Golden
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, LyingProvider, rsa
from tests.support.services import no_homes
from tests.support.world import KEY

HERE = "http://brickyard.example:8080"
ANNA = "anna@example.com"
NONE = b'{"alg":"none"}'


class World(shared.World):
    """A server with a provider, which runs in the same loop."""

    def __init__(self, store: Store, provider: LyingProvider) -> None:
        super().__init__(store, clock=ManualClock(now_ms=int(time.time() * 1000)))
        self.provider = provider
        self.opened: list[SignInService] = []
        self.service = self.server()

    def server(self, *, answer_s: float = 5.0, **settings: Any) -> SignInService:
        """One more server of the workspace, with other settings."""
        given: dict[str, Any] = {"client_secret": CLIENT_SECRET, "create_users": True, "domains": ("example.com",)}
        provider = Provider(issuer=self.provider.issuer, client_id=CLIENT_ID, **(given | settings))
        service = SignInService(
            provider,
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            sessions=self.sessions,
            digests=self.tokens.digests,
            homes=no_homes(),
            key=KEY,
            client=ProviderClient(provider, clock=self.clock, answer_s=answer_s),
        )
        self.opened.append(service)
        return service

    async def begin(self, service: SignInService | None = None) -> tuple[Begun, dict[str, str]]:
        """Up to the provider's answer."""
        begun = await (service or self.service).begin(base_url=HERE, callback="/login/callback", next_path="/somewhere")
        return begun, self.provider.authorize(begun.url)

    async def log_in(self, service: SignInService | None = None) -> Caller:
        begun, answer = await self.begin(service)
        ended = await (service or self.service).finish(begun.cookie, answer)
        assert ended.next == "/somewhere"
        session = await self.sessions.find(ended.session)
        assert session is not None
        return session.caller

    async def refused(self, kind: type[ApiError], saying: str, service: SignInService | None = None) -> ApiError:
        with pytest.raises(kind, match=saying) as caught:
            await self.log_in(service)
        assert self.sessions_begun() == 0
        return caught.value

    def sessions_begun(self) -> int:
        return len(self.store.read_sync(lambda tx: tx.tokens.all(CredentialKind.SESSION)))

    def user(self, name: str = ANNA) -> UserRow | None:
        return self.store.read_sync(lambda tx: tx.users.get(name))


@pytest.fixture
async def world(store: Store) -> AsyncIterator[World]:
    provider = LyingProvider()
    await provider.start()
    world = World(store, provider)
    await world.tokens.ensure_admin("root@example.com", ROOT_TOKEN)
    yield world
    for service in world.opened:
        await service.close()
    await provider.stop()


async def test_the_first_log_in_makes_the_user_and_the_next_one_finds_it(world: World) -> None:
    caller = await world.log_in()
    assert (caller.user_name, caller.is_admin) == (ANNA, False)
    made = world.user()
    assert made is not None
    assert made.display_name == "Anna O"
    world.provider.claims = {"email": "Anna@Example.com"}
    assert (await world.log_in()).user_id == made.user_id, "case makes nobody else"
    form = next(form for path, form in world.provider.asked if path == "/token")
    assert form["redirect_uri"] == f"{HERE}/login/callback"
    assert "client_secret" not in form, "it goes by Basic authentication, unless the provider wants it otherwise"


@pytest.mark.parametrize("create_users", [True, False])
async def test_who_has_the_name_of_a_user_in_other_letters_is_not_that_user(world: World, create_users: bool) -> None:
    service = world.server(create_users=create_users)
    await world.store.write(lambda tx: tx.users.put(UserRow(user_name="kate@example.com", user_id="77")))
    world.provider.claims = {"email": "\N{KELVIN SIGN}ate@example.com"}
    await world.refused(SignInRefused, "mistaken", service)
    world.provider.claims = {"email": "Kate@example.com"}
    assert (await world.log_in(service)).user_id == "77"


async def test_only_known_users_unless_the_settings_say_otherwise(world: World) -> None:
    closed = world.server(create_users=False)
    error = await world.refused(SignInRefused, "no user of this workspace", closed)
    assert error.user_name == ANNA
    assert world.user() is None
    known = UserRow(user_name=ANNA, user_id="77")
    await world.store.write(lambda tx: tx.users.put(known))
    assert (await world.log_in(closed)).user_id == "77"


async def test_who_is_not_active_or_is_a_program_stays_out(world: World) -> None:
    for row in (
        UserRow(user_name=ANNA, user_id="77", active=False),
        UserRow(user_name=ANNA, user_id="77", kind=IdentityKind.SERVICE_PRINCIPAL),
    ):
        await world.store.write(lambda tx, row=row: tx.users.put(row))  # type: ignore[misc] # bound now
        await world.refused(SignInRefused, "not active|no user")


NAMES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"email": "eve@evil.com"}, {}, "domain"),
    ({"email": "eve@sub.example.com"}, {}, "domain"),
    ({"email": "eve@evil.com@example.com"}, {}, "must be an e-mail address"),
    ({"email": "a b@example.com"}, {}, "must be an e-mail address"),
    ({"email": "a\n@example.com"}, {}, "must be an e-mail address"),
    ({"email": None}, {}, "must be an e-mail address"),
    ({"email": ["anna@example.com"]}, {}, "must be an e-mail address"),
    ({"email": "a" * 300 + "@example.com"}, {}, "must be an e-mail address"),
    ({"email_verified": False}, {}, "verified"),
    ({"email_verified": None}, {}, "verified"),
    ({"email_verified": "true"}, {}, "verified"),
    ({}, {"user_claim": "upn"}, r"claim upn"),
]


async def test_a_name_that_does_not_count(world: World) -> None:
    for claims, settings, saying in NAMES:
        world.provider.claims = claims
        await world.refused(SignInRefused, saying, world.server(**settings))


CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://evil.example"}, "iss"),
    ({"iss": None}, "iss"),
    ({"aud": "another-client"}, "aud"),
    ({"aud": None}, "aud"),
    ({"aud": [CLIENT_ID, "another-client"]}, "azp"),
    ({"azp": "another-client"}, "azp"),
    ({"nonce": "another"}, "nonce"),
    ({"nonce": None}, "nonce"),
    ({"exp": 1}, "expired"),
    ({"exp": "never"}, "exp"),
    ({"exp": None}, "exp"),
    ({"iat": 9_999_999_999}, "iat|future"),
    ({"nbf": 9_999_999_999}, "nbf|not yet"),
    ({"sub": None}, "sub"),
    ({"sub": 5}, "sub"),
]


async def test_an_id_token_that_is_not_for_this_log_in(world: World) -> None:
    for claims, saying in CLAIMS:
        world.provider.claims = claims
        await world.refused(ProviderTrouble, saying)


async def test_algorithms_without_a_key_pair_are_refused(world: World) -> None:
    public = world.provider.key.as_pem(private=False)
    signed = world.provider.id_token
    for key in (public, CLIENT_SECRET.encode(), b""):

        def forged(nonce: str, key: bytes = key) -> str:
            head = _base64(json.dumps({"alg": "HS256", "kid": world.provider.key.kid}).encode())
            text = f"{head}.{signed(nonce).split('.')[1]}"
            return f"{text}.{_base64(hmac.digest(key, text.encode(), 'sha256'))}"

        world.provider.id_token = forged  # type: ignore[method-assign] # this provider lies
        await world.refused(ProviderTrouble, "not signed by a key")

    def unsigned(nonce: str) -> str:
        return f"{_base64(NONE)}.{signed(nonce).split('.')[1]}."

    world.provider.id_token = unsigned  # type: ignore[method-assign] # this provider lies
    await world.refused(ProviderTrouble, "not signed by a key")


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


async def test_keys_of_others_do_not_count_and_new_ones_do(world: World, golden: Golden) -> None:
    await world.log_in()
    before = world.sessions_begun()
    thief = RSAKey.generate_key(2048, parameters={"kid": world.provider.key.kid or ""})
    world.provider.key = thief
    with golden.refused(ProviderTrouble):
        await world.log_in()
    assert world.sessions_begun() == before
    reads = _reads(world, "/keys")
    for _ in range(3):
        with pytest.raises(ProviderTrouble):
            await world.log_in()
    assert _reads(world, "/keys") == reads, "bad signatures make nobody ask for keys all the time"
    world.provider.key = rsa(2)  # the provider rotates its keys
    world.provider.published = [world.provider.key]
    world.clock.advance(ms=FRESH_MS + 1)
    assert (await world.log_in()).user_name == ANNA
    world.clock.advance(ms=KEPT_MS + 1)
    world.provider.claims = {"exp": world.clock.now_ms() // 1000 + 60, "iat": world.clock.now_ms() // 1000}
    await world.log_in()
    assert _reads(world, "/.well-known/openid-configuration") == 2


def _reads(world: World, path: str) -> int:
    return sum(each == path for each, _ in world.provider.asked)


DOCUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"issuer": "https://evil.example"}, "oidc_issuer must be"),
    ({"issuer": None}, "cannot be used"),
    ({"token_endpoint": "http://evil.example/token"}, "https URL"),
    ({"jwks_uri": "file:///etc/passwd"}, "https URL"),
    ({"authorization_endpoint": "javascript:alert(1)"}, "https URL"),
    ({"authorization_endpoint": "https://user@evil.example"}, "https URL"),
    ({"userinfo_endpoint": "http://169.254.169.254/"}, "https URL"),
    ({"token_endpoint": None}, "cannot be used"),
    ({"jwks_uri": 5}, "cannot be used"),
]


async def test_a_discovery_document_that_lies(world: World) -> None:
    for said, saying in DOCUMENTS:
        world.provider.discovery = said
        await world.refused(ProviderTrouble, saying, world.server())


async def test_a_provider_that_is_slow_or_gone_or_talks_nonsense(world: World, golden: Golden) -> None:
    for answer in (
        lambda: web.Response(text="<html>"),
        lambda: web.json_response({}),
        lambda: web.json_response([]),
        lambda: web.json_response({"id_token": "x.y.z"}),
        lambda: web.json_response({"id_token": "\N{SNOWMAN}"}),
        lambda: web.json_response({"error": "invalid_client"}, status=401),
        lambda: web.Response(status=500),
        lambda: web.Response(status=302, headers={"location": "http://127.0.0.1:1/"}),
        lambda: web.Response(body=b" " * (1024 * 1024 + 1)),
    ):
        world.provider.token_answer = answer
        await world.refused(ProviderTrouble, "identity provider")
    world.provider.token_answer, world.provider.sleeps_s = None, 1.0
    await world.refused(ProviderTrouble, r"no answer within 0.1 s", world.server(answer_s=0.1))
    world.provider.sleeps_s = 0.0
    begun, answer_ = await world.begin()
    await world.provider.stop()
    with golden.refused(ProviderTrouble):
        await world.service.finish(begun.cookie, answer_)
    await world.refused(ProviderTrouble, "cannot be reached", world.server())
    token = await world.sessions.begin(ROOT_TOKEN)
    assert token is not None, "local tokens go on working"


async def test_a_log_in_counts_once_and_only_in_its_browser(world: World, golden: Golden) -> None:
    first, answer = await world.begin()
    other, _ = await world.begin()
    for cookie in (
        "",
        "x",
        other.cookie,
        first.cookie[:-2],
        jwt.encode({"alg": "HS256"}, {"state": "s"}, OctKey.import_key(b"k" * 32)),
    ):
        with pytest.raises(SignInInvalid):
            await world.service.finish(cookie, answer)
    for wrong in ({"state": ""}, {"state": "x"}, {"code": ""}, {"iss": "https://evil.example"}):
        with pytest.raises(SignInInvalid):
            await world.service.finish(first.cookie, answer | wrong)
    assert world.sessions_begun() == 0
    elsewhere = world.server()
    assert (await elsewhere.finish(first.cookie, answer | {"iss": world.provider.issuer})).session, "on any server"
    with golden.refused(SignInInvalid):
        await world.service.finish(first.cookie, answer)
    world.provider.codes[answer["code"]] = LyingProvider.asked_of(first.url)
    with golden.refused(SignInInvalid):  # a provider that takes a code twice
        await world.service.finish(first.cookie, answer)
    assert world.sessions_begun() == 1


async def test_who_logs_out_there_is_logged_out_here(world: World, golden: Golden) -> None:
    def people() -> list[str]:
        sessions = world.store.read_sync(lambda tx: tx.tokens.all(CredentialKind.SESSION))
        return sorted(each.user_name for each in sessions)

    for sub, sid, email in (("1", "s1", ANNA), ("1", "s2", ANNA), ("2", "s3", "ben@example.com")):
        world.provider.claims = {"sub": sub, "sid": sid, "email": email}
        await world.log_in()
    assert people() == [ANNA, ANNA, "ben@example.com"]
    token = world.provider.logout_token
    for wrong in (
        token(aud="another"),
        token(iss="https://evil.example"),
        token(events=None),
        token(events={"http://schemas.openid.net/event/backchannel-logout": None}),
        token(nonce="as in an ID token"),
        token(sub=None),
        token(sub=7),
        token(iat=int(time.time()) - 3_600, exp=None),
        token(exp=int(time.time()) - 3_600),
        world.provider.id_token("n"),
    ):
        with pytest.raises(SignInInvalid):
            await world.service.end_by_provider(wrong)
    unsigned = token().rpartition(".")[0] + "."
    for forged in (unsigned, "", "a.b.c", unsigned.replace(unsigned.partition(".")[0], _base64(NONE))):
        with golden.refused(ProviderTrouble):
            await world.service.end_by_provider(forged)
    assert len(people()) == 3
    earlier = token(sub="2", iat=int(time.time()) - 200)
    await world.service.end_by_provider(earlier)
    assert len(people()) == 3, "ben has logged in after that"
    await world.service.end_by_provider(token(sub="1", sid="s2"))
    assert people() == [ANNA, "ben@example.com"]
    await world.service.end_by_provider(token(sub=None, sid="s3"))
    await world.service.end_by_provider(token(sub="1"))
    assert people() == []
    assert world.store.read_sync(lambda tx: tx.tokens.all(CredentialKind.PROVIDER)) == []


async def test_log_out_leads_on_to_the_provider(world: World) -> None:
    world.provider.discovery = {"end_session_endpoint": f"{world.provider.issuer}/end?x=1"}
    single = world.server(single_log_out=True)
    begun, answer = await world.begin(single)
    ended = await single.finish(begun.cookie, answer)
    session = await world.sessions.find(ended.session)
    assert session is not None
    log_in = await world.sessions.end(session)
    assert log_in is not None
    assert world.provider.issued not in log_in.details, "it is sealed"
    place = await single.log_out_url(log_in, back=f"{HERE}/login")
    assert place.startswith(f"{world.provider.issuer}/end?x=1&")
    asked = world.provider.asked_of(place)
    assert asked["id_token_hint"] == world.provider.issued
    assert (asked["post_logout_redirect_uri"], asked["client_id"]) == (f"{HERE}/login", CLIENT_ID)
    assert await world.service.log_out_url(log_in, back=HERE) == "", "the settings do not want it"
    assert await single.log_out_url(None, back=HERE) == "", "the session came from a token"
    world.provider.discovery = {"end_session_endpoint": "http://evil.example/"}
    assert await world.server(single_log_out=True).log_out_url(log_in, back=HERE) == "", "nor is a bad address taken"


async def test_two_replays_at_once_begin_one_session(world: World) -> None:
    begun, answer = await world.begin()
    nonce = LyingProvider.asked_of(begun.url)["nonce"]
    world.provider.token_answer = lambda: web.json_response({"id_token": world.provider.id_token(nonce)})
    servers = [world.server() for _ in range(4)]
    results = await asyncio.gather(*(each.finish(begun.cookie, answer) for each in servers), return_exceptions=True)
    assert [type(each) for each in results].count(SignInInvalid) == 3
    assert world.sessions_begun() == 1


async def test_a_log_in_that_took_too_long_or_was_denied(world: World, golden: Golden) -> None:
    begun, answer = await world.begin()
    with golden.refused(SignInRefused, "access_denied"):
        await world.service.finish(
            begun.cookie, {"state": answer["state"], "error": "access_denied", "error_description": "no \n"}
        )
    world.clock.advance(ms=ATTEMPT_MS)
    with golden.refused(SignInInvalid):
        await world.service.finish(begun.cookie, answer)


async def test_a_provider_that_names_itself_must_do_so_each_time(world: World) -> None:
    world.provider.discovery = {"authorization_response_iss_parameter_supported": True}
    await world.refused(SignInInvalid, "iss")


@both_databases
async def test_groups_follow_the_provider_and_no_others_change(world: World, store: Store) -> None:
    mapped = world.server(groups={"eng": "engineers", "root": "admins", "ops": "operators"})

    def groups(caller: Caller) -> set[str]:
        return {each.display_name for each in store.read_sync(lambda tx: tx.groups.of(caller.user_id))} - {"users"}

    world.provider.claims = {"groups": ["eng", "root", "unmapped", 5]}
    caller = await world.log_in(mapped)
    assert groups(caller) == {"engineers", "admins"}
    assert caller.is_admin
    await store.write(lambda tx: tx.groups.put(GroupRow(group_id="4711", display_name="own")))
    await store.write(lambda tx: tx.groups.add("4711", [caller.user_id]))
    world.provider.claims = {"groups": "ops"}
    caller = await world.log_in(mapped)
    assert groups(caller) == {"operators", "own"}
    assert not caller.is_admin
    world.provider.claims = {}
    assert groups(await world.log_in(mapped)) == {"own"}


async def test_a_log_in_cannot_take_the_last_administrator_away(world: World, store: Store, golden: Golden) -> None:
    mapped = world.server(groups={"root": "admins"}, create_users=False)
    world.provider.claims = {"email": "root@example.com"}
    with golden.refused(InvalidState):
        await world.log_in(mapped)
    assert store.read_sync(lambda tx: tx.groups.members([ADMINS_ID]))[ADMINS_ID]


async def test_claims_that_only_userinfo_has(world: World, golden: Golden) -> None:
    world.provider.discovery = {"userinfo_endpoint": f"{world.provider.issuer}/userinfo"}
    world.provider.claims = {"email": None, "email_verified": None}
    world.provider.userinfo = {"sub": "248289761001", "email": ANNA, "email_verified": True, "iss": "x"}
    assert (await world.log_in()).user_name == ANNA
    world.provider.userinfo = {"sub": "somebody-else", "email": "root@example.com", "email_verified": True}
    with golden.refused(ProviderTrouble):
        await world.log_in()


async def test_a_client_without_a_secret_and_one_that_posts_it(world: World) -> None:
    await world.log_in(world.server(client_secret=""))
    assert "client_secret" not in world.provider.asked[-2][1] | world.provider.asked[-1][1]
    world.provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await world.log_in(world.server())
    sent = [form for path, form in world.provider.asked if path == "/token"][-1]
    assert sent["client_secret"] == CLIENT_SECRET


async def test_a_session_from_before_ends_and_the_browser_never_sees_the_secret(world: World) -> None:
    begun, answer = await world.begin()
    first = await world.service.finish(begun.cookie, answer)
    begun, answer = await world.begin()
    second = await world.service.finish(begun.cookie, answer, instead_of=first.session)
    assert await world.sessions.find(first.session) is None
    assert await world.sessions.find(second.session) is not None
    assert CLIENT_SECRET not in begun.cookie + begun.url
