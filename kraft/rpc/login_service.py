"""The Login call: a client logs in by SASL, and gets a token of its session. `login.proto` shows the exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.rpc.pb import login_pb2, login_pb2_grpc
from kraft.rpc.refusal_log import RefusalLog, readable_peer
from kraft.rpc.session_tokens import SessionTokens
from kraft.sasl.exchange import Challenge
from kraft.sasl.login import LoggedIn, LoginFailed, SaslLogin

Context = grpc.aio.ServicerContext[Any, Any]

LOGIN_METHOD: Final = "/kraft.v1.Authentication/Login"

LOGIN_S_MAX: Final = 10.0
"""A login that takes longer ends, and so does one whose client sends nothing."""

LOGINS_MAX: Final = 256
"""Logins that are in progress at the same time; further ones are refused at once, and their clients try again."""


class Logins(Struct, frozen=True, kw_only=True):
    """How the clients of a listener log in."""

    begin: Callable[[], SaslLogin]
    answer: Callable[[SaslLogin, bytes, str], Awaitable[Challenge | LoggedIn]]
    """Answers a client's message; gets its address without the port. Raises LoginFailed, after a delay."""

    monotonic_ms: Callable[[], int]


class LoginService(login_pb2_grpc.AuthenticationServicer):
    def __init__(self, logins: Logins, tokens: SessionTokens, refusals: RefusalLog) -> None:
        self._logins = logins
        self._tokens = tokens
        self._refusals = refusals
        self._in_progress = 0

    def add_to(self, server: grpc.aio.Server) -> None:
        login_pb2_grpc.add_AuthenticationServicer_to_server(self, server)

    async def Login(
        self, requests: AsyncIterator[login_pb2.LoginRequest], context: Context
    ) -> AsyncIterator[login_pb2.LoginResponse]:
        if self._in_progress >= LOGINS_MAX:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "too many logins are in progress: try again")
        self._in_progress += 1
        try:
            async with asyncio.timeout(LOGIN_S_MAX):
                async for response in self._exchange(requests, context):
                    yield response
        except TimeoutError:
            self._refusals.log(context.peer(), f"its login was not complete after {LOGIN_S_MAX:g} s")
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"login took longer than {LOGIN_S_MAX:g} s")
        except LoginFailed as failed:
            self._refusals.log(context.peer(), failed.reason)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{failed.error_code.name}: {failed.told}")
        except DecodeError as error:
            self._refusals.log(context.peer(), f"{LOGIN_METHOD}: not a valid request: {error}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a valid request: {error}")
        finally:
            self._in_progress -= 1

    async def _exchange(
        self, requests: AsyncIterator[login_pb2.LoginRequest], context: Context
    ) -> AsyncIterator[login_pb2.LoginResponse]:
        login = self._logins.begin()
        host = readable_peer(context.peer()).rpartition(":")[0]
        has_begun = False
        async for request in requests:
            if not has_begun:
                self._choose(login, request.mechanism)
                has_begun = True
            step = await self._logins.answer(login, request.auth_bytes, host)
            if isinstance(step, LoggedIn):
                yield login_pb2.LoginResponse(
                    auth_bytes=step.message,
                    session=self._tokens.issue(step.session),
                    session_lifetime_ms=step.session.lifetime_ms,
                )
                return
            yield login_pb2.LoginResponse(auth_bytes=step.message)

    def _choose(self, login: SaslLogin, mechanism: str) -> None:
        try:
            login.handshake(mechanism, self._logins.monotonic_ms())
        except LoginFailed as failed:
            if failed.error_code is not ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                raise
            enabled = f"{failed.told}, enabled mechanisms are {', '.join(login.mechanisms)}"
            raise LoginFailed(failed.error_code, failed.reason, enabled) from None
