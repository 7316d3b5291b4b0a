"""One fetch until it is answered: its partitions are read, and read again if there was no room for the response.

Records that cannot be sent yet are not kept in memory. When the wait ends, the client gets a response without records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from msgspec.structs import replace

from kraft.model import fetch as values
from kraft.server.kafka_listener.fetch_sessions import FetchKey, FetchSession
from kraft.wire.schema.fetch import FetchPartition


class WantedPartition(NamedTuple):
    key: FetchKey
    topic: str | None
    """None if the topic id is unknown."""

    partition: FetchPartition


class FetchState(Enum):
    READING = auto()
    """Its partitions are being read, or wait for records."""

    WAITING_FOR_ROOM = auto()
    """Its response waits until other clients have read theirs."""

    ANSWERED = auto()


@dataclass(slots=True, kw_only=True, eq=False)
class PendingFetch:
    wanted: Sequence[WantedPartition]
    session: FetchSession | None
    reads_committed: bool
    min_bytes: int
    max_bytes: int
    records_wait_ms: int
    """Maximum wait for records; `room_wait_ms` is the maximum wait for room after that."""

    room_wait_ms: int
    state: FetchState = FetchState.READING
    deadline_s: float = field(default=0.0, init=False)
    """End of the wait for room, by the loop's clock."""

    _response: values.FetchResponse | None = field(default=None, init=False)

    def request(self, room_bytes: int | None) -> values.FetchRequest:
        """Return the request to the fetch handler, for at most `room_bytes` of records; None: no limit."""
        return values.FetchRequest(
            request_id=0,
            # An unknown topic id is answered without waiting.
            max_wait_ms=0 if any(each.topic is None for each in self.wanted) else self.records_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes if room_bytes is None else min(self.max_bytes, max(1, room_bytes)),
            partitions=[
                values.FetchPartition(
                    topic=topic,
                    partition=partition.partition,
                    fetch_offset=partition.fetch_offset,
                    partition_max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                )
                for _, topic, partition in self.wanted
                if topic is not None
            ],
            reads_committed=self.reads_committed,
        )

    def read(self, response: values.FetchResponse, has_room: bool, now_s: float) -> None:
        """Record that the partitions were read."""
        assert self.state is FetchState.READING
        if has_room:
            self.state, self._response = FetchState.ANSWERED, response
            return
        if self._response is None:
            self.deadline_s = now_s + self.room_wait_ms / 1_000
        self.state, self._response = FetchState.WAITING_FOR_ROOM, _without_records(response)

    def waited(self, has_room: bool) -> None:
        """Record that the wait for room ended; `has_room` is false if it timed out."""
        assert self.state is FetchState.WAITING_FOR_ROOM
        self.state = FetchState.READING if has_room else FetchState.ANSWERED

    def results(self) -> Iterator[tuple[FetchKey, values.FetchPartitionResult | None]]:
        """Return the results in the order of `wanted`; None where the topic id is unknown."""
        assert self.state is FetchState.ANSWERED
        assert self._response is not None, "it was read before"
        results = iter(self._response.partitions)
        for key, topic, _ in self.wanted:
            yield key, None if topic is None else next(results)


def _without_records(response: values.FetchResponse) -> values.FetchResponse:
    return replace(response, partitions=[replace(result, records=b"", aborted=[]) for result in response.partitions])
