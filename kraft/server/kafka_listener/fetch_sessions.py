"""Incremental fetch sessions: each request of a consumer names only the partitions that changed (KIP-227).

A session has an id and numbers its requests with an epoch, so that a lost or repeated one is noticed. It is not tied to
a connection: a consumer may continue it on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.loop.budget import Budget
from kraft.wire.schema.fetch import FetchPartition, PartitionData

NO_SESSION: Final = 0
FETCH_SESSION_ID_MAX: Final = 0x7FFFFFFF
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF

SESSIONS_MAX: Final = 1_000
"""Kafka's max.incremental.fetch.session.cache.slots at its default."""

PARTITIONS_MAX: Final = 50_000
"""Maximum number of partitions in all sessions together; each takes half a kilobyte."""

UNUSED_MS_MAX: Final = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms: a session unused for longer may be evicted for a new one."""


class FetchKey(NamedTuple):
    """A partition as a fetch names it: its topic by name in older versions, by id in newer ones."""

    topic: str
    topic_id: UUID
    partition: int


@dataclass(slots=True)
class _Wanted:
    partition: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, data: PartitionData) -> bool:
        """Return whether the response must name this partition, and remember what the client then knows."""
        failed = data.error_code != ErrorCode.NONE
        news = (
            failed
            or bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        # After an error the next successful read is always sent, so that the client learns that the error is over.
        self.high_watermark = -1 if failed else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """The partitions that one consumer fetches, in the order in which they are read."""

    session_id: int
    uses_topic_ids: bool
    used_at_ms: int
    next_epoch: int = 1
    _wanted: dict[FetchKey, _Wanted] = field(default_factory=dict)

    def change(self, wanted: Iterable[tuple[FetchKey, FetchPartition]], forgotten: Iterable[FetchKey]) -> None:
        for key in forgotten:
            self._wanted.pop(key, None)
        for key, partition in wanted:
            known = self._wanted.get(key)
            if known is None:
                self._wanted[key] = _Wanted(partition)
            else:
                known.partition = partition

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def wanted(self) -> list[tuple[FetchKey, FetchPartition]]:
        return [(key, each.partition) for key, each in self._wanted.items()]

    def news(self, found: Iterable[tuple[FetchKey, PartitionData]]) -> list[tuple[FetchKey, PartitionData]]:
        """Return the read partitions that the response must name.

        Partitions that gave records are read last the next time, so that none starves.
        """
        news = []
        for key, data in found:
            wanted = self._wanted.get(key)
            if wanted is None or not wanted.has_news(data):
                continue
            news.append((key, data))
            if data.records:
                del self._wanted[key]
                self._wanted[key] = wanted
        return news


class FetchSessions:
    """The fetch sessions of one broker. `draw_id` returns a random number from 1 to FETCH_SESSION_ID_MAX."""

    def __init__(
        self, draw_id: Callable[[], int], sessions_max: int = SESSIONS_MAX, partitions_max: int = PARTITIONS_MAX
    ) -> None:
        self._draw_id = draw_id
        self._sessions_max = sessions_max
        self._partitions = Budget(partitions_max)
        self._sessions: dict[int, FetchSession] = {}
        """Sessions by id, in the order of their last use, the oldest first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """Begin a session and return it.

        None if the cache is full of sessions in use: the consumer then names every partition in each request.
        """
        if len(self._sessions) >= self._sessions_max:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_at_ms < UNUSED_MS_MAX:
                return None
            self.end(oldest.session_id)
        session_id = self._draw_id()
        while session_id in self._sessions:
            session_id = self._draw_id()
        self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, now_ms)
        return self._sessions[session_id]

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Continue a session and return it. Raises Refusal, after which the consumer begins a new session."""
        session = self._sessions.get(session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"unknown fetch session {session_id}")
        if session.uses_topic_ids != uses_topic_ids:
            problem = f"fetch session {session_id} names topics by {'id' if session.uses_topic_ids else 'name'}"
            raise Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, problem)
        if session.next_epoch != epoch:
            expected = session.next_epoch
            problem = f"fetch session epoch is {epoch}, expected {expected}"
            raise Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, problem)
        session.next_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_at_ms = now_ms
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def has_room_for(self, session: FetchSession) -> bool:
        """Count the partitions of a session that was changed.

        Return False, and end it, if all sessions then have too many; also if it was ended meanwhile.
        """
        if self._sessions.get(session.session_id) is not session:
            return False
        if self._partitions.claim(session.session_id, len(session)):
            return True
        self.end(session.session_id)
        return False

    def end(self, session_id: int) -> None:
        if self._sessions.pop(session_id, None) is not None:
            self._partitions.release(session_id)


class SharedFetches(Struct, frozen=True):
    """What the fetches of a broker's clients share, on all its listeners for Kafka's clients."""

    sessions: FetchSessions
    waiting: Budget
    """Counts the partitions of all waiting fetches."""

    monotonic_ms: NowMs
