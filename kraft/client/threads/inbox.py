"""Records on their way from the threads that send them to the event loop, which takes all of them at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from kraft.client.model.errors import BufferExhausted, ClientClosed
from kraft.client.sans_io.column_records import ColumnRecords, record_size
from kraft.client.threads.receipts import ThreadReceipt
from kraft.client.threads.record_future import RecordFuture
from kraft.log.format.record_codec import Header
from kraft.model.callbacks import Condition

INBOX_RECORDS_MAX: Final = 10_000
"""Maximum number of records in the inbox, and of those parked: `put` waits at it, as it does at `buffer_memory`."""

LARGE_BYTES: Final = 1024
"""Size from which the bytes of a record are counted. Smaller ones are limited by their number."""

_WAIT_MAX_S: Final = threading.TIMEOUT_MAX / 2

SentRecord = tuple[str, int | None, int, bytes | None, bytes | None, tuple[Header, ...], int, RecordFuture]
"""Topic, partition, transaction, key, value, headers and timestamp of a record, and its future."""

_destination = itemgetter(0, 1, 2)


class RecordSpan(NamedTuple):
    """Records of one topic that were sent one after the other, to the same partition and in the same transaction."""

    topic: str
    partition: int | None
    transaction: int
    records: ColumnRecords
    receipt: ThreadReceipt


class Inbox:
    """Threads put records in, and the event loop takes them out in spans, so that it need not look at each.

    No lock is held for a small record, which would cost as much as all the rest of `put`: the steps of a deque are
    atomic.
    """

    def __init__(self, max_block_ms: int, bytes_max: int, is_event_loop: Condition) -> None:
        """`bytes_max` limits the bytes of large records. `is_event_loop` says if the event loop's thread calls."""
        self._max_block_ms = max_block_ms
        self._bytes_max = bytes_max
        self._is_event_loop = is_event_loop
        self._sent: deque[SentRecord] = deque()
        self._is_watched = False
        """True from the first record until the event loop has found nothing left."""
        self._has_room = threading.Condition()
        self._is_crowded = False
        """True while the large records, or those parked, leave no room; this and the next two change under the lock."""
        self._large_bytes = 0
        """Bytes of the large records here and in spans that are not queued."""
        self._parked = 0
        """The number of records in spans that are parked."""
        self._taken = 0
        """The number of records taken so far. For the event loop alone."""
        self.is_closed = False

    def put(self, record: SentRecord) -> bool:
        """Add a record; wait for room. Return True if the event loop must be called to take it.

        Raises BufferExhausted, and ClientClosed.
        """
        if self._is_crowded or len(self._sent) >= INBOX_RECORDS_MAX:
            self._wait_for_room()
        if self.is_closed:
            raise ClientClosed("the producer is closed")
        key, value, headers = record[3:6]
        if (value and len(value) >= LARGE_BYTES) or headers or (key and len(key) >= LARGE_BYTES):
            self._hold(bytes_more=_large(record_size(key, value, headers)))
        self._sent.append(record)
        # The event loop clears the mark before it looks whether there is a record, so one of the two sees the other's.
        if self._is_watched:
            return False
        # Set before the call, which clears the mark when it finds nothing left: set after it, the mark could stay, and
        # nobody would take the next record.
        self._is_watched = True
        return True

    @property
    def put_so_far(self) -> int:
        """The number of records put in until now. For the event loop alone."""
        return self._taken + len(self._sent)

    def take(self) -> list[RecordSpan]:
        """Return all that is in the inbox. If it is nothing, the next record needs another call of the event loop."""
        if not self._sent:
            self._is_watched = False
            if not self._sent:
                return []
            self._is_watched = True
        taken = [self._sent.popleft() for _ in range(len(self._sent))]
        self._taken += len(taken)
        with self._has_room:
            self._has_room.notify_all()
        return list(_runs(taken))

    def park(self, span: RecordSpan) -> None:
        """Count the records of a span that was taken and has to wait, such as for a look-up of its topic."""
        self._hold(records_more=len(span.records))

    def unpark(self, span: RecordSpan) -> None:
        """Count them no longer: the wait is over."""
        self._hold(records_more=-len(span.records))

    def ended(self, span: RecordSpan) -> None:
        """Release the bytes of a span that was taken: its records are in batches, or have failed."""
        if self._large_bytes:
            self._hold(bytes_more=-sum(map(_large, span.records.sizes())))

    def close(self) -> None:
        """Refuse further records, also those that wait for room."""
        self.is_closed = True
        with self._has_room:
            self._has_room.notify_all()

    def _hold(self, *, records_more: int = 0, bytes_more: int = 0) -> None:
        with self._has_room:
            self._parked += records_more
            self._large_bytes += bytes_more
            self._is_crowded = self._parked >= INBOX_RECORDS_MAX or self._large_bytes >= self._bytes_max
            if not self._is_crowded:
                self._has_room.notify_all()

    def _wait_for_room(self) -> None:
        if self._is_event_loop():
            # A callback sends. Only its own thread could make room.
            return
        with self._has_room:
            may_go_on = self._has_room.wait_for(
                lambda: self.is_closed or not (self._is_crowded or len(self._sent) >= INBOX_RECORDS_MAX),
                min(self._max_block_ms / 1000, _WAIT_MAX_S),
            )
        if not may_go_on:
            raise BufferExhausted(
                f"the queue of {INBOX_RECORDS_MAX} records or buffer.memory={self._bytes_max} bytes stayed full for "
                f"max.block.ms={self._max_block_ms}"
            )


def _large(size_bytes: int) -> int:
    """Return what a record of this size counts for."""
    return size_bytes if size_bytes >= LARGE_BYTES else 0


def _runs(taken: list[SentRecord]) -> Iterator[RecordSpan]:
    for (topic, partition, transaction), sent in groupby(taken, _destination):
        _, _, _, keys, values, headers, times_ms, futures = map(list, zip(*sent, strict=True))
        yield RecordSpan(
            topic, partition, transaction, ColumnRecords(keys, values, headers, times_ms), ThreadReceipt(futures)
        )
