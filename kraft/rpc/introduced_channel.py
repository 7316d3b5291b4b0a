"""Channel on which a node introduces itself with each call, after the other end proved that it knows the secret."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import grpc
import grpc.aio
from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.rpc import introductions
from kraft.rpc.introductions import HEADER, SESSION_FORGOTTEN, ClusterSecrets, Introduction
from kraft.rpc.pb import membership_pb2, membership_pb2_grpc
from kraft.rpc.peers import Unreachable
from kraft.rpc.session_channel import SessionChannel, failed_call, time_left

CHALLENGE_DEADLINE_S: Final = 5.0

_NO_SECRET: Final = "it has no cluster secret: set cluster.secret.file on every node"


class IntroducedChannel(SessionChannel):
    """A gRPC channel that adds an introduction to the metadata of each call."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._introducer = _Introducer(channel, cluster_secrets, cluster_id, node_id)
        super().__init__(channel, self._introducer)

    async def introduce(self, method: str, nonce: bytes) -> ConnectionIntroduction:
        """Return an introduction for a connection to the same process that is not gRPC's. Raises Unreachable."""
        try:
            session, metadata = await self._introducer.show(method)
        except grpc.aio.AioRpcError as error:
            raise Unreachable("the node", error.details() or error.code().name) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise Unreachable("the node", "the channel is closed") from error
        return ConnectionIntroduction(
            header=metadata[0][1],
            proof=self._introducer.proof_of_connection(nonce, session),
            forget=lambda: self._introducer.forget(session),
        )


class ConnectionIntroduction(Struct, frozen=True):
    """Introduction that a node sends on a connection, and the proof that it expects in return."""

    header: str
    proof: bytes
    forget: Callback
    """To be called when the other end does not know the session; the next introduction opens another one."""


class _Introducer:
    """Session with the process at the other end."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._stub = membership_pb2_grpc.MembershipStub(channel)
        self._secret = cluster_secrets.primary
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._session: bytes | None = None
        self._count = 0
        self._challenging = asyncio.Lock()

    async def show(self, method: str, deadline: float | None = None) -> tuple[bytes, tuple[tuple[str, str]]]:
        """Return the session and the metadata for one call.

        Raises AioRpcError if the other end does not answer in time, or does not know the secret.
        """
        async with self._challenging:
            if self._session is None:
                timeout_s = CHALLENGE_DEADLINE_S if deadline is None else min(CHALLENGE_DEADLINE_S, time_left(deadline))
                self._session, self._count = await self._challenge(timeout_s), 0
        self._count += 1
        introduction = Introduction(
            cluster_id=self._cluster_id, node_id=self._node_id, session=self._session, count=self._count
        )
        return self._session, ((HEADER, introduction.to_header(self._secret, method)),)

    def refused(self, session: bytes, error: grpc.aio.AioRpcError) -> None:
        """Take the error of a call of this session: if it refused the introduction, the next call opens a session."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self.forget(session)

    def forget(self, session: bytes) -> None:
        """Open a session before the next call, if this is the current one."""
        if self._session == session:
            self._session = None

    def is_forgotten(self, error: grpc.aio.AioRpcError) -> bool:
        """Return whether the other end only needs a new session."""
        return error.code() is grpc.StatusCode.UNAUTHENTICATED and error.details() == SESSION_FORGOTTEN

    def proof_of_connection(self, nonce: bytes, session: bytes) -> bytes:
        """Return the proof that the other end owes for a connection."""
        return introductions.prove_connection(self._secret, nonce, session)

    async def _challenge(self, timeout_s: float) -> bytes:
        nonce = secrets.token_bytes(introductions.NONCE_BYTES)
        request = membership_pb2.ChallengeRequest(
            nonce=nonce, secret_id=self._secret.secret_id, cluster_id=self._cluster_id
        )
        try:
            answer = await self._stub.Challenge(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise failed_call(grpc.StatusCode.UNAUTHENTICATED, _NO_SECRET) from error
            raise
        if not introductions.is_proof(self._secret, nonce, answer.session, answer.proof):
            raise failed_call(grpc.StatusCode.UNAUTHENTICATED, "it does not know this cluster's secret")
        return answer.session
