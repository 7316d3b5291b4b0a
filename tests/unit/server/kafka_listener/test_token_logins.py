"""A token that a listener cannot verify yet, as after a start while the authorization server is away."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import pytest

from kraft.metadata.users import NO_USERS
from kraft.sasl.login import LoginRules
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.identity.authenticator import Authenticator
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.login_requests import LoginRequests
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.server.kafka_listener.response_writer import ResponseBytes
from kraft.tokens.signed_tokens import NoKeysYet, VerifiedToken
from kraft.wire.declaration import Message
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest
from tests.support.virtual_time import LoopClock, Unchanging


class WithoutKeys:
    async def verify(self, _: str) -> VerifiedToken:
        raise NoKeysYet


async def test_a_login_that_may_succeed_later_ends_the_connection_without_a_word() -> None:
    authenticator = Authenticator(
        lambda: NO_USERS, Unchanging(), LoopClock(), failure_delay_ms=0, verifier=WithoutKeys()
    )
    rules = LoginRules(mechanisms=(SaslMechanism.OAUTHBEARER,))
    nothing = cast(KafkaRequests, None)
    requests = LoginRequests(authenticator, rules, nothing, {}, "10.0.0.7")

    async def send(request: Message) -> ResponseBytes:
        begun = requests.begin(memoryview(b"".join(encode_request(request, 1, 1, "test")))[SIZE_BYTES:])
        return await begun if isinstance(begun, Awaitable) else begun

    await send(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
    with pytest.raises(CloseConnection, match="has not fetched the keys") as closed:
        await send(SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer abc\x01\x01"))
    assert closed.value.response == [], "clients take an error code for final"
