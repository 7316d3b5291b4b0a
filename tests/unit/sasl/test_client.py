from __future__ import annotations

import pytest

from kraft.model.password import Password
from kraft.sasl.client import PasswordLogin, TokenLogin, answer_to, client_exchange
from kraft.sasl.exchange import Authenticated, Challenge, CheckPassword, CheckToken, Rejected
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.oauth_bearer import OAuthBearerServer
from kraft.sasl.plain import PlainServer
from kraft.sasl.scram import ScramMechanism, ScramServer, credential_of, salted_password

SALT = b"a salt of 16 byte"


def server(mechanism: ScramMechanism, password: str) -> ScramServer:
    credential = credential_of(mechanism, salted_password(mechanism, password, SALT, 4_096), SALT, 4_096)
    return ScramServer(mechanism, "of-the-server", lambda _: credential)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_ends_when_both_sides_have_proved_the_password(mechanism: ScramMechanism) -> None:
    login = PasswordLogin(mechanism=SaslMechanism(mechanism.value), user="a,b=c", password=Password("secret"))
    exchange, other = client_exchange(login, "of-the-client"), server(mechanism, "secret")
    first = other.received(next(exchange))
    assert isinstance(first, Challenge)
    last = other.received(exchange.send(first.message))
    assert isinstance(last, Authenticated)
    assert last.user == "a,b=c"
    assert answer_to(exchange, last.message) is None


def test_a_server_that_does_not_know_the_user_is_not_believed() -> None:
    login = PasswordLogin(mechanism=SaslMechanism.SCRAM_SHA_256, user="alice", password=Password("secret"))
    exchange, other = client_exchange(login, "of-the-client"), server(ScramMechanism.SHA_256, "secret")
    first = other.received(next(exchange))
    assert isinstance(first, Challenge)
    exchange.send(first.message)
    with pytest.raises(Rejected, match="does not prove"):
        exchange.send(b"v=Zm9yZ2Vk")


def test_plain_is_one_message() -> None:
    login = PasswordLogin(mechanism=SaslMechanism.PLAIN, user="alice", password=Password("secret"))
    exchange = client_exchange(login, "")
    assert PlainServer().received(next(exchange)) == CheckPassword("alice", "secret")
    assert answer_to(exchange, b"") is None


def test_a_token_is_one_message_and_a_refusal_is_acknowledged() -> None:
    exchange, other = client_exchange(TokenLogin(token=Password("ab.cd.ef")), ""), OAuthBearerServer()
    assert other.received(next(exchange)) == CheckToken("ab.cd.ef")
    refusal = other.refused("expired")
    with pytest.raises(Rejected):
        other.received(exchange.send(refusal.message))
    with pytest.raises(Rejected, match="refused the token"):
        exchange.send(b"")


def test_a_token_that_is_accepted_ends_the_exchange() -> None:
    exchange = client_exchange(TokenLogin(token=Password("ab.cd.ef")), "")
    next(exchange)
    assert answer_to(exchange, b"") is None
