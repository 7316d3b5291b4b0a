"""A login by SASL over Kafka's protocol, and again before the session is over (KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from kraft.client.kafka.connection import KafkaConnection
from kraft.client.model.errors import InvalidSetting
from kraft.client.model.security import Credentials
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.rpc.login_channel import NO_CREDENTIALS, NONCE_BYTES, REFRESH_SHARE
from kraft.sasl.client import PasswordLogin, TokenLogin, answer_to, client_exchange
from kraft.sasl.exchange import Rejected
from kraft.sasl.mechanisms import SaslMechanism
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_NEVER: Final = float("inf")


class Login:
    """The session of one connection."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._is_due_s = 0.0
        """When to log in, by the clock of the event loop."""

    async def keep(self, connection: KafkaConnection) -> None:
        """Log in if there is no session, or if it is nearly over. Raises Unreachable, or the Refusal of the login."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._is_due_s:
            lifetime_ms = await _log_in(self._credentials, connection)
            self._is_due_s = loop.time() + (lifetime_ms / 1_000 * REFRESH_SHARE or _NEVER)


async def _log_in(credentials: Credentials, connection: KafkaConnection) -> int:
    """Return how long the session lasts; 0 if it does not end."""
    login = await _login(credentials)
    mechanism = SaslMechanism.OAUTHBEARER if isinstance(login, TokenLogin) else login.mechanism
    shaken: SaslHandshakeResponse = await connection.request(SaslHandshakeRequest(mechanism=mechanism.value))
    if shaken.error_code != ErrorCode.NONE:
        offered = ", ".join(shaken.mechanisms) or "no mechanism"
        raise Refusal(error_code(shaken.error_code), f"the listener offers {offered}, and not {mechanism}")
    exchange = client_exchange(login, secrets.token_urlsafe(NONCE_BYTES))
    message: bytes | None = next(exchange)
    lifetime_ms = 0
    while message is not None:
        response: SaslAuthenticateResponse = await connection.request(SaslAuthenticateRequest(auth_bytes=message))
        if response.error_code != ErrorCode.NONE:
            raise Refusal(error_code(response.error_code), response.error_message or "the login failed")
        lifetime_ms = response.session_lifetime_ms
        try:
            message = await asyncio.to_thread(answer_to, exchange, bytes(response.auth_bytes))
        except Rejected as error:
            raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, error.reason) from None
    return lifetime_ms


async def _login(credentials: Credentials) -> PasswordLogin | TokenLogin:
    if isinstance(credentials, PasswordLogin):
        return credentials
    try:
        # A file may be on a slow disk, and a function may ask an authorization server.
        return await asyncio.to_thread(credentials.login)
    except InvalidSetting as error:
        raise Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{NO_CREDENTIALS}: {error}") from error
