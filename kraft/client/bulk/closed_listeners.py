"""What a connection of a bulk read does first at a listener that is closed: TLS, and a login by SASL."""

from __future__ import annotations

import secrets
import socket
from typing import Final, Protocol, TypeVar

from kraft.client.model.errors import InvalidSetting
from kraft.client.model.security import Credentials
from kraft.model.errors import ErrorCode, error_code
from kraft.rpc.login_channel import NONCE_BYTES, REFRESH_SHARE
from kraft.sasl.client import PasswordLogin, TokenLogin, answer_to, client_exchange
from kraft.sasl.exchange import Rejected
from kraft.sasl.mechanisms import SaslMechanism
from kraft.tls.contexts import client_context
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError
from kraft.wire.schema.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kraft.wire.schema.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1

M = TypeVar("M", bound=Message)


class Asking(Protocol):
    """A connection, for requests that are answered one after the other."""

    def exchange(self, request: Message, kind: type[M], version: int, timeout_s: float) -> M: ...


def encrypted(connected: socket.socket, settings: TlsSettings, host: str) -> socket.socket:
    """Return the connection after the handshake. Raises OSError."""
    try:
        context = client_context(settings)
    except StoreError as error:
        raise ProtocolError(str(error)) from None
    return context.wrap_socket(connected, server_hostname=host)


def log_in(credentials: Credentials, connection: Asking, timeout_s: float) -> float | None:
    """Log in; return after how many seconds the session is nearly over, None for never.

    Raises OSError, and ProtocolError if the broker refuses.
    """
    try:
        login = credentials if isinstance(credentials, PasswordLogin) else credentials.login()
    except InvalidSetting as error:
        raise ProtocolError(str(error)) from None
    mechanism = SaslMechanism.OAUTHBEARER if isinstance(login, TokenLogin) else login.mechanism
    shaken = connection.exchange(
        SaslHandshakeRequest(mechanism=mechanism.value), SaslHandshakeResponse, HANDSHAKE_VERSION, timeout_s
    )
    if shaken.error_code != ErrorCode.NONE:
        raise ProtocolError(f"{error_code(shaken.error_code).name}: {mechanism} is none of {shaken.mechanisms}")
    exchange = client_exchange(login, secrets.token_urlsafe(NONCE_BYTES))
    message = next(exchange)
    while True:
        answer = connection.exchange(
            SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, AUTHENTICATE_VERSION, timeout_s
        )
        if answer.error_code != ErrorCode.NONE:
            raise ProtocolError(f"{error_code(answer.error_code).name}: {answer.error_message}")
        try:
            following = answer_to(exchange, bytes(answer.auth_bytes))
        except Rejected as error:
            raise ProtocolError(f"login failed: {error.reason}") from None
        if following is None:
            return answer.session_lifetime_ms / 1_000 * REFRESH_SHARE or None
        message = following
