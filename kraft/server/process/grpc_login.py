"""How the clients of a node's GRPC listener log in."""

from __future__ import annotations

import secrets
from typing import Final

from msgspec import Struct

from kraft.rpc.client_gate import ClientGate
from kraft.rpc.login_service import Logins, LoginService
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.session_tokens import LOGIN_NEEDED, TOKEN_KEY_BYTES, SessionTokens
from kraft.sasl.login import LoginRules
from kraft.sasl.mechanisms import SaslMechanism
from kraft.server.broker.apis import BrokerApis
from kraft.server.config.listener_security import ListenerSecurity, SaslSettings
from kraft.server.config.values import GRPC

_NOT_NEEDED: Final = SaslSettings(mechanisms=(SaslMechanism.SCRAM_SHA_512, SaslMechanism.SCRAM_SHA_256))
"""Login at a listener without SASL. No mechanism that sends a password."""


class GrpcLogin(Struct, frozen=True):
    service: LoginService
    gate: ClientGate | None
    """None where nobody has to log in."""


def grpc_login(security: ListenerSecurity, apis: BrokerApis, refusals: RefusalLog) -> GrpcLogin:
    """Return the login of the listener.

    Without SASL, whoever logs in may do the same as everybody: clients get their credentials, and try them, before the
    first node asks for them. There is one GRPC listener, so they could not do so at a second one.
    """
    sasl = security.sasl or _NOT_NEEDED
    authenticator = apis.logins.at(GRPC)
    rules = LoginRules(mechanisms=sasl.mechanisms, reauthentication_ms_max=sasl.reauthentication_ms_max)
    logins = Logins(
        begin=lambda: authenticator.begin(rules),
        answer=authenticator.answer,
        delay_failure=authenticator.delay_failure,
        monotonic_ms=authenticator.monotonic_ms,
    )
    tokens = SessionTokens(secrets.token_bytes(TOKEN_KEY_BYTES), authenticator.monotonic_ms, authenticator.objection)
    needed = (
        f"{LOGIN_NEEDED}: set security.protocol={security.protocol}, sasl.mechanism to {' or '.join(sasl.mechanisms)}, "
        "and sasl.jaas.config, or sasl.username and sasl.password"
    )
    gate = None if security.sasl is None else ClientGate(tokens, needed)
    return GrpcLogin(LoginService(logins, tokens, refusals), gate)
