"""How the clients of a node's GRPC listener log in."""

from __future__ import annotations

import secrets

from msgspec import Struct

from kraft.rpc.client_gate import ClientGate
from kraft.rpc.login_service import Logins, LoginService
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.session_tokens import LOGIN_NEEDED, TOKEN_KEY_BYTES, SessionTokens
from kraft.sasl.login import LoginRules
from kraft.server.broker.apis import BrokerApis
from kraft.server.config.listener_security import ListenerSecurity
from kraft.server.config.values import GRPC


class GrpcLogin(Struct, frozen=True):
    service: LoginService
    gate: ClientGate


def grpc_login(security: ListenerSecurity, apis: BrokerApis, refusals: RefusalLog) -> GrpcLogin | None:
    """Return the login of the listener; None if it has no SASL."""
    sasl = security.sasl
    if sasl is None:
        return None
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
    return GrpcLogin(LoginService(logins, tokens, refusals), ClientGate(tokens, needed))
