"""The Login call: a client logs in by SASL, and gets a token of its session. `login.proto` shows the exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from msgspec import Struct

from kraft.model.addresses import address_of_peer
from kraft.model.errors import ErrorCode
from kraft.model.refused_for import RefusedFor
from kraft.rpc.login_places import LoginPlaces
from kraft.rpc.pb import login_pb2, login_pb2_grpc
from kraft.rpc.refusal_log import RefusalLog, readable_peer
from kraft.rpc.session_tokens import SessionTokens
from kraft.sasl.exchange import Challenge
from kraft.sasl.login import LoggedIn, LoginFailed, SaslLogin

Context = grpc.aio.ServicerContext[Any, Any]

LOGIN_METHOD: Final = "/kraft.v1.Authentication/Login"

LOGIN_S_MAX: Final = 10.0
"""A login that takes longer ends, and so does one whose client sends nothing."""

LOGIN_MESSAGE_BYTES_MAX: Final = 512 * 1024
"""Largest message of a login where nobody has to log in."""

LOGINS_MAX: Final = 256
LOGINS_OF_HOST_MAX: Final = 64
"""Logins that are in progress at the same time, of all clients and of those of one host."""


class Logins(Struct, frozen=True, kw_only=True):
    """How the clients of a listener log in."""

    begin: Callable[[], SaslLogin]
    answer: Callable[[SaslLogin, bytes, str], Awaitable[Challenge | LoggedIn]]
    """Answers a client's message; gets its address without the port. Raises LoginFailed, after a delay."""

    delay_failure: Callable[[LoginFailed, str], Awaitable[None]]
    """Takes a failure outside of an exchange and its client's address, and returns when it may be told."""

    monotonic_ms: Callable[[], int]


class LoginService(login_pb2_grpc.AuthenticationServicer):
    def __init__(self, logins: Logins, tokens: SessionTokens, refusals: RefusalLog) -> None:
        self._logins = logins
        self._tokens = tokens
        self._refusals = refusals
        self._places = LoginPlaces(LOGINS_MAX, LOGINS_OF_HOST_MAX)

    def add_to(self, server: grpc.aio.Server) -> None:
        login_pb2_grpc.add_AuthenticationServicer_to_server(self, server)

    async def Login(
        self, requests: AsyncIterator[login_pb2.LoginRequest], context: Context
    ) -> AsyncIterator[login_pb2.LoginResponse]:
        host = address_of_peer(readable_peer(context.peer()))
        deadline = asyncio.timeout(LOGIN_S_MAX)
        lost: list[str] = []

        def make_room() -> None:
            if deadline.expired():
                # It ends already, in this turn of the loop.
                return
            lost.append("its login made room for those of others: too many are in progress")
            deadline.reschedule(asyncio.get_running_loop().time())

        try:
            async with deadline:
                with self._places.place(host, make_room):
                    async for response in self._exchange(requests, host):
                        yield response
        except TimeoutError:
            reason = next(iter(lost), f"its login was not complete after {LOGIN_S_MAX:g} s")
            self._refusals.log(context.peer(), reason, RefusedFor.LIMIT if lost else RefusedFor.LOGIN_TIMEOUT)
            # Clients try again.
            await context.abort(grpc.StatusCode.UNAVAILABLE if lost else grpc.StatusCode.DEADLINE_EXCEEDED, reason)
        except LoginFailed as failed:
            self._refusals.log(context.peer(), failed.reason, RefusedFor.LOGIN)
            if failed.is_passing:
                await context.abort(grpc.StatusCode.UNAVAILABLE, failed.told)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{failed.error_code.name}: {failed.told}")
        except DecodeError as error:
            reason = f"{LOGIN_METHOD}: not a valid request: {error}"
            self._refusals.log(context.peer(), reason, RefusedFor.REQUEST)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a valid request: {error}")

    async def _exchange(
        self, requests: AsyncIterator[login_pb2.LoginRequest], host: str
    ) -> AsyncIterator[login_pb2.LoginResponse]:
        login = self._logins.begin()
        has_begun = False
        async for request in requests:
            if not has_begun:
                await self._choose(login, request.mechanism, host)
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

    async def _choose(self, login: SaslLogin, mechanism: str, host: str) -> None:
        try:
            login.handshake(mechanism, self._logins.monotonic_ms())
        except LoginFailed as failed:
            await self._logins.delay_failure(failed, host)
            if failed.error_code is not ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                raise
            enabled = f"{failed.told}, enabled mechanisms are {', '.join(login.mechanisms)}"
            raise LoginFailed(failed.error_code, failed.reason, enabled) from None
