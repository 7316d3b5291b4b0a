"""Why a broker and this client do not fit, in words with the remedy: then a call ends at once, and is not tried again.

Kafka's clients do the same with their AuthenticationException.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.client.cluster.listener_look import Looked, look
from kraft.client.model.errors import AuthenticationFailed
from kraft.client.model.security import OPEN, ClientSecurity
from kraft.client.model.settings import WireProtocol
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.connection_failures import HOST_DIFFERS, NO_TLS, NOT_TRUSTED, OTHER_PROTOCOL
from kraft.rpc.login_channel import NO_CREDENTIALS
from kraft.rpc.peers import HandshakeFailed, NotGrpc, NotKafka, Unreachable
from kraft.sasl.client import PasswordLogin

LOOK_AGAIN_AFTER_S: Final = 1.0

_OF_LOGINS: Final = frozenset(
    {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE}
)

_OTHER_PROTOCOL: Final = {
    WireProtocol.GRPC: "it does not speak Kraft's gRPC client protocol: use the address of a GRPC listener (default "
    "port 9094), with its security.protocol, or set wire.protocol=kafka for a listener of Kafka's protocol",
    WireProtocol.KAFKA: "it does not speak Kafka's protocol: use the address of a listener for Kafka's clients "
    "(default port 9092), with its security.protocol, or leave out wire.protocol=kafka",
}
_SET_KEY: Final = "it requires a certificate of its clients: set ssl.keystore.location"
_OTHER_KEY: Final = (
    "it closed the connection during the handshake: it may not accept the certificate of ssl.keystore.location, whose "
    "CA has to be in the truststore of the listener"
)
_NO_TRUST_STORE: Final = "no authority of this system has signed its certificate: set ssl.truststore.location"
_OTHER_NAME: Final = (
    "its certificate is not for this host name: connect by a name that the certificate has, or renew it with this one"
)


class Misfits:
    """The failed calls of one client."""

    def __init__(self, security: ClientSecurity, protocol: WireProtocol = WireProtocol.GRPC) -> None:
        self._security = security
        self._protocol = protocol
        self._looked: dict[str, tuple[float, Looked | None]] = {}
        """What was seen last at each address, and when."""

    async def explain(self, address: str, error: Refusal | Unreachable) -> Refusal | Unreachable:
        """Return the error, or one that names address, reason and remedy."""
        if isinstance(error, Refusal):
            return self._of_login(address, error) if error.error_code in _OF_LOGINS else error
        if isinstance(error, HandshakeFailed):
            return self._misfit(address, _remedied(error.reason, self._security, self._protocol))
        if not isinstance(error, NotGrpc | NotKafka):
            return error
        seen = await self._look(address)
        reason = None if seen is None else objection(seen, self._security, self._protocol)
        if reason is not None:
            return self._misfit(address, reason)
        if seen is not None and seen.asks_for_certificate:
            # It may also have stopped in this moment.
            return HandshakeFailed(address, _OTHER_KEY)
        return error

    def _of_login(self, address: str, refusal: Refusal) -> AuthenticationFailed:
        text = refusal.message.removeprefix(f"{address}: ")
        code = refusal.error_code
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            text += ": set sasl.mechanism to one of them"
        if code is not ErrorCode.SASL_AUTHENTICATION_FAILED or text.startswith(NO_CREDENTIALS):
            return AuthenticationFailed(code, f"{address}: {text}", lacks_settings=self._security == OPEN)
        sasl = self._security.sasl
        if isinstance(sasl, PasswordLogin):
            remedy = (
                "check user and password in sasl.jaas.config, or sasl.username and sasl.password; an administrator "
                f"whose login works sets another one with kraft users set-password {sasl.user}; if none does, "
                "SECURITY.md says what to do"
            )
            return AuthenticationFailed(code, f"{address} refused user {sasl.user!r}: {text}: {remedy}")
        remedy = "it may have expired, or be of another issuer or for another audience; the broker's log has the reason"
        return AuthenticationFailed(code, f"{address} refused the token: {text}: {remedy}")

    def _misfit(self, address: str, reason: str) -> AuthenticationFailed:
        lacks_settings = reason != _OTHER_PROTOCOL[self._protocol] and self._security == OPEN
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return AuthenticationFailed(code, f"{address}: {reason}", lacks_settings=lacks_settings)

    async def _look(self, address: str) -> Looked | None:
        now_s = asyncio.get_running_loop().time()
        looked_s, seen = self._looked.get(address, (-LOOK_AGAIN_AFTER_S, None))
        if now_s - looked_s >= LOOK_AGAIN_AFTER_S:
            seen = await look(address)
            self._looked[address] = now_s, seen
        return seen


def objection(seen: Looked, security: ClientSecurity, protocol: WireProtocol = WireProtocol.GRPC) -> str | None:
    """Return why it is in vain to try a listener again; None if it may not be."""
    if _speaks_another(seen, protocol):
        return _OTHER_PROTOCOL[protocol]
    if seen.has_tls and security.tls is None:
        return f"it has TLS: set security.protocol to {_protocol(security, 'SSL')}, and ssl.truststore.location"
    if not seen.has_tls and security.tls is not None:
        return _without_tls(security)
    if seen.asks_for_certificate and security.tls is not None and security.tls.key_store is None:
        return _SET_KEY
    return None


def _speaks_another(seen: Looked, protocol: WireProtocol) -> bool:
    if protocol is WireProtocol.GRPC:
        return seen.speaks_grpc is False
    # A listener of Kafka's protocol says nothing to those who begin with TLS where it has none.
    return seen.speaks_grpc or (seen.speaks_grpc is None and not seen.has_tls)


def _without_tls(security: ClientSecurity) -> str:
    protocol = _protocol(security, "PLAINTEXT")
    return f"it has no TLS: set security.protocol to {protocol}, or use the address of a listener with TLS"


def _protocol(security: ClientSecurity, name: str) -> str:
    return f"{name}, or to SASL_{name} if it requires a login" if security.sasl is None else f"SASL_{name}"


def _remedied(reason: str, security: ClientSecurity, protocol: WireProtocol) -> str:
    if reason.startswith(NOT_TRUSTED) and security.tls is not None and security.tls.trust_store is None:
        return _NO_TRUST_STORE + reason.removeprefix(NOT_TRUSTED)
    words = {NO_TLS: _without_tls(security), HOST_DIFFERS: _OTHER_NAME, OTHER_PROTOCOL: _OTHER_PROTOCOL[protocol]}
    return words.get(reason, reason)
