"""Handler for Python's `logging` that sends JSON lines to a topic, and never holds or breaks the program that logs.

    handler = LogHandler("logs", "localhost:9092", fields={"service": "orders"})
    logging.getLogger().addHandler(handler)

A call of a logger puts a line into a bounded queue; a thread sends what is there. What finds no room is dropped and
counted, or waited for (`when_full="block"`). In a forked process the handler begins anew: the parent sends its lines.
With `wire_protocol="grpc"` it cannot: gRPC may wait there for good, so lines of a forked process are counted as failed.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from kraft.client.model.errors import BufferExhausted, InvalidSetting, RecordTooLarge
from kraft.client.model.settings import KAFKA_PORT, WireProtocol, wire_protocol
from kraft.client.model.values import Delivery
from kraft.client.threads.producer import Producer
from kraft.model.errors import KraftError

QUEUE_LINES_MAX: Final = 10_000
BLOCK_MS: Final = 1_000
CLOSE_MS: Final = 5_000
DELIVERY_TIMEOUT_MS: Final = 600_000
"""Default of delivery.timeout.ms: longer than a producer's, for an outage of the brokers is when logs count."""

_SETTINGS: Final = {
    "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
    "linger_ms": 50,
    "max_block_ms": 5_000,
    "client_id": "log-handler",
    # The connections of a process that was forked work by this one, and those of gRPC do not always.
    "wire_protocol": WireProtocol.KAFKA,
}

LINE_BYTES_MAX: Final = 512 * 1024
"""A longer line is refused: brokers take records of 1 MiB by default."""

_UNSENT_BYTES_MAX: Final = 16 << 20
"""Half of the default of buffer.memory."""

_IMPORTED_LATE: Final = (
    "kraft.client.cluster.misfits",
    "kraft.client.cluster.secure_dialling",
    "kraft.client.kafka.connections",
)
"""What a producer imports when it connects."""

_LINES_AT_ONCE: Final = 1_000
_UNSENT_LINES_MAX: Final = 50_000
"""Lines that are sent and not acknowledged yet."""

_RETRY_S: Final = 1.0
_SAID_EVERY_S: Final = 60.0
_OWN: Final = "kraft.client"
_FORKED: Final = (
    "this process was forked, where gRPC does not work: leave out wire_protocol, with the address of a listener of"
    " Kafka's protocol, or make the handler after the fork"
)
_Line = tuple[bytes, bytes | None, int]
"""A line, its key, and its timestamp in milliseconds."""

_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

Key = str | Callable[[logging.LogRecord], str | None] | None
"""What the key of a line is: an attribute of its record, such as "name", or a function; None for no key."""


def _size(lines: list[_Line]) -> int:
    return sum(len(each[0]) for each in lines)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class WhenFull(StrEnum):
    DROP = "drop"
    BLOCK = "block"


class JsonFormatter(logging.Formatter):
    """One JSON object for a record: @timestamp (UTC), level, logger, message, exception, where from, and its extras."""

    def __init__(self, fields: Mapping[str, object] | None = None) -> None:
        """`fields` are in each line, such as the name of the service."""
        super().__init__()
        self._fields = dict(fields or {})
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self._host = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        return self.line(record).decode()

    def line(self, record: logging.LogRecord) -> bytes:
        """Return the line, in UTF-8. Raises what a wrong call of a logger raises."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "@timestamp": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "host": self._host,
            "process": record.process,
            "thread": record.threadName,
            **self._fields,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL and name not in line}
        try:
            return self._encoder.encode(line)
        except (TypeError, ValueError, RecursionError, OverflowError):
            # A key that is no text, a number beyond 64 bits, a lone surrogate: as text, whatever it takes.
            return self._encoder.encode({_printable(name): _printable(value) for name, value in line.items()})


def _printable(value: object) -> str:
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception as error:  # noqa: BLE001  A str() of the application's own may raise anything.
        return f"<{type(error).__name__} from str()>"


class LogHandler(logging.Handler):
    """See the module. Lines of the client itself (`kraft.client`) are left out: they would lead to more of them.

    Calls never raise: what cannot be formatted goes the way of `logging.Handler.handleError`, other lines are counted.
    At the end of the process, and of `close`, what is queued is sent within `close_ms`.
    """

    def __init__(
        self,
        topic: str,
        bootstrap_servers: str = f"localhost:{KAFKA_PORT}",
        *,
        level: int | str = logging.NOTSET,
        key: Key = None,
        fields: Mapping[str, object] | None = None,
        queue_max: int = QUEUE_LINES_MAX,
        when_full: str = WhenFull.DROP,
        block_ms: int = BLOCK_MS,
        close_ms: int = CLOSE_MS,
        **settings: Any,
    ) -> None:
        """The addresses are of listeners of Kafka's protocol. Nothing is opened here. Raises InvalidSetting.

        `settings` are those of a producer, such as security_protocol.

        `block_ms` is the longest wait of one call with when_full="block"; a line that finds no room by then is dropped.
        """
        super().__init__(level)
        if when_full not in tuple(WhenFull):
            raise InvalidSetting(f'when_full="{when_full}" is not known: give "drop" or "block"')
        if min(queue_max, block_ms, close_ms) < 1:
            raise InvalidSetting("queue_max, block_ms and close_ms must be at least 1")
        self.formatter = self._json = JsonFormatter(fields)
        self._topic, self._key, self._close_ms = topic, key, close_ms
        self._block_s = block_ms / 1_000 if when_full == WhenFull.BLOCK else 0.0
        self._queue_max = queue_max
        given = {**_SETTINGS, **settings}
        self._outlives_fork = wire_protocol(given["wire_protocol"]) is WireProtocol.KAFKA
        self._is_cut_off = False
        self._open = partial(Producer, bootstrap_servers, **given)
        self._begin()
        # Checks the settings, and starts the thread of the clients.
        self._open().close()
        for each in _IMPORTED_LATE:
            # A process that is forked while another thread imports would never have the whole module.
            importlib.import_module(each)
        _handlers.add(self)
        atexit.register(_close_at_exit, weakref.ref(self))

    def _begin(self) -> None:
        """Begin with nothing queued: at first, and in a forked process, which has the parent's lines and no thread."""
        self._changed = threading.Condition()
        self._queue: deque[_Line] = deque()
        self._thread: threading.Thread | None = None
        self._closing: bool = False
        self._until_s = float("inf")
        self._dropped: int = 0
        self._failed: int = 0
        self._sent: int = 0
        self._unsent: int = 0
        self._unsent_bytes: int = 0
        self._told_dropped: int = 0
        self._said_s = float("-inf")

    # --- counts ------------------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """Return how many lines found no room in the queue."""
        return self._dropped

    @property
    def failed(self) -> int:
        """Return how many lines left the queue and were not stored, or not by the end."""
        return self._failed

    @property
    def sent(self) -> int:
        """Return how many lines the brokers have acknowledged."""
        return self._sent

    # --- what the program calls --------------------------------------------------------------------------------

    def handle(self, record: logging.LogRecord) -> bool:
        """Queue the line of a record that passes the filters, without the lock of handlers: the queue has its own."""
        # From Python 3.12 on, a filter may return another record.
        passed: Any = self.filter(record)
        if passed:
            self.emit(record if passed is True else passed)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of a record."""
        if record.name.startswith(_OWN) or threading.current_thread() is self._thread:
            return
        if self._is_cut_off:
            self._count_failed(1, _FORKED)
            return
        try:
            line = self._line(record)
            key = self._key_of(record)
        except Exception:  # noqa: BLE001  A wrong call of a logger, or a key function, must not end the program.
            self.handleError(record)
            return
        if len(line) > LINE_BYTES_MAX:
            self._count_failed(1, f"a line has {len(line)} bytes, and at most {LINE_BYTES_MAX} are sent")
            return
        with self._changed:
            if len(self._queue) >= self._queue_max and not self._closing:
                self._make_room()
            if self._closing or len(self._queue) >= self._queue_max:
                self._dropped += 1
                return
            self._queue.append((line, key, int(record.created * 1_000)))
            self._start_thread()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until what is queued is stored, for `close_ms` at most."""
        self._wait_idle(time.monotonic() + self._close_ms / 1_000)

    def close(self) -> None:
        """Send what is queued, within `close_ms`, and say on standard error what is lost. May be called again."""
        until_s = time.monotonic() + self._close_ms / 1_000
        with self._changed:
            was_closing, self._closing = self._closing, True
            self._until_s = until_s
            self._changed.notify_all()
        thread = self._thread
        if not was_closing and thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, until_s - time.monotonic()) + 1.0)
        if not was_closing:
            with self._changed:
                self._failed += len(self._queue) + self._unsent
                self._queue.clear()
                self._unsent = 0
            if lost := self._dropped + self._failed:
                self._say(f"{lost} log lines are lost: {self._dropped} found no room, {self._failed} were not stored")
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        if self.formatter is None or self.formatter is self._json:
            return self._json.line(record)
        return self.formatter.format(record).encode(errors="backslashreplace")

    def _key_of(self, record: logging.LogRecord) -> bytes | None:
        key = (
            self._key(record)
            if callable(self._key)
            else None
            if self._key is None
            else getattr(record, self._key, None)
        )
        return None if key is None else str(key).encode(errors="backslashreplace")

    def _make_room(self) -> None:
        """Wait for room with when_full="block"; not in the clients' own threads, which would wait for themselves."""
        if self._block_s:
            self._changed.wait_for(lambda: self._closing or len(self._queue) < self._queue_max, self._block_s)

    def _wait_idle(self, until_s: float) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: not (self._queue or self._unsent) or self._thread is None, max(0.0, until_s - time.monotonic())
            )

    # --- the thread --------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name="log-handler", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # The process has no room for a thread: the next line tries again.
            self._count_failed(0, _words(error))
            return
        self._thread = thread
        if "multiprocessing.util" in sys.modules:
            # Its processes leave without atexit.
            from multiprocessing.util import Finalize

            Finalize(None, _close_at_exit, args=(weakref.ref(self),), exitpriority=100)

    def _run(self) -> None:
        """Send until the close: after an error that is not the client's, such as too many open files, begin again."""
        while not self._send_until_closed():
            with self._changed:
                if self._changed.wait_for(self._is_over, _RETRY_S):
                    return

    def _send_until_closed(self) -> bool:
        """Send what comes, by a producer of its own. Return False after an error, which is said."""
        with contextlib.ExitStack() as stack:
            try:
                producer = self._open()
                stack.callback(self._close_producer, producer)
                while lines := self._take():
                    self._send(producer, lines)
            except Exception as error:  # noqa: BLE001  Counted and reported; the caller opens another producer.
                self._count_failed(0, _words(error))
                return False
            return True

    def _close_producer(self, producer: Producer) -> None:
        left_s = min(self._until_s, time.monotonic() + 60) - time.monotonic()
        try:
            producer.close(max(0, int(left_s * 1_000)))
        except Exception as error:  # noqa: BLE001  Counted and reported; the log of a program must not end it.
            self._count_failed(0, _words(error))

    def _take(self) -> list[_Line]:
        """Wait for lines and return some; none at the end."""
        with self._changed:
            while not self._changed.wait_for(self._has_to_act, _RETRY_S):
                pass
            if self._is_over():
                return []
            taken = [self._queue.popleft() for _ in range(min(_LINES_AT_ONCE, len(self._queue)))]
            self._unsent += len(taken)
            self._unsent_bytes += _size(taken)
            self._changed.notify_all()
        return taken

    def _has_to_act(self) -> bool:
        may_send = self._unsent < _UNSENT_LINES_MAX and self._unsent_bytes < _UNSENT_BYTES_MAX
        return bool(self._queue and may_send) or self._is_over()

    def _is_over(self) -> bool:
        return self._closing and (not self._queue or time.monotonic() >= self._until_s)

    def _tell_dropped(self, producer: Producer) -> None:
        """Send a line that says how many are missing before it."""
        if not (dropped := self._dropped - self._told_dropped):
            return
        self._told_dropped += dropped
        said = {"name": __name__, "levelname": "WARNING", "msg": f"{dropped} log lines dropped: the queue was full"}
        with contextlib.suppress(KraftError):
            producer.produce_many(self._topic, [self._json.line(logging.makeLogRecord(said))])

    def _send(self, producer: Producer, lines: list[_Line]) -> None:
        values, keys, times_ms = [list(each) for each in zip(*lines, strict=True)]
        while True:
            try:
                future = producer.produce_many(self._topic, values, keys, timestamps_ms=times_ms)
            except KraftError as error:
                self._count_failed(0, str(error))
                with self._changed:
                    # Nothing was queued: the topic is not there, or no broker is.
                    over = self._changed.wait_for(lambda: self._closing and time.monotonic() >= self._until_s, _RETRY_S)
                if not over and not isinstance(error, BufferExhausted | RecordTooLarge):
                    continue
                self._settled(lines, str(error))
                return
            except Exception as error:
                self._settled(lines, _words(error))
                raise
            future.add_done_callback(partial(self._done, lines))
            self._tell_dropped(producer)
            return

    def _done(self, lines: list[_Line], future: Future[Delivery]) -> None:
        error = future.exception()
        self._settled(lines, "" if error is None else str(error))

    def _settled(self, lines: list[_Line], problem: str) -> None:
        count = len(lines)
        with self._changed:
            if self._unsent < count:
                # Counted already, at the end of the close.
                return
            self._unsent -= count
            self._unsent_bytes -= _size(lines)
            if problem:
                self._failed += count
            else:
                self._sent += count
            self._changed.notify_all()
        if problem:
            self._count_failed(0, problem)

    # --- what is lost ------------------------------------------------------------------------------------------

    def _count_failed(self, count: int, reason: str) -> None:
        with self._changed:
            self._failed += count
            if time.monotonic() - self._said_s < _SAID_EVERY_S:
                return
            self._said_s = time.monotonic()
        self._say(f"log lines are not stored: {reason}")

    def _say(self, text: str) -> None:
        """Say it on standard error, as `logging` does with its own errors."""
        if logging.raiseExceptions and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                print(f"kraft.client.logging: topic {self._topic}: {text}", file=sys.stderr)  # noqa: T201  As said.


_handlers: weakref.WeakSet[LogHandler] = weakref.WeakSet()


def _close_at_exit(handler: weakref.ref[LogHandler]) -> None:
    if (alive := handler()) is not None:
        alive.close()


def _begin_in_child() -> None:
    for each in _handlers:
        each._begin()
        each._is_cut_off = not each._outlives_fork


os.register_at_fork(after_in_child=_begin_in_child)
