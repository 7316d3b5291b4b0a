"""PLAIN and OAUTHBEARER: mechanisms of one message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.sasl.exchange import Authenticated, Challenge, CheckPassword, CheckToken, Rejected
from kraft.sasl.oauth_bearer import OAuthBearerServer
from kraft.sasl.plain import PlainServer, plain_message

TOKEN = b"n,,\x01auth=Bearer abc.def-_\x01\x01"


def test_plain_asks_for_a_check_and_ends_with_it() -> None:
    exchange = PlainServer()
    assert exchange.received(plain_message("alice", "secret, or not")) == CheckPassword("alice", "secret, or not")
    assert exchange.checked(True) == Authenticated("alice")
    with pytest.raises(Rejected, match="another password"):
        exchange.checked(False)
    with pytest.raises(Rejected, match="second message"):
        exchange.received(plain_message("alice", "secret"))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"root\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0\xff\0secret", None),
    ],
)
def test_plain_says_what_is_wrong_as_kafka_does(message: bytes, told: str | None) -> None:
    with pytest.raises(Rejected) as rejected:
        PlainServer().received(message)
    assert rejected.value.told == told


def test_a_valid_token_ends_the_exchange() -> None:
    exchange = OAuthBearerServer()
    assert exchange.received(TOKEN) == CheckToken("abc.def-_")
    assert exchange.token_checked("alice", 5_000) == Authenticated("alice", expires_ms=5_000)


@pytest.mark.parametrize("scheme", [b"bearer ", b"BEARER   "])
def test_the_scheme_has_any_case_and_extensions_are_ignored(scheme: bytes) -> None:
    message = b"n,a=alice,\x01host=h\x01auth=" + scheme + b"t\x01trace=1\x01\x01"
    exchange = OAuthBearerServer()
    assert exchange.received(message) == CheckToken("t")
    assert exchange.token_checked("alice", 1).user == "alice"
    with pytest.raises(Rejected, match="another authorization id"):
        exchange.token_checked("bob", 1)


def test_a_client_whose_token_was_refused_is_rejected_after_one_more_message() -> None:
    exchange = OAuthBearerServer()
    exchange.received(TOKEN)
    assert exchange.refused("it has expired") == Challenge(b'{"status":"invalid_token"}')
    with pytest.raises(Rejected, match="it has expired") as rejected:
        exchange.received(b"\x01")
    assert rejected.value.told == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "does not begin"),
        (b"y,,\x01auth=Bearer t\x01\x01", "does not begin"),
        (b"n,x,\x01auth=Bearer t\x01\x01", "does not begin"),
        (b"n,,x\x01auth=Bearer t\x01\x01", "does not begin"),
        (b"n,,\x01auth=Bearer t", "has no end"),
        (b"n,,\x01auth=Basic t\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer t t\x01\x01", "no bearer token"),
        (b"n,,\x01\x01", "no bearer token"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_message_without_a_token_is_rejected(message: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        OAuthBearerServer().received(message)


def test_a_second_token_is_rejected() -> None:
    exchange = OAuthBearerServer()
    exchange.received(TOKEN)
    with pytest.raises(Rejected, match="second message"):
        exchange.received(TOKEN)


@given(st.binary())
def test_any_bytes_are_answered_or_rejected(message: bytes) -> None:
    for exchange in (PlainServer(), OAuthBearerServer()):
        with pytest.raises(Rejected):
            exchange.received(b"\xff" + message)


def test_no_secret_is_printed() -> None:
    assert "secret" not in repr(CheckPassword("alice", "secret"))
    assert "secret" not in repr(CheckToken("secret"))
