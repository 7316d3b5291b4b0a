"""A node in memory whose clients have to log in, and connections of such clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.password import Password
from kraft.model.principal import Principal
from kraft.model.request_context import RequestContext
from kraft.rpc.calls import FETCH, METADATA
from kraft.rpc.client_gate import ClientGate
from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.introductions import ClusterSecrets
from kraft.rpc.login_channel import LoginChannel
from kraft.rpc.login_service import Logins, LoginService
from kraft.rpc.peers import PeerConnections
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import Service
from kraft.rpc.session_tokens import LOGIN_NEEDED, SessionTokens
from kraft.sasl.client import PasswordLogin
from kraft.sasl.exchange import Challenge, CheckPassword
from kraft.sasl.login import LoggedIn, LoginFailed, LoginRules, Moment, SaslLogin
from kraft.sasl.mechanisms import SaslMechanism
from kraft.sasl.scram import ScramCredential, ScramMechanism, credential_of, fake_credential, salted_password
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.rpc_servers import listening

SECRETS = ClusterSecrets([b"the secret of the cluster"])
PASSWORD = "correct horse"
SALT = b"0123456789abcdef"
NEEDED = f"{LOGIN_NEEDED}: set security.protocol=SASL_PLAINTEXT"


def _credential(mechanism: ScramMechanism) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, PASSWORD, SALT, 4_096), SALT, 4_096)


class ClosedNode:
    """One whose clients have to log in."""

    def __init__(self, *, reauthentication_ms_max: int = 0) -> None:
        self.users = {"alice", "bob"}
        self.callers: list[Principal] = []
        self.logins = 0
        self.failure: LoginFailed | None = None
        """What every login gets, if it is set."""
        self.now_ms = 0
        self.port = 0
        self.new_records = asyncio.Event()
        self._rules = LoginRules(
            mechanisms=(SaslMechanism.SCRAM_SHA_256, SaslMechanism.PLAIN),
            reauthentication_ms_max=reauthentication_ms_max,
        )
        self._forget_sessions()

    def _forget_sessions(self) -> None:
        def objection(session: Any) -> str | None:
            return None if session.principal.name in self.users else "deleted"

        key = int(time.monotonic_ns()).to_bytes(32, "big")
        self.tokens = SessionTokens(key, lambda: self.now_ms, objection)
        self.gate = ClientGate(self.tokens, NEEDED)

    def _begin(self) -> SaslLogin:
        self.logins += 1
        return SaslLogin(self._rules, lambda: self, lambda: "nonce-of-the-server")

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        return _credential(mechanism) if user in self.users else fake_credential(mechanism, b"key", user)

    def creation(self, user: str) -> int | None:
        return 0 if user in self.users else None

    async def _answer(self, login: SaslLogin, message: bytes, _: str) -> Challenge | LoggedIn:
        if self.failure is not None:
            raise self.failure
        now = Moment(wall_ms=self.now_ms, monotonic_ms=self.now_ms)
        step = login.received(message, now)
        if isinstance(step, CheckPassword):
            return login.password_checked(step.user in self.users and step.password == PASSWORD, now)
        assert isinstance(step, (Challenge, LoggedIn))
        return step

    async def metadata(self, _: MetadataRequest, context: RequestContext) -> MetadataResponse:
        self.callers.append(context.principal)
        assert context.listener == "GRPC"
        return MetadataResponse(cluster_id="", controller_id=1, brokers=(), topics=())

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        if request.max_wait_ms:
            await self.new_records.wait()
        return FetchResponse(request_id=request.request_id, partitions=[])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self, *, is_closed: bool = True, answers_logins: bool = True) -> AsyncIterator[None]:
        """Serve, at the same address as before; sessions of before are forgotten."""
        self._forget_sessions()
        refusals = RefusalLog(lambda: 0)
        guard = self.gatekeeper = Gatekeeper(
            cluster_id="cluster",
            cluster_secrets=SECRETS,
            is_guarded=lambda _: False,
            message_bytes_max=None,
            refusals=refusals,
            listener="GRPC",
            clients=self.gate if is_closed else None,
            login_bytes_max=1_000 if is_closed else None,
        )
        server = grpc.aio.server(interceptors=[guard], options=[("grpc.so_reuseport", 0)])
        logins = Logins(
            begin=self._begin, answer=self._answer, delay_failure=_at_once, monotonic_ms=lambda: self.now_ms
        )
        services: list[Any] = [
            guard,
            Service(METADATA.served_in_context_by(self.metadata, version=13), FETCH.served_by(self.fetch)),
        ]
        if answers_logins:
            services.append(LoginService(logins, self.tokens, refusals))
        async with listening(server, services, self.address) as self.port:
            yield


async def _at_once(*_: object) -> None:
    """Nobody is delayed."""


def dialling_as(
    user: str = "alice", password: str = PASSWORD, mechanism: SaslMechanism = SaslMechanism.SCRAM_SHA_256
) -> PeerConnections:
    async def login() -> PasswordLogin:
        return PasswordLogin(mechanism=mechanism, user=user, password=Password(password))

    def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        return LoginChannel(grpc.aio.insecure_channel(address, options=options), login)

    return PeerConnections(dial)
