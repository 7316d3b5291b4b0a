"""SCRAM against the example of RFC 7677, and against our own client."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.sasl.exchange import Authenticated, Challenge, Rejected
from kraft.sasl.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    credential_of,
    escaped,
    fake_credential,
    has_password,
    salted_password,
    unescaped,
)
from kraft.sasl.scram_client import ScramClient

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
NONCE_AGAIN = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = b"c=biws," + NONCE_AGAIN + b",p=" + PROOF
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(password: str, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, ITERATIONS_MIN), SALT, ITERATIONS_MIN)


PENCIL = credential("pencil")


def server() -> ScramServer:
    return ScramServer(ScramMechanism.SHA_256, SERVER_NONCE, {"user": PENCIL}.__getitem__)


def test_a_password_that_is_changed_before_the_last_message_does_not_fit_any_more() -> None:
    passwords = {"user": PENCIL}
    exchange = ScramServer(ScramMechanism.SHA_256, SERVER_NONCE, passwords.__getitem__)
    assert exchange.received(FIRST) == Challenge(SERVER_FIRST)
    passwords["user"] = credential("pen")
    with pytest.raises(Rejected, match="'user' does not exist, or has another password"):
        exchange.received(FINAL)


def test_the_example_of_rfc_7677() -> None:
    exchange = server()
    assert exchange.received(FIRST) == Challenge(SERVER_FIRST)
    assert exchange.received(FINAL) == Authenticated("user", SERVER_FINAL)

    client = ScramClient(ScramMechanism.SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == FIRST
    assert client.final(SERVER_FIRST) == FINAL
    client.finish(SERVER_FINAL)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_our_client_logs_in(mechanism: ScramMechanism) -> None:
    user = "a,b=c é"
    exchange = ScramServer(mechanism, "server", {user: credential("geheim", mechanism)}.__getitem__)
    client = ScramClient(mechanism, user, "geheim", "client")
    challenge = exchange.received(client.first())
    assert isinstance(challenge, Challenge)
    done = exchange.received(client.final(challenge.message))
    assert isinstance(done, Authenticated)
    client.finish(done.message)
    assert done.user == user


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "does not begin"),
        (b"p=tls-unique,,n=user,r=abc", "does not begin"),
        (b"n,b=user,n=user,r=abc", "does not begin"),
        (b"n,,m=must,n=user,r=abc", "no user and nonce"),
        (b"n,,n=user", "no user and nonce"),
        (b"n,,n=,r=abc", "no user or no nonce"),
        (b"n,,n=user,r=", "no user or no nonce"),
        (b"n,,n=user,r=a\x7fb", "no user or no nonce"),
        (b"n,,n=us=er,r=abc", "no escape"),
        (b"n,a=other,n=user,r=abc", "another authorization id"),
        (b"n,,n=user,r=abc,tokenauth=true", "delegation token"),
        (b"n,,n=\xff,r=abc", "not UTF-8"),
        (b"n,,n=user\0,r=abc", "zero byte"),
    ],
)
def test_a_first_message_that_is_none_is_rejected(first: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        server().received(first)


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (b"", "no proof"),
        (b"c=biws," + NONCE_AGAIN, "no proof"),
        (b"c=eSws," + NONCE_AGAIN + b",p=" + PROOF, "another channel"),
        (b"c=biws," + NONCE_AGAIN[:-1] + b",p=" + PROOF, "another nonce"),
        (b"c=biws,p=" + PROOF, "another nonce"),
        (b"c=biws," + NONCE_AGAIN + b",p=", "0 bytes, not 32"),
        (b"c=biws," + NONCE_AGAIN + b",p=" + PROOF + b"AAAA", "not Base64"),
        (b"c=biws," + NONCE_AGAIN + b",p=****", "not Base64"),
        (b"c=biws," + NONCE_AGAIN + b",p=e" + PROOF[1:], "another password"),
        (b"c=biws," + NONCE_AGAIN + b",x=y,p=" + PROOF, "another password"),
    ],
)
def test_a_last_message_that_proves_nothing_is_rejected(final: bytes, reason: str) -> None:
    exchange = server()
    exchange.received(FIRST)
    with pytest.raises(Rejected, match=reason):
        exchange.received(final)


def test_a_channel_is_bound_as_the_first_message_said() -> None:
    exchange = server()
    exchange.received(b"y,," + FIRST[3:])
    with pytest.raises(Rejected, match="another channel"):
        exchange.received(FINAL)


def test_an_unknown_user_gets_the_same_salt_each_time_and_no_password_is_right() -> None:
    first, again = (fake_credential(ScramMechanism.SHA_512, b"key", "nobody") for _ in range(2))
    assert first == again
    assert first.salt != fake_credential(ScramMechanism.SHA_512, b"key", "anybody").salt
    assert first.salt != fake_credential(ScramMechanism.SHA_512, b"other key", "nobody").salt
    assert len(first.stored_key) == len(credential("", ScramMechanism.SHA_512).stored_key)
    assert not has_password(ScramMechanism.SHA_512, first, "")


def test_a_password_is_compared_with_the_stored_key() -> None:
    assert has_password(ScramMechanism.SHA_256, PENCIL, "pencil")
    assert not has_password(ScramMechanism.SHA_256, PENCIL, "pencils")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "none of SCRAM"),
        (b"r=" + CLIENT_NONCE.encode() + b",s=AAAA,i=4096", "does not begin with the client's"),
        (b"r=other,s=AAAA,i=4096", "does not begin with the client's"),
        (NONCE_AGAIN + b",s=AAAA,i=4095", "4095 iterations"),
        (NONCE_AGAIN + b",s=AAAA,i=1000001", "1000001 iterations"),
        (NONCE_AGAIN + b",s=A,i=4096", "none of SCRAM"),
        (NONCE_AGAIN + b",s=AAAA,i=-1", "none of SCRAM"),
        (b"\xff", "none of SCRAM"),
    ],
)
def test_a_client_believes_no_server_that_is_none(message: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        ScramClient(ScramMechanism.SHA_256, "user", "pencil", CLIENT_NONCE).final(message)


def test_a_client_believes_no_server_that_does_not_know_the_user() -> None:
    client = ScramClient(ScramMechanism.SHA_256, "user", "pencil", CLIENT_NONCE)
    for message in (b"v=", b"e=other-error", SERVER_FINAL):
        with pytest.raises(Rejected, match="does not prove"):
            client.finish(message)
    client.final(SERVER_FIRST)
    with pytest.raises(Rejected, match="does not prove"):
        client.finish(b"v=" + PROOF)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_every_name_can_be_escaped(name: str) -> None:
    assert "," not in escaped(name)
    assert unescaped(escaped(name)) == name


@given(st.lists(st.binary() | st.sampled_from([FIRST, FINAL, b"n,,n=user,r=x,", b"c=biws,r=,p="]), max_size=3))
def test_any_bytes_are_answered_or_rejected(messages: list[bytes]) -> None:
    exchange = server()
    for message in messages:
        try:
            exchange.received(message)
        except Rejected:
            return


def test_no_secret_is_printed() -> None:
    assert repr(PENCIL) == "ScramCredential(iterations=4096)"
