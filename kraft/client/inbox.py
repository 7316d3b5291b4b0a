"""Records on their way from the threads that send them to the event loop, which takes all of them at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from kraft.client.errors import BufferExhausted, ClientClosed
from kraft.client.receipts import ThreadReceipt
from kraft.client.record_future import RecordFuture
from kraft.client.sans_io.column_records import ColumnRecords
from kraft.log.format.record_codec import Header

INBOX_RECORDS_MAX: Final = 10_000
"""Maximum of records in the inbox; `put` waits while it is full, as for `buffer_memory`."""

SentRecord = tuple[str, int | None, int, bytes | None, bytes | None, tuple[Header, ...], int, RecordFuture]
"""Topic, partition, transaction, key, value, headers and timestamp of a record, and its future."""

_destination = itemgetter(0, 1, 2)


class Run(NamedTuple):
    """Records of one topic that were sent one after the other, to the same partition and in the same transaction."""

    topic: str
    partition: int | None
    transaction: int
    records: ColumnRecords
    receipt: ThreadReceipt


class Inbox:
    """Threads put records in, and the event loop takes them out in runs, so that it need not look at each.

    No lock is held for a record, which would cost as much as all the rest of `put`: the steps of a deque are atomic.
    """

    def __init__(self, max_block_ms: int) -> None:
        self._max_block_ms = max_block_ms
        self._sent: deque[SentRecord] = deque()
        self._is_watched = False
        """True from the first record until the event loop has found nothing left."""
        self._has_room = threading.Condition()
        self.is_closed = False

    def put(self, record: SentRecord) -> bool:
        """Add a record; wait for room. Return True if the event loop must be called to take it.

        Raises BufferExhausted, and ClientClosed.
        """
        if len(self._sent) >= INBOX_RECORDS_MAX:
            self._wait_for_room()
        if self.is_closed:
            raise ClientClosed("the producer is closed")
        self._sent.append(record)
        # The event loop clears the mark before it looks whether there is a record, so one of the two sees the other's.
        if self._is_watched:
            return False
        # Set before the call, which clears the mark when it finds nothing left: set after it, the mark could stay, and
        # nobody would take the next record.
        self._is_watched = True
        return True

    def take(self) -> list[Run]:
        """Return all that is in the inbox. If it is nothing, the next record needs another call of the event loop."""
        if not self._sent:
            self._is_watched = False
            if not self._sent:
                return []
            self._is_watched = True
        taken = [self._sent.popleft() for _ in range(len(self._sent))]
        with self._has_room:
            self._has_room.notify_all()
        return list(_runs(taken))

    def close(self) -> None:
        """Refuse further records, also those that wait for room."""
        self.is_closed = True
        with self._has_room:
            self._has_room.notify_all()

    def _wait_for_room(self) -> None:
        with self._has_room:
            may_go_on = self._has_room.wait_for(
                lambda: self.is_closed or len(self._sent) < INBOX_RECORDS_MAX, self._max_block_ms / 1000
            )
        if not may_go_on:
            raise BufferExhausted(
                f"the queue of {INBOX_RECORDS_MAX} unsent records stayed full for max.block.ms={self._max_block_ms}"
            )


def _runs(taken: list[SentRecord]) -> Iterator[Run]:
    for (topic, partition, transaction), sent in groupby(taken, _destination):
        _, _, _, keys, values, headers, times_ms, futures = map(list, zip(*sent, strict=True))
        yield Run(topic, partition, transaction, ColumnRecords(keys, values, headers, times_ms), ThreadReceipt(futures))
