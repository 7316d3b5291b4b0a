from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from msgspec.structs import replace

from kraft.metadata.user_decisions import USER_LENGTH_MAX
from kraft.model.principal import Principal
from kraft.rpc.session_tokens import HEADER, SCHEME, TOKEN_CHARACTERS_MAX, SessionOver, SessionTokens
from kraft.sasl.login import Session
from kraft.sasl.mechanisms import SaslMechanism

KEY = bytes(range(32))
ALICE = Session(principal=Principal("alice"), mechanism=SaslMechanism.SCRAM_SHA_512)


class Process:
    """One that issues tokens."""

    def __init__(self, key: bytes = KEY) -> None:
        self.now_ms = 1_000
        self.objection: str | None = None
        self.tokens = SessionTokens(key, lambda: self.now_ms, lambda _: self.objection)

    def shown(self, token: str) -> Session | None:
        return self.tokens.shown_by([("user-agent", "x"), (HEADER, SCHEME + token)])


def test_a_token_shows_its_session_to_the_process_that_issued_it() -> None:
    process = Process()
    token = process.tokens.issue(ALICE)
    assert process.shown(token) == ALICE
    with pytest.raises(SessionOver):
        Process(bytes(32)).shown(token)
    assert process.tokens.shown_by([("user-agent", "x")]) is None


def test_no_changed_token_is_a_session() -> None:
    process = Process()
    token = process.tokens.issue(ALICE)
    data = urlsafe_b64decode(token)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(SessionOver):
            process.shown(urlsafe_b64encode(changed).decode())


@pytest.mark.parametrize("token", ["", "a", "abc", "%%%%", "ü", "A" * 44, "A" * (TOKEN_CHARACTERS_MAX + 4)])
def test_what_is_no_token_is_no_session(token: str) -> None:
    with pytest.raises(SessionOver):
        Process().shown(token)


def test_a_session_ends_at_its_time() -> None:
    process = Process()
    session = Session(principal=Principal("alice"), mechanism=SaslMechanism.PLAIN, lifetime_ms=100, ends_at_ms=1_100)
    token = process.tokens.issue(session)
    process.now_ms = 1_100
    assert process.shown(token) == session
    process.now_ms = 1_101
    with pytest.raises(SessionOver):
        process.shown(token)


def test_a_session_ends_with_its_user() -> None:
    process = Process()
    token = process.tokens.issue(ALICE)
    process.objection = "user 'alice' was deleted"
    with pytest.raises(SessionOver):
        process.shown(token)


def test_a_session_of_the_longest_user_name_is_shown_and_longer_tokens_are_not_even_decoded() -> None:
    process = Process()
    longest = replace(ALICE, principal=Principal("\N{MUSICAL SYMBOL G CLEF}" * USER_LENGTH_MAX), user_creation=1 << 40)
    longest = replace(longest, lifetime_ms=(1 << 53), ends_at_ms=(1 << 53))
    token = process.tokens.issue(longest)
    assert process.shown(token) == longest
    too_long = process.tokens.issue(replace(ALICE, principal=Principal("a" * TOKEN_CHARACTERS_MAX)))
    with pytest.raises(SessionOver):
        process.shown(too_long)


def test_a_token_says_which_of_the_users_of_a_name_the_session_is_of() -> None:
    process = Process()
    second = replace(ALICE, user_creation=2)
    assert process.shown(process.tokens.issue(second)) == second
