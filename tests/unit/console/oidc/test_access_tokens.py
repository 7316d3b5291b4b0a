"""The access token of a login: when it is renewed, and when the login has ended."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraft.console.oidc.access_tokens import AccessTokens, LoginEnded
from kraft.console.oidc.provider import Away, Refused, Tokens
from kraft.model.password import Password


class Provider:
    """Answers as it was told; refresh tokens serve once."""

    def __init__(self, lifetime_s: float | None = 100.0) -> None:
        self.now_s = 1_000.0
        self.lifetime_s = lifetime_s
        self.problem: Exception | None = None
        self.asked: list[str] = []

    def clock(self) -> float:
        return self.now_s

    def tokens(self, number: int) -> Tokens:
        return Tokens(
            access=Password(f"access-{number}"), refresh=Password(f"refresh-{number}"), lifetime_s=self.lifetime_s
        )

    def refreshed(self, refresh: Password) -> Tokens:
        assert refresh.text not in self.asked, "a refresh token was used twice"
        if self.problem is not None:
            raise self.problem
        self.asked.append(refresh.text)
        return self.tokens(len(self.asked))


def login(provider: Provider) -> AccessTokens:
    return AccessTokens(provider, "idp.example", provider.tokens(0), provider.clock)


def test_a_token_serves_until_it_is_due_and_then_there_is_another() -> None:
    provider = Provider()
    tokens = login(provider)
    provider.now_s += 59
    assert (tokens.current(), provider.asked) == ("access-0", [])
    provider.now_s += 2
    assert tokens.current() == "access-1"
    assert tokens.current() == "access-1"
    provider.now_s += 61
    tokens.keep()
    assert (tokens.current(), provider.asked) == ("access-2", ["refresh-0", "refresh-1"])


def test_what_the_provider_refuses_ends_the_login_at_once() -> None:
    provider = Provider()
    tokens = login(provider)
    provider.problem = Refused("invalid_grant")
    provider.now_s += 61
    with pytest.raises(LoginEnded, match=r"idp\.example does not renew it \(invalid_grant\)\. Log in again\."):
        tokens.current()
    provider.problem = None
    assert tokens.ended
    with pytest.raises(LoginEnded):
        tokens.current()


def test_a_provider_that_is_away_is_asked_again_until_the_token_expires() -> None:
    provider = Provider()
    tokens = login(provider)
    provider.problem = Away("it is away")
    provider.now_s += 61
    assert tokens.current() == "access-0"
    provider.problem = None
    # Not at each call.
    assert tokens.current() == "access-0"
    provider.now_s += 5
    assert tokens.current() == "access-1"
    provider.problem = Away("it is away")
    provider.now_s += 100
    tokens.keep()
    assert "could not be renewed (it is away)" in tokens.ended


def test_without_a_refresh_token_the_login_ends_with_the_access_token() -> None:
    provider = Provider()
    only = Tokens(access=Password("only"), refresh=None, lifetime_s=100)
    tokens = AccessTokens(provider, "idp.example", only, provider.clock)
    provider.now_s += 99
    assert tokens.current() == "only"
    provider.now_s += 1
    tokens.keep()
    assert "the provider gave no refresh token" in tokens.ended


def test_a_token_of_unknown_life_is_renewed_now_and_then_and_does_not_end() -> None:
    provider = Provider(lifetime_s=None)
    tokens = login(provider)
    provider.now_s += 181
    assert tokens.current() == "access-1"
    provider.problem = Away("it is away")
    provider.now_s += 10_000
    assert tokens.current() == "access-1"


def test_clients_that_ask_at_once_renew_once() -> None:
    provider = Provider()
    tokens = login(provider)
    provider.now_s += 61
    ready = threading.Barrier(8)

    def ask() -> str:
        ready.wait(30)
        return tokens.current()

    with ThreadPoolExecutor(8) as threads:
        found = {each.result(30) for each in [threads.submit(ask) for _ in range(8)]}
    assert (found, provider.asked) == ({"access-1"}, ["refresh-0"])
