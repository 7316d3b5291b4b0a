"""Strangers' conversations with a listener that asks for a login: any frames, of which none may reach a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any, Final

from kraft.model.errors import ErrorCode
from kraft.sasl.login import LoginRules
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.identity.authenticator import Authenticator
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.login_requests import LoginRequests
from kraft.server.kafka_listener.requests import Api, KafkaRequests
from kraft.tokens.signed_tokens import InvalidToken, VerifiedToken
from kraft.wire.api_keys import ApiKey
from kraft.wire.frame import SIZE_BYTES
from kraft.wire.schema.api_versions import ApiVersionsResponse
from tests.support.handshake_bytes import logins
from tests.support.scram_users import users
from tests.support.virtual_time import LoopClock, Unchanging

__all__ = ["log_in", "logins"]

_USERS: Final = users({"alice": "a password that no input has"})
_RULES: Final = LoginRules(mechanisms=tuple(SaslMechanism))


class _NoToken:
    async def verify(self, token: str) -> VerifiedToken:
        raise InvalidToken("nobody has a valid token")


def log_in(data: bytes) -> None:
    """The bytes are frames, each behind its size, which is trusted no further than there are bytes."""
    asyncio.run(_converse(data))


async def _converse(data: bytes) -> None:
    authenticator = Authenticator(lambda: _USERS, Unchanging(), LoopClock(), failure_delay_ms=0, verifier=_NoToken())
    apis: dict[ApiKey, Api] = dict.fromkeys(ApiKey, _never)
    apis[ApiKey.API_VERSIONS] = lambda *_: ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=())
    requests = LoginRequests(authenticator, _RULES, KafkaRequests(apis, "10.0.0.7:5100"), apis, "10.0.0.7")
    try:
        for frame in _frames(data):
            assert not requests.is_pipelined(frame)
            begun = requests.begin(frame)
            pieces = await begun if isinstance(begun, Awaitable) else begun
            assert pieces, "every request before login has a response"
            assert not requests.is_trusted
    except CloseConnection:
        pass
    finally:
        authenticator.close()


def _never(*_: Any) -> None:
    raise AssertionError("a stranger's request reached a handler")


def _frames(data: bytes) -> Iterator[memoryview]:
    left = memoryview(data)
    while len(left) >= SIZE_BYTES:
        size = int.from_bytes(left[:SIZE_BYTES], "big") % max(len(left), 1)
        yield left[SIZE_BYTES : SIZE_BYTES + size]
        left = left[SIZE_BYTES + size :]
