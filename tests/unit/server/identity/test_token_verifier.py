"""Keys of an authorization server are fetched, kept, and fetched again, in virtual time but for the thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kraft.server.identity import token_verifier
from kraft.server.identity.key_refresh import UNKNOWN_KEY_PAUSE_MS
from kraft.server.identity.token_verifier import JwksVerifier
from kraft.tokens.signed_tokens import InvalidToken, NoKeysYet
from kraft.tokens.token_keys import KeysUnavailable
from tests.support.token_issuer import SETTINGS, TokenIssuer

FIRST, SECOND = TokenIssuer("first"), TokenIssuer("second")


class Time:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return FIRST.claims()["iat"] * 1_000  # type: ignore[no-any-return]


class Server:
    """An authorization server; None: it cannot be reached."""

    def __init__(self, keys: bytes | None) -> None:
        self.keys = keys
        self.fetches = 0

    def fetch(self, url: str) -> bytes:
        assert url == SETTINGS.jwks_url
        self.fetches += 1
        if self.keys is None:
            raise KeysUnavailable("connection refused")
        return self.keys


class Silent(Server):
    """One that does not answer before the test says so."""

    def __init__(self, keys: bytes) -> None:
        super().__init__(keys)
        self.answers = threading.Event()

    def fetch(self, url: str) -> bytes:
        self.answers.wait(30)
        return super().fetch(url)


@asynccontextmanager
async def running(server: Server, time: Time) -> AsyncIterator[JwksVerifier]:
    verifier = JwksVerifier(SETTINGS, time, server.fetch)
    running = asyncio.create_task(verifier.run())
    try:
        yield verifier
    finally:
        running.cancel()
        verifier.close()


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def reason(verifier: JwksVerifier, token: str) -> str:
    with pytest.raises(InvalidToken) as rejected:
        await verifier.verify(token)
    return rejected.value.reason


@pytest.mark.real_time
async def test_the_first_login_waits_for_the_keys() -> None:
    async with running(Server(FIRST.jwks()), Time()) as verifier:
        assert (await verifier.verify(FIRST.token("carol"))).user == "carol"


@pytest.mark.real_time
async def test_a_new_key_is_fetched_when_a_token_names_it() -> None:
    time, server = Time(), Server(FIRST.jwks())
    async with running(server, time) as verifier:
        await verifier.verify(FIRST.token())
        server.keys = FIRST.jwks(SECOND)
        assert "names key 'second'" in await reason(verifier, SECOND.token())
        assert server.fetches == 1, "too soon after the last fetch"
        time.now_ms += UNKNOWN_KEY_PAUSE_MS
        assert (await verifier.verify(SECOND.token("dave"))).user == "dave"
        assert server.fetches == 2


@pytest.mark.real_time
async def test_a_flood_of_unknown_keys_brings_one_fetch_and_delays_nobody_else() -> None:
    time, server = Time(), Server(FIRST.jwks())
    async with running(server, time) as verifier:
        await verifier.verify(FIRST.token())
        time.now_ms += UNKNOWN_KEY_PAUSE_MS
        forged = [TokenIssuer(f"forged-{number}", FIRST.key).token() for number in range(200)]
        flood = [asyncio.ensure_future(reason(verifier, token)) for token in forged]
        assert (await verifier.verify(FIRST.token())).user == "alice"
        assert all("names key" in each for each in await asyncio.gather(*flood))
        assert server.fetches == 2


@pytest.mark.real_time
async def test_keys_that_cannot_be_fetched_again_stay_and_one_line_says_so() -> None:
    time, server = Time(), Server(FIRST.jwks())
    async with running(server, time) as verifier:
        await verifier.verify(FIRST.token())
        with capture_logs() as logged:
            for keys in (None, b"<html>", b'{"keys": []}'):
                server.keys, before = keys, server.fetches
                time.now_ms += UNKNOWN_KEY_PAUSE_MS
                await reason(verifier, SECOND.token())
                await until(lambda before=before: server.fetches > before)  # type: ignore[misc]
                assert (await verifier.verify(FIRST.token())).user == "alice"
        lines = [each for each in logged if each["event"] == "token keys not fetched"]
        assert [(each["reason"], each["has_earlier_keys"]) for each in lines] == [("connection refused", True)]


@pytest.mark.real_time
async def test_a_key_that_its_server_has_withdrawn_is_valid_no_longer() -> None:
    time, server = Time(), Server(FIRST.jwks())
    async with running(server, time) as verifier:
        await verifier.verify(FIRST.token())
        server.keys = SECOND.jwks()
        time.now_ms += UNKNOWN_KEY_PAUSE_MS
        await verifier.verify(SECOND.token())
        assert "names key 'first'" in await reason(verifier, FIRST.token())


@pytest.mark.real_time
async def test_nobody_waits_longer_than_a_login_for_a_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_verifier, "WAIT_S_MAX", 0.05)
    server = Silent(FIRST.jwks())
    async with running(server, Time()) as verifier:
        async with asyncio.timeout(10):
            with pytest.raises(NoKeysYet):
                await verifier.verify(FIRST.token())
        server.answers.set()
        monkeypatch.setattr(token_verifier, "WAIT_S_MAX", 10)
        assert (await verifier.verify(FIRST.token())).user == "alice"


@pytest.mark.real_time
async def test_a_fetch_that_does_not_end_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_verifier, "FETCH_S_MAX", -0.95)
    server = Silent(FIRST.jwks())
    with capture_logs() as logged:
        async with running(server, Time()):
            await until(lambda: bool(logged))
        server.answers.set()
    assert logged[0]["event"] == "token keys not fetched"
    assert "had not arrived" in logged[0]["reason"]


@pytest.mark.real_time
async def test_without_keys_no_token_is_verified_or_refused() -> None:
    async with running(Server(None), Time()) as verifier:
        with pytest.raises(NoKeysYet, match="has not fetched the keys"):
            await verifier.verify(FIRST.token())
