"""One client's connection: begins requests as they arrive and writes responses in the same order.

A produce request is begun while earlier ones still wait for their replicas, but not while one waits to be appended.
Every other request waits until all before it are answered, so a connection has at most one large response in memory.
The connection reads only what it can begin, and begins nothing for a client that does not read its responses: TCP
makes that client wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from time import perf_counter
from typing import Final, Protocol

from msgspec import Struct

from kraft.model.addresses import address_of, peer_of
from kraft.model.callbacks import Callback
from kraft.model.clients import TEXT_CHARACTERS_MAX, ClientConnection
from kraft.model.refused_for import Refused, RefusedFor
from kraft.rpc.frame_connection import TakeOver
from kraft.server.kafka_listener.answering import CloseConnection, HasToWait, MakeRequests, Requests, TakenOver
from kraft.server.kafka_listener.frame_buffer import BadFrame
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer, ReceiveLimits
from kraft.server.kafka_listener.replies import Reply
from kraft.server.kafka_listener.request_stages import RequestStages
from kraft.server.kafka_listener.request_times import RequestTimes, TimedRequest
from kraft.server.kafka_listener.response_writer import ResponseBytes, ResponseWriter
from kraft.server.loop.closed_transports import free_closed

PIPELINED_MAX: Final = 64
"""Maximum number of produce requests of one connection that wait for their replicas at the same time."""

TAKEN_AT_ONCE_MAX: Final = 64
"""Requests begun for one connection before others have their turn: one read can hold many small requests."""

READ_BYTES_MIN: Final = 64 * 1024
"""A client that reads less than this between two checks counts as one that reads nothing."""


class ListenerSide(Protocol):
    """The calls that a connection makes to its listener."""

    @property
    def times(self) -> RequestTimes:
        """Times of the requests of all connections."""

    def opened(self, connection: KafkaConnection) -> str | None:
        """Return why there are too many connections for this one, which must close; None if it may stay."""

    def logged_in(self, connection: KafkaConnection) -> str | None:
        """Note that the client of the connection is no stranger any more. Return the same as `opened`."""

    def closed(self, connection: KafkaConnection, refused: Refused | None) -> None:
        """Note that the connection has ended; `refused` is None after an ordinary end."""

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        """Note that a request on the connection failed with an internal error."""

    def answered_slowly(self, connection: KafkaConnection, request: TimedRequest) -> None:
        """Note that a request took as long as `slow_s_min`, part of which it may have waited on purpose."""

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        """Note that the client has not read `size_bytes` of its responses.

        Return True if memory is short, and connections of clients that read nothing must close.
        """


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    request_s_max: float = 30.0
    """A request that takes longer to arrive closes the connection."""

    unread_s_max: float = 60.0
    """A client may leave its responses unread for this long."""

    unread_s_max_when_crowded: float = 1.0
    """The same limit for a client that reads nothing at all while memory is short."""

    idle_s_max: float
    """`connections.max.idle.ms`"""

    slow_s_min: float = inf
    """`slow.request.log.ms`: a request that takes as long is slow."""

    login_s_max: float = 10.0
    """A client has to log in within this time."""


class KafkaConnection(asyncio.BufferedProtocol):
    def __init__(
        self,
        listener: ListenerSide,
        make_buffer: Callable[[Callback], ReceiveBuffer],
        make_requests: MakeRequests,
        limits: ConnectionLimits,
    ) -> None:
        """`make_buffer` takes the function to call when memory is free again."""
        self._listener = listener
        self._stages = RequestStages(listener.times, limits.slow_s_min)
        self._make_requests = make_requests
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._opened_s = self._loop.time()
        self.is_stranger = False
        """The client has not logged in."""
        self._buffer = make_buffer(self._take_frames_soon)
        self._replies: deque[Reply] = deque()
        """Replies that wait, in the order of their requests."""
        self._ready: ResponseBytes = []
        """Bytes of the responses before them, to be written together."""
        self._pipelining = False
        """More requests of the same kind may be begun while the earlier ones wait for their responses."""
        self._is_draining = False
        self._is_over = False
        self._is_reading = True
        self._refused: Refused | None = None
        self._used_at_s = self._loop.time()
        self._partial_since_s: float | None = None
        self._unread_since_s: float | None = None
        self._unread_bytes = 0
        self._is_full = False
        """The transport takes no more until the client reads."""
        self._closes_when_written = False
        self._transport: asyncio.Transport
        self._writer: ResponseWriter
        self._requests: Requests
        self.peer = self.address = self.listener_name = ""
        self._begun_count = self.received_bytes = 0

    # --- called by asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self._transport = transport
        self._writer = ResponseWriter(transport)
        name = transport.get_extra_info("peername")
        self.address, self.peer = address_of(name), peer_of(name)
        self._requests = self._make_requests(self.peer)
        self._requests.when_ready(self._take_frames_soon)
        self.is_stranger = not self._requests.is_trusted
        reason = self._listener.opened(self)
        if reason is not None:
            self._end(reason, RefusedFor.LIMIT)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.room()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_over:
            self._used_at_s = self._loop.time()
            self.received_bytes += nbytes
            self._stages.arrived_s = perf_counter()
            if self._buffer.received(nbytes):
                self._take_frames()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_full = True
        self._note_unread()

    def resume_writing(self) -> None:
        self._is_full = False
        self._write_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._sent()
        self._writer.drop()
        for reply in self._replies:
            if reply.task is not None:
                # After its first step, in which it begins to await: Python warns of what nobody has awaited.
                self._loop.call_soon(reply.task.cancel)
        self._replies.clear()
        self._buffer.finished()
        self._buffer.close()
        self._listener.unread(self, 0)
        self._listener.closed(self, self._refused)
        # Without it the connection and its transport are freed at once, not by the garbage collector.
        self._requests.close()
        free_closed(self._transport)

    # --- called by the listener ----------------------------------------------------------------------------------

    def check(self) -> bool:
        """Close the connection of a client that is too slow or idle for too long. Return whether it is over."""
        now_s, limits = self._loop.time(), self._limits
        is_held = self._buffer.is_waiting or self._requests.is_muted
        if is_held:
            # The request waits for memory or a quota here, not for the client.
            self._partial_since_s = now_s
        if _is_longer_than(self._unread_since_s, limits.unread_s_max, now_s):
            self.cut_off(f"client did not read its responses for {limits.unread_s_max:g} s", RefusedFor.SLOW)
        elif self._blocks_others(now_s):
            self.cut_off("client reads nothing while unread responses fill their memory budget", RefusedFor.SLOW)
        elif _is_longer_than(self._partial_since_s, limits.request_s_max, now_s):
            self._end(f"request had not arrived completely after {limits.request_s_max:g} s", RefusedFor.SLOW)
        elif self._partial_since_s is not None and not is_held and self._buffer.is_slow():
            self._end("request arrived too slowly while others waited for the memory that it takes", RefusedFor.SLOW)
        elif not self._replies and _is_longer_than(self._used_at_s, limits.idle_s_max, now_s):
            self._end(None)
        elif not self._is_over:
            self._check_login(now_s)
        return self._is_over

    def _check_login(self, now_s: float) -> None:
        if self.is_stranger and now_s - self._opened_s > self._limits.login_s_max:
            self._end(f"client had not logged in after {self._limits.login_s_max:g} s", RefusedFor.LOGIN_TIMEOUT)
        elif (objection := self._requests.objection()) is not None:
            self._end(objection, RefusedFor.LOGIN)

    def _blocks_others(self, now_s: float) -> bool:
        if self._unread_since_s is None:
            return False
        before, self._unread_bytes = self._unread_bytes, self._writer.unread_bytes
        is_crowded = self._listener.unread(self, self._unread_bytes)
        is_read = before - self._unread_bytes >= READ_BYTES_MIN
        return (
            is_crowded
            and not is_read
            and _is_longer_than(self._unread_since_s, self._limits.unread_s_max_when_crowded, now_s)
        )

    def described(self) -> ClientConnection:
        """Return who the client is, and what it has asked and got."""
        client, writer = self._requests.client(), self._writer
        return ClientConnection(
            listener=self.listener_name,
            address=self.peer,
            principal=str(client.principal)[:TEXT_CHARACTERS_MAX],
            client_id=client.client_id,
            software_name=client.software_name,
            software_version=client.software_version,
            age_ms=round((self._loop.time() - self._opened_s) * 1_000),
            requests=self._begun_count,
            received_bytes=self.received_bytes,
            sent_bytes=max(0, writer.written_bytes - writer.unread_bytes),
        )

    def receive_within(self, limits: ReceiveLimits) -> None:
        """Receive within other limits from now on."""
        self._buffer.change_limits(limits)

    def cut_off(self, reason: str, refused_for: RefusedFor) -> None:
        """Close at once, for this reason unless it closes already."""
        self._refused = self._refused or Refused(reason, refused_for)
        self.abort()

    def drain(self) -> None:
        """Begin nothing more, and close the connection when everything that was begun is answered."""
        self._is_draining = True
        self._take_frames()

    def abort(self) -> None:
        """Close at once and drop what was not sent."""
        self._is_over = True
        self._transport.abort()

    # --- requests and responses ----------------------------------------------------------------------------------

    def _take_frames(self) -> None:
        """Begin what may be begun, and read on if there is room for more."""
        if self._is_over:
            return
        try:
            if self._replies:
                self._write_responses()
            if self.is_stranger and self._requests.is_trusted:
                self._welcome()
            if not self._is_over:
                self._begin_frames()
        except BadFrame as error:
            self._end(str(error))
        except CloseConnection as error:
            self._ready += error.response
            self._end(str(error), error.refused_for)
        except TakenOver as taken_over:
            self._hand_over(taken_over.serve)
        except Exception as error:  # noqa: BLE001  An error in one request must not affect other connections.
            self._fail(error)

    def _begin_frames(self) -> None:
        buffer, frames = self._buffer, self._buffer.frames
        taken = 0
        is_last = False
        while taken < TAKEN_AT_ONCE_MAX and self._may_begin():
            frame = buffer.next_frame()
            if frame is None:
                is_last = True
                break
            try:
                self._begin(frame)
            except HasToWait:
                frames.put_back(frame)
                is_last = True
                break
            taken += 1
            if frames.is_empty:
                is_last = True
                break
        self._write_responses()
        if taken and not is_last and self._may_begin() and frames.peek() is not None:
            # The next frame waited for a response that was just written, or for other connections to have their
            # turn. No later event would begin it.
            self._take_frames_soon()
        if buffer.has_turn and not self._replies:
            buffer.finished()
        buffer.keep_rest()
        if frames.is_empty:
            self._partial_since_s = None
        else:
            self._note_partial(frame_taken=taken > 0)
        self._read_on()

    def _welcome(self) -> None:
        """Go on with a client that has just logged in, unless there are too many."""
        self.is_stranger = False
        reason = self._listener.logged_in(self)
        if reason is not None:
            self._end(reason, RefusedFor.LIMIT)

    def _take_frames_soon(self) -> None:
        """Call `_take_frames` later: others have their turn first, and the caller may be releasing memory."""
        self._loop.call_soon(self._take_frames)

    def _may_begin(self) -> bool:
        if self._is_over or self._is_draining or self._unread_since_s is not None:
            return False
        if not self._replies and not self._requests.is_muted:
            return True
        # What a muted client may begin has arrived: it counts for the quota, and takes no memory that others need.
        if self._replies and (not self._pipelining or len(self._replies) >= PIPELINED_MAX):
            return False
        frame = self._buffer.frames.peek()
        return frame is not None and self._requests.is_pipelined(frame)

    def _begin(self, frame: memoryview) -> None:
        self._pipelining = self._requests.is_pipelined(frame)
        key, began_s = frame[1], perf_counter()
        begun = self._requests.begin(frame)
        request = self._stages.begun(key, len(frame), began_s, begun)
        self._begun_count += 1
        if not isinstance(begun, list):
            reply = Reply(request)
            reply.task = asyncio.ensure_future(self._answer_when_ready(reply, begun))
            self._replies.append(reply)
        elif self._replies:
            self._replies.append(Reply(request, begun))
        else:
            self._ready += begun
            self._stages.is_sent_next(request)
        if not self._pipelining:
            self._write_responses()

    def _sent(self) -> None:
        for slow in self._stages.sent():
            # Logins that fail are answered late on purpose, and raw ones are no requests of an API.
            if not self.is_stranger:
                slow.throttle_ms = self._requests.muted_ms
                self._listener.answered_slowly(self, slow)

    async def _answer_when_ready(self, reply: Reply, begun: Awaitable[ResponseBytes]) -> None:
        """Wait for the response and write it in the same turn of the loop in which it is ready."""
        try:
            reply.response = await begun
        except asyncio.CancelledError:
            if not self._is_over:
                # Cancelled from outside, not by this connection. Without its response no later one can be sent either.
                self._end("request cancelled before it was answered", RefusedFor.INTERNAL)
            raise
        except Exception as error:  # noqa: BLE001  An error in one request must not affect other connections.
            if self._is_over:
                return
            if isinstance(error, CloseConnection):
                reply.response = error.response
                self._end(str(error), error.refused_for)
            else:
                self._fail(error)
        else:
            self._used_at_s = self._loop.time()
            self._stages.waited(reply.request, reply.response)
            self._take_frames()

    def _write_responses(self) -> None:
        replies = self._replies
        while replies and (response := replies[0].response) is not None:
            self._stages.is_sent_next(replies.popleft().request)
            self._ready += response
        if self._ready:
            pieces, self._ready = self._ready, []
            had_parts = self._writer.has_parts
            self._writer.write(pieces)
            if self._writer.has_parts and not had_parts and not self._is_full:
                self._loop.call_soon(self._write_on)
            if self._unread_since_s is not None or self._writer.has_parts:
                # Writing was paused at the first piece that was not fully sent; count all of them.
                self._note_unread()
        if self._unread_since_s is None:
            self._sent()

    def _write_on(self) -> None:
        """Write the next part of a very large response. Once all are sent, go on."""
        if self._writer.write_part():
            if not self._is_full:
                self._loop.call_soon(self._write_on)
            return
        if self._closes_when_written:
            self._transport.close()
            return
        self._unread_since_s = None
        self._sent()
        self._listener.unread(self, 0)
        self._take_frames()

    def _note_unread(self) -> None:
        if self._unread_since_s is None:
            self._unread_since_s = self._loop.time()
        self._unread_bytes = self._writer.unread_bytes
        self._listener.unread(self, self._unread_bytes)

    def _note_partial(self, frame_taken: bool) -> None:
        if not self._buffer.frames.is_partial:
            self._partial_since_s = None
        elif frame_taken or self._partial_since_s is None:
            self._partial_since_s = self._loop.time()

    @property
    def _may_read(self) -> bool:
        return not (self._is_draining or self._requests.is_muted) and self._unread_since_s is None

    def _read_on(self) -> None:
        if self._is_draining and not self._replies and not self._writer.has_parts:
            self._half_close()
        elif self._may_read and self._buffer.make_room():
            if not self._is_reading:
                self._is_reading = True
                self._transport.resume_reading()
        elif self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    # --- the end -------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        self._listener.failed(self, error)
        self._end("internal error", RefusedFor.INTERNAL)

    def _hand_over(self, serve: TakeOver) -> None:
        """Leave the connection to another protocol, which must begin on it with its first request."""
        if self._replies or not self._buffer.frames.is_empty:
            self._end("a connection changes its protocol only at its first request")
            return
        self._is_over = True
        self._buffer.finished()
        self._buffer.close()
        self._listener.unread(self, 0)
        self._listener.closed(self, None)
        serve(self._transport)

    def _half_close(self) -> None:
        """Close the sending side, then wait until the client closes too or the listener aborts the connection.

        What the client still sends is read and discarded: closing a socket that has unread bytes resets the
        connection and loses responses on their way, and the client would send again what was already done.
        """
        self._is_over = True
        self._partial_since_s = None
        self._buffer.finished()
        self._buffer.clear()
        self._transport.write_eof()
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    def _end(self, reason: str | None, refused_for: RefusedFor = RefusedFor.REQUEST) -> None:
        """Close the connection. The responses that are ready still go out if the client reads them in time."""
        if not self._is_over:
            self._is_over = True
            self._write_responses()
        self._refused = None if reason is None else Refused(reason, refused_for)
        self._partial_since_s = None
        self._unread_since_s = self._unread_since_s or self._loop.time()
        self._buffer.finished()
        self._buffer.clear()
        if self._writer.has_parts:
            self._closes_when_written = True
        else:
            self._transport.close()


def _is_longer_than(since_s: float | None, s_max: float, now_s: float) -> bool:
    return since_s is not None and now_s - since_s > s_max
