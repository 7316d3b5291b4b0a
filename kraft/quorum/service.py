"""The gRPC service on the CONTROLLER listener for the streams that other voters dial."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf.message import DecodeError

from kraft.quorum.config import QuorumConfig
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.frames import from_frame
from kraft.quorum.handshake import (
    HANDSHAKE_DEADLINE_S,
    Greeting,
    Greetings,
    OnVoter,
    VoterMismatch,
    check_hello,
    greeting_in,
    hello,
)
from kraft.quorum.messages import BadMessage, Message
from kraft.quorum.pb import raft_pb2, raft_pb2_grpc
from kraft.quorum.peer_security import PeerSecurity

if TYPE_CHECKING:
    from kraft.quorum.pb.raft_pb2_grpc import _MaybeAsyncIterator, _ServicerContext

CLOSE_DEADLINE_S: Final = 1.0

ALIVE_S: Final = 1.0
"""A stream that carried a frame within this time is alive: voters send one at least every half a second."""

Receive = Callable[[int, list[Message]], None]


class RaftService(raft_pb2_grpc.RaftServicer):
    """Takes messages while open; before and after, answers UNAVAILABLE, and the dialing voter tries again."""

    def __init__(
        self, config: QuorumConfig, security: PeerSecurity, greetings: Greetings, counts: QuorumCounts
    ) -> None:
        self._config = config
        self._security = security
        self._greetings = greetings
        self._counts = counts
        self._receive: Receive | None = None
        self._on_hello: OnVoter | None = None
        self._streams: dict[int, _Stream] = {}

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add this service to `server`, made with `SERVER_OPTIONS` and not yet started."""
        raft_pb2_grpc.add_RaftServicer_to_server(self, server)

    def open(self, receive: Receive, on_hello: OnVoter) -> None:
        """Begin to take messages.

        `receive` gets the sender and the messages of each frame; it may raise BadMessage, which ends the stream.
        `on_hello` gets each voter whose stream begins. Both are called on the event loop.
        """
        self._receive = receive
        self._on_hello = on_hello

    async def close(self) -> None:
        """End all streams."""
        self._receive = None
        streams = [stream.task for stream in self._streams.values()]
        for stream in streams:
            stream.cancel()
        if streams:
            # gRPC swallows a cancellation that coincides with the end of the call. Such a stream ends with the server
            # and takes no messages until then.
            await asyncio.wait(streams, timeout=CLOSE_DEADLINE_S)

    async def Exchange(
        self, request_iterator: _MaybeAsyncIterator[raft_pb2.RaftFrame], context: _ServicerContext
    ) -> AsyncIterator[raft_pb2.RaftFrame]:
        if self._receive is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"node {self._config.node_id} is starting or stopping")
        try:
            sender, greeting = await self._receive_hello(request_iterator, context)
            stream = self._replace_stream(sender, greeting)
            yield hello(self._config, sender, self._greetings.ours())
            async for frame in request_iterator:
                stream.heard()
                self._receive_frame(sender, frame)
        except VoterMismatch as error:
            self._security.refused(context.peer(), str(error))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except BadMessage as error:
            self._security.refused(context.peer(), str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except DecodeError as error:
            problem = f"the bytes are not a frame: {error}"
            self._security.refused(context.peer(), problem)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        except asyncio.CancelledError:
            # This voter cancelled the stream, in `close` or `_replace_stream`; without an abort, gRPC would leave the
            # other side waiting.
            if context.cancelled():
                raise
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "the stream was replaced by a newer one, or the voter is stopping"
            )
        finally:
            self._forget_stream()

    async def _receive_hello(
        self, request_iterator: _MaybeAsyncIterator[raft_pb2.RaftFrame], context: _ServicerContext
    ) -> tuple[int, Greeting]:
        """Return node id and greeting of the dialing voter. Raises VoterMismatch if the caller is not a voter."""
        try:
            async with asyncio.timeout(HANDSHAKE_DEADLINE_S):
                first = await anext(request_iterator)
        except TimeoutError:
            raise VoterMismatch("no hello arrived") from None
        except StopAsyncIteration:
            raise VoterMismatch("the stream ended before its hello") from None
        sender = check_hello(self._config, first)
        if objection := self._security.objection(context, sender):
            raise VoterMismatch(objection)
        return sender, greeting_in(self._config, first.hello, self._greetings.ours())

    def _receive_frame(self, sender: int, frame: raft_pb2.RaftFrame) -> None:
        """Pass on the messages of a frame. Raises BadMessage."""
        if self._receive is not None:
            messages = from_frame(frame)
            self._counts.received(frame.ByteSize(), messages)
            self._receive(sender, messages)

    def _replace_stream(self, sender: int, greeting: Greeting) -> _Stream:
        """Make this the voter's only stream: messages on an earlier one are older than those on this one.

        Raises VoterMismatch if the earlier one belongs to another process that is alive.
        """
        task = asyncio.current_task()
        assert task is not None, "a gRPC handler runs in a task"
        earlier = self._streams.get(sender)
        if earlier is not None:
            if earlier.process_id != greeting.process_id and earlier.is_alive:
                raise VoterMismatch(
                    f"node.id {sender} is in use by another running process: give each node its own node.id"
                )
            earlier.task.cancel()
        stream = self._streams[sender] = _Stream(task, greeting.process_id, asyncio.get_running_loop().time())
        self._greetings.received(sender, greeting)
        if self._on_hello is not None:
            self._on_hello(sender)
        return stream

    def _forget_stream(self) -> None:
        ended = asyncio.current_task()
        self._streams = {sender: stream for sender, stream in self._streams.items() if stream.task is not ended}


@dataclass(slots=True)
class _Stream:
    """Stream of one voter's process."""

    task: asyncio.Task[object]
    process_id: bytes
    heard_at_s: float

    def heard(self) -> None:
        self.heard_at_s = asyncio.get_running_loop().time()

    @property
    def is_alive(self) -> bool:
        return asyncio.get_running_loop().time() - self.heard_at_s < ALIVE_S
