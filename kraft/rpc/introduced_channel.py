"""Channel on which a node introduces itself with each call, after the other end proved that it knows the secret."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

import grpc
import grpc.aio
from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.rpc import introductions
from kraft.rpc.introductions import HEADER, SECRET_DIFFERS, SESSION_FORGOTTEN, ClusterSecrets, Introduction, Secret
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
            needs_session=self._introducer.needs_session,
            forget=lambda: self._introducer.forget(session),
        )


class ConnectionIntroduction(Struct, frozen=True):
    """Introduction that a node sends on a connection, and the proof that it expects in return."""

    header: str
    proof: bytes
    needs_session: Callable[[str], bool]
    """Returns whether this reason of a refusal means that another session is needed, which `forget` makes."""

    forget: Callback
    """Makes the next introduction open another session."""


class _Introducer:
    """Session with the process at the other end.

    It lasts until the secrets of this node change, so that one that was removed is used no more.
    """

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._stub = membership_pb2_grpc.MembershipStub(channel)
        self._secrets = cluster_secrets
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._session: bytes | None = None
        self._secret = cluster_secrets.primary
        self._generation = cluster_secrets.generation
        """Secret of the session, and the generation of the secrets when it was opened."""

        self._count = 0
        self._challenging = asyncio.Lock()

    async def show(self, method: str, deadline: float | None = None) -> tuple[bytes, tuple[tuple[str, str]]]:
        """Return the session and the metadata for one call.

        Raises AioRpcError if the other end does not answer in time, or knows none of the secrets.
        """
        async with self._challenging:
            session = self._session
            if session is None or self._generation != self._secrets.generation:
                timeout_s = CHALLENGE_DEADLINE_S if deadline is None else min(CHALLENGE_DEADLINE_S, time_left(deadline))
                session = await self._open_session(asyncio.get_running_loop().time() + timeout_s)
        self._count += 1
        introduction = Introduction(
            cluster_id=self._cluster_id, node_id=self._node_id, session=session, count=self._count
        )
        return session, ((HEADER, introduction.to_header(self._secret, method)),)

    async def _open_session(self, deadline: float) -> bytes:
        """Open a session with the first secret that the other end knows, too; its file may be older or newer."""
        generation, further = self._secrets.generation, list(self._secrets.known)
        while True:
            secret = further.pop(0)
            try:
                session = await self._challenge(secret, time_left(deadline))
            except grpc.aio.AioRpcError as error:
                if not further or error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                    raise
            else:
                self._session, self._secret, self._generation, self._count = session, secret, generation, 0
                return session

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
        return error.code() is grpc.StatusCode.UNAUTHENTICATED and self.needs_session(error.details() or "")

    def needs_session(self, reason: str) -> bool:
        """Return whether a call that was refused for this reason may be made again, in another session."""
        if reason == SECRET_DIFFERS:
            return any(secret != self._secret for secret in self._secrets.known)
        return reason == SESSION_FORGOTTEN

    def proof_of_connection(self, nonce: bytes, session: bytes) -> bytes:
        """Return the proof that the other end owes for a connection."""
        return introductions.prove_connection(self._secret, nonce, session)

    async def _challenge(self, secret: Secret, timeout_s: float) -> bytes:
        nonce = secrets.token_bytes(introductions.NONCE_BYTES)
        request = membership_pb2.ChallengeRequest(nonce=nonce, secret_id=secret.secret_id, cluster_id=self._cluster_id)
        try:
            answer = await self._stub.Challenge(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise failed_call(grpc.StatusCode.UNAUTHENTICATED, _NO_SECRET) from error
            raise
        if not introductions.is_proof(secret, nonce, answer.session, answer.proof):
            raise failed_call(grpc.StatusCode.UNAUTHENTICATED, "it does not know this cluster's secret")
        return answer.session
