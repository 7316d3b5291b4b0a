"""The stream that this voter dials to one other voter: opened, kept open, and opened again when it breaks.

Messages are sent in order or lost. Raft tolerates lost messages but must not wait for a dead voter, so messages that
are queued when a stream breaks are dropped. A sender of many messages checks `room_bytes` first: from the first
message that exceeds the queue, messages are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import grpc
import structlog

from kraft.quorum.config import FRAME_BYTES_MAX, QuorumConfig
from kraft.quorum.connection_errors import short_reason
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.frames import to_frames
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
from kraft.quorum.messages import Message, size_bytes
from kraft.quorum.pb import raft_pb2
from kraft.quorum.pb.raft_pb2_grpc import RaftStub
from kraft.quorum.peer_security import PeerSecurity

log = structlog.get_logger(__name__)

RETRY_DELAY_S_MIN = 0.1
RETRY_DELAY_S_MAX = 1.0

WINDOW_BYTES = 8 * 1024 * 1024
"""A link with this many bytes waiting to be written has no room; with half of them it has room again."""

QUEUED_BYTES_MAX = 2 * WINDOW_BYTES
"""A sender that respects the window never reaches this: an append is up to 1.5 MiB, other messages are small."""

_FRAME_BYTES_TARGET = 1024 * 1024
"""A frame ends at the message that reaches this, so that a long queue is encoded piece by piece."""

_REFUSALS = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAUTHENTICATED)
"""Status codes with which the other side refuses this voter: to try again does not help alone."""

_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
    ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
)

CANCEL_AGAIN_AFTER_S = 0.1

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (("grpc.max_receive_message_length", 2 * FRAME_BYTES_MAX),)
"""Options that a CONTROLLER listener's `grpc.aio` server needs for the quorum's streams. The listener's guard refuses
frames above FRAME_BYTES_MAX and logs the peer; gRPC itself refuses frames above twice that."""

SILENT_CHECKS_MAX = 4
"""A voter that sends nothing during this many checks in a row, spread over the request timeout, counts as dead.
Checks rather than seconds, because after a pause of this process every voter seems to have been silent. gRPC's
keepalive does not notice a frozen process."""

HANDSHAKE_FAILURES_BEFORE_ALARM = 2
"""A single failure may come from a voter that was stopped during the handshake."""

_Call = grpc.aio.StreamStreamCall[raft_pb2.RaftFrame, raft_pb2.RaftFrame]


class PeerSilent(Exception):
    """The other voter is dead, or the network loses what it sends."""


class PeerLink:
    """One dialed stream.

    `on_up` and `on_down` are called in turn, on the event loop; between them `on_room`, when a full link has room
    again.
    """

    def __init__(
        self,
        config: QuorumConfig,
        peer_id: int,
        on_up: OnVoter,
        on_down: OnVoter,
        on_room: OnVoter,
        security: PeerSecurity,
        greetings: Greetings,
        counts: QuorumCounts,
    ) -> None:
        self.peer_id = peer_id
        self._config = config
        self._security = security
        self._greetings = greetings
        self._counts = counts
        self._on_up = on_up
        self._on_down = on_down
        self._on_room = on_room
        self._queue: deque[Message] = deque()
        self._unsent_bytes = 0
        self._is_full = False
        self._filled = asyncio.Event()
        self._retry_now = asyncio.Event()
        self._has_written = False
        self._silent_checks = 0
        self._is_up = False
        self._last_problem = ""
        self._problem_count = 0
        self.refusal = ""
        """Why the two voters did not agree at the last attempt that has ended; empty if it ended for another reason."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_connected(), name=f"raft link to node {self.peer_id}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():
            # gRPC swallows a cancellation that coincides with the end of a call, so one may not be enough.
            task.cancel()
            await asyncio.wait([task], timeout=CANCEL_AGAIN_AFTER_S)

    def send(self, messages: list[Message]) -> None:
        """Queue messages for the stream; drop them while there is none, and those that exceed the queue."""
        if not self._is_up:
            return
        for message in messages:
            if self._unsent_bytes > QUEUED_BYTES_MAX:
                break
            self._queue.append(message)
            self._unsent_bytes += size_bytes(message)
        self._is_full |= self._unsent_bytes >= WINDOW_BYTES
        self._filled.set()

    @property
    def room_bytes(self) -> int:
        """Bytes that may be sent without a wait; 0 or below for none. `on_room` is then called when there is room."""
        return WINDOW_BYTES - self._unsent_bytes

    def heard(self) -> None:
        """Note a message from the voter, on the stream that it dialed itself."""
        self._silent_checks = 0

    def hello_received(self) -> None:
        """Note that the voter opened a stream of its own, so the next attempt to dial it need not wait."""
        self.heard()
        self._retry_now.set()

    async def _keep_connected(self) -> None:
        delay_s = RETRY_DELAY_S_MIN
        while True:
            problem = await self._connect_until_problem()
            self._log_problem(problem)
            delay_s = RETRY_DELAY_S_MIN if self._is_up else min(delay_s * 2, RETRY_DELAY_S_MAX)
            self._mark_down()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._retry_now.wait()

    async def _connect_until_problem(self) -> str:
        """Open a new channel for each attempt: an old one waits for a backoff of its own before it dials again."""
        self._retry_now.clear()
        address = self._config.voters[self.peer_id]
        async with self._security.dial(str(address), _CHANNEL_OPTIONS) as channel:
            return await self._converse_until_problem(RaftStub(channel).Exchange())

    async def _converse_until_problem(self, call: _Call) -> str:
        """Run the stream until it ends; return the reason in one line."""
        refusal = ""
        try:
            await self._converse(call)
        except VoterMismatch as mismatch:
            refusal = str(mismatch)
            return refusal
        except grpc.aio.AioRpcError as error:
            problem: str = error.details() or error.code().name
            if error.code() in _REFUSALS:
                refusal = problem
            return problem
        except TimeoutError:
            return "the other side did not answer the hello"
        except asyncio.CancelledError:
            # gRPC raises this also when the other side cancels the stream; only our own cancellation is raised again.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self._mark_down()
                raise
        except Exception as error:  # noqa: BLE001  The quorum works without a link, and the link is tried again.
            return str(error) or type(error).__name__
        finally:
            self.refusal = refusal
        return "the other side closed the stream"

    async def _converse(self, call: _Call) -> None:
        """Shake hands and write until the stream ends. Raises VoterMismatch."""
        try:
            async with asyncio.timeout(HANDSHAKE_DEADLINE_S):
                await call.write(hello(self._config, self.peer_id, self._greetings.ours()))
                answer = await call.read()
            if not isinstance(answer, raft_pb2.RaftFrame):
                return
            if check_hello(self._config, answer) != self.peer_id:
                raise VoterMismatch(f"node {answer.hello.sender_id} answered instead of node {self.peer_id}")
            self._mark_up(greeting_in(self._config, answer.hello, self._greetings.ours()))
            await self._write_until_end(call)
        finally:
            call.cancel()

    async def _write_until_end(self, call: _Call) -> None:
        """Write until the stream ends: the other side sends nothing more, so a read returns or raises then."""
        tasks = [asyncio.ensure_future(part) for part in (call.read(), self._write(call), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, call: _Call) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            if not self._queue:
                await self._write_one(call, [])
            while self._queue:
                await self._write_one(call, self._next_messages())

    def _next_messages(self) -> list[Message]:
        messages: list[Message] = []
        frame_bytes = 0
        while self._queue and frame_bytes < _FRAME_BYTES_TARGET:
            messages.append(self._queue.popleft())
            frame_bytes += size_bytes(messages[-1])
        return messages

    async def _write_one(self, call: _Call, messages: list[Message]) -> None:
        """Write the messages; waits for the other side without a limit."""
        frames = to_frames(messages)
        self._counts.sent(sum(frame.ByteSize() for frame in frames), messages)
        for frame in frames:
            await call.write(frame)
        self._has_written = True
        self._unsent_bytes -= sum(map(size_bytes, messages))
        if self._is_full and self._unsent_bytes <= WINDOW_BYTES // 2:
            self._is_full = False
            self._on_room(self.peer_id)

    async def _watch(self) -> None:
        """Send an empty frame when nothing else is written, and check for messages. Raises PeerSilent."""
        request_timeout_s = self._config.request_timeout_ms / 1000
        while self._silent_checks < SILENT_CHECKS_MAX:
            await asyncio.sleep(request_timeout_s / SILENT_CHECKS_MAX)
            self._silent_checks += 1
            if not self._has_written:
                self._filled.set()
            self._has_written = False
        raise PeerSilent(f"no message for {request_timeout_s:g} s")

    def _mark_up(self, greeting: Greeting) -> None:
        self._is_up = True
        self._last_problem = ""
        self._silent_checks = 0
        self._empty()
        log.info("raft connection opened", node=self._config.node_id, peer=self.peer_id)
        self._greetings.received(self.peer_id, greeting)
        self._on_up(self.peer_id)

    def _empty(self) -> None:
        self._queue.clear()
        self._unsent_bytes = 0
        self._is_full = False

    def _mark_down(self) -> None:
        self._empty()
        if self._is_up:
            self._is_up = False
            self._on_down(self.peer_id)

    def _log_problem(self, problem: str) -> None:
        """Log a problem once, not at every attempt: at INFO if the voter is not there yet, at WARN otherwise."""
        handshake_failure = self._security.handshake_failure(problem)
        problem = handshake_failure or short_reason(problem)
        self._problem_count = self._problem_count + 1 if problem == self._last_problem else 1
        self._last_problem = problem
        if self._problem_count != (HANDSHAKE_FAILURES_BEFORE_ALARM if handshake_failure else 1):
            return
        address = str(self._config.voters[self.peer_id])
        fields = {"node": self._config.node_id, "peer": self.peer_id, "address": address}
        if handshake_failure:
            log.warning("raft handshake failed", **fields, reason=problem)
        elif self._is_up:
            log.warning("raft connection lost", **fields, reason=problem)
        elif self.refusal:
            log.warning("raft connection refused", **fields, reason=problem)
        else:
            log.info("raft connection failed", **fields, reason=problem)
