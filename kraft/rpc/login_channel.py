"""Channel of a client that logs in by SASL before its first call, and again when its session is over.

The session is of the process at the other end, so each channel has one of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio
from msgspec import Struct

from kraft.model.errors import ErrorCode, KraftError
from kraft.rpc.pb import login_pb2, login_pb2_grpc
from kraft.rpc.session_channel import Metadata, SessionChannel, failed_call, time_left
from kraft.rpc.session_tokens import HEADER, SCHEME, SESSION_OVER
from kraft.rpc.stream_errors import peers_error, with_status_first
from kraft.sasl.client import ClientExchange, PasswordLogin, TokenLogin, answer_to, client_exchange
from kraft.sasl.exchange import Rejected
from kraft.sasl.mechanisms import SaslMechanism

LOGIN_DEADLINE_S: Final = 10.0

NO_CREDENTIALS: Final = "no credentials"
"""How the error of a client begins that has nothing to log in with."""

REFRESH_SHARE: Final = 0.8
"""A session is replaced after this share of its life, so that no call meets its end. Kafka's clients do so, too."""

NONCE_BYTES: Final = 18

_MESSAGES_MAX: Final = 4
"""No mechanism has more messages of a client."""

GetLogin: TypeAlias = Callable[[], Awaitable[PasswordLogin | TokenLogin]]
"""Returns the credentials of the next login: a token may be another one each time. Raises KraftError."""


class LoginChannel(SessionChannel):
    """A gRPC channel whose calls show the session of a client that has logged in."""

    def __init__(self, channel: grpc.aio.Channel, get_login: GetLogin) -> None:
        super().__init__(channel, _ClientSessions(channel, get_login))


class _ClientSession(Struct, frozen=True):
    token: str
    replaced_after_s: float
    """By the clock of the event loop."""


class _ClientSessions:
    def __init__(self, channel: grpc.aio.Channel, get_login: GetLogin) -> None:
        self._stub = login_pb2_grpc.AuthenticationStub(channel)
        self._get_login = get_login
        self._session: _ClientSession | None = None
        self._has_logged_in = False
        self._logging_in = asyncio.Lock()

    async def show(self, _method: str, deadline: float | None = None) -> tuple[bytes, Metadata]:
        """Return the session and its token. Raises AioRpcError if the login fails."""
        async with self._logging_in:
            session = self._session
            if session is None or asyncio.get_running_loop().time() >= session.replaced_after_s:
                timeout_s = LOGIN_DEADLINE_S if deadline is None else min(LOGIN_DEADLINE_S, time_left(deadline))
                session = self._session = await self._log_in(timeout_s)
        return session.token.encode(), ((HEADER, SCHEME + session.token),)

    def refused(self, session: bytes, error: grpc.aio.AioRpcError) -> None:
        is_current = self._session is not None and self._session.token.encode() == session
        if is_current and error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self._session = None

    def is_forgotten(self, error: grpc.aio.AioRpcError) -> bool:
        return error.code() is grpc.StatusCode.UNAUTHENTICATED and error.details() == SESSION_OVER

    async def _log_in(self, timeout_s: float) -> _ClientSession:
        try:
            login = await self._get_login()
        except KraftError as error:
            reason = f"{NO_CREDENTIALS}: {error}"
            if self._has_logged_in:
                # The file of a token may be about to be replaced.
                raise failed_call(grpc.StatusCode.UNAVAILABLE, reason) from error
            raise _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, reason) from error
        mechanism = SaslMechanism.OAUTHBEARER if isinstance(login, TokenLogin) else login.mechanism
        call = with_status_first(self._stub.Login(timeout=timeout_s))
        try:
            response = await _exchanged(call, mechanism, client_exchange(login, secrets.token_urlsafe(NONCE_BYTES)))
        except Rejected as error:
            raise _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, error.reason) from None
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise _failure(await peers_error(call, error)) from error
        finally:
            call.cancel()
        self._has_logged_in = True
        life_s = response.session_lifetime_ms / 1_000 * REFRESH_SHARE or float("inf")
        return _ClientSession(response.session, asyncio.get_running_loop().time() + life_s)


_NO_SASL: Final = "the listener has no SASL: set security.protocol to PLAINTEXT, or to SSL if it has TLS"


async def _exchanged(
    call: Any,
    mechanism: SaslMechanism,
    exchange: ClientExchange,
) -> login_pb2.LoginResponse:
    """Return the server's last response, when the client believes it too. Raises Rejected and AioRpcError."""
    message = next(exchange)
    for number in range(_MESSAGES_MAX):
        name = "" if number else mechanism.value
        await call.write(login_pb2.LoginRequest(mechanism=name, auth_bytes=message))
        response = await call.read()
        if not isinstance(response, login_pb2.LoginResponse):
            raise Rejected("the server ended the login without an answer")
        answer = await asyncio.to_thread(answer_to, exchange, response.auth_bytes)
        if answer is None:
            return _complete(response)
        message = answer
    raise Rejected("the server does not end the login")


def _failure(error: Exception) -> grpc.aio.AioRpcError:
    """Return why the call did not end with a login."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return failed_call(grpc.StatusCode.UNAVAILABLE, "the login was cut off")
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return _refused(ErrorCode.ILLEGAL_SASL_STATE, _NO_SASL)
    return error


def _complete(response: login_pb2.LoginResponse) -> login_pb2.LoginResponse:
    if not response.session:
        raise Rejected("the server asks for more than the mechanism has")
    return response


def _refused(code: ErrorCode, reason: str) -> grpc.aio.AioRpcError:
    return failed_call(grpc.StatusCode.FAILED_PRECONDITION, f"{code.name}: {reason}")
