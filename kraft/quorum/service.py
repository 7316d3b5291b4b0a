"""The streams that other voters dial to this one, as a gRPC service on the CONTROLLER listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import grpc
import structlog

from kraft.quorum.config import QuorumConfig
from kraft.quorum.handshake import HANDSHAKE_DEADLINE_S, Mismatch, check_hello, hello
from kraft.quorum.messages import BadMessage, Message, from_frame
from kraft.quorum.pb import raft_pb2, raft_pb2_grpc

if TYPE_CHECKING:
    from kraft.quorum.pb.raft_pb2_grpc import _MaybeAsyncIterator, _ServicerContext

log = structlog.get_logger(__name__)

CLOSE_DEADLINE_S: Final = 1.0

Receive = Callable[[int, list[Message]], None]


class RaftService(raft_pb2_grpc.RaftServicer):
    """Takes messages while open; answers UNAVAILABLE before and after, and the dialing voter tries again."""

    def __init__(self, config: QuorumConfig) -> None:
        self._config = config
        self._receive: Receive | None = None
        self._on_greeted: Callable[[int], None] | None = None
        self._streams: dict[int, asyncio.Task[object]] = {}

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve on `server`, which is to be made with `SERVER_OPTIONS`. To be called before the server starts."""
        raft_pb2_grpc.add_RaftServicer_to_server(self, server)

    def open(self, receive: Receive, on_greeted: Callable[[int], None]) -> None:
        """`receive` takes the messages of one frame with their sender, `on_greeted` a voter whose stream begins.

        Both are called on the event loop.
        """
        self._receive = receive
        self._on_greeted = on_greeted

    async def close(self) -> None:
        """Ends all streams."""
        self._receive = None
        streams = list(self._streams.values())
        for stream in streams:
            stream.cancel()
        if streams:
            # gRPC swallows a cancellation that meets the end of the call. Such a stream ends with the server at last,
            # and takes no more messages meanwhile.
            await asyncio.wait(streams, timeout=CLOSE_DEADLINE_S)

    async def Exchange(
        self, request_iterator: _MaybeAsyncIterator[raft_pb2.RaftFrame], context: _ServicerContext
    ) -> AsyncIterator[raft_pb2.RaftFrame]:
        if self._receive is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"node {self._config.node_id} is starting or stopping")
        try:
            sender = await self._greeted_by(request_iterator)
            self._take_over(sender)
            yield hello(self._config, sender)
            async for frame in request_iterator:
                self._hand_on(sender, frame)
        except Mismatch as error:
            log.warning("raft stream refused", node=self._config.node_id, problem=str(error))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except BadMessage as error:
            log.warning("raft stream refused", node=self._config.node_id, problem=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except asyncio.CancelledError:
            # By ourselves, see below; gRPC alone would leave the other side waiting.
            if context.cancelled():
                raise
            await context.abort(grpc.StatusCode.UNAVAILABLE, "this stream has been replaced, or the voter stops")
        finally:
            self._forget_stream()

    async def _greeted_by(self, request_iterator: _MaybeAsyncIterator[raft_pb2.RaftFrame]) -> int:
        """Node id of the dialing voter. Raises Mismatch for everybody else."""
        try:
            async with asyncio.timeout(HANDSHAKE_DEADLINE_S):
                first = await anext(request_iterator)
        except TimeoutError:
            raise Mismatch("no hello came") from None
        except StopAsyncIteration:
            raise Mismatch("the stream ended before its hello") from None
        return check_hello(self._config, first)

    def _hand_on(self, sender: int, frame: raft_pb2.RaftFrame) -> None:
        """Raises BadMessage."""
        if self._receive is not None:
            self._receive(sender, from_frame(frame))

    def _take_over(self, sender: int) -> None:
        """A voter has one stream: what is still under way on its earlier one is older than what comes now."""
        earlier = self._streams.get(sender)
        if earlier is not None:
            earlier.cancel()
        stream = asyncio.current_task()
        assert stream is not None, "a gRPC handler runs in a task"
        self._streams[sender] = stream
        if self._on_greeted is not None:
            self._on_greeted(sender)

    def _forget_stream(self) -> None:
        ended = asyncio.current_task()
        self._streams = {sender: stream for sender, stream in self._streams.items() if stream is not ended}
