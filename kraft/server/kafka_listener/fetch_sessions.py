"""Incremental fetch sessions: a consumer of many partitions names in each request only what changed (KIP-227).

A session is known by an id and counts its requests, so that a lost or repeated one is noticed. It belongs to no
connection: a consumer may go on with it on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.fetch import FetchPartition, PartitionData

NO_SESSION: Final = 0
FETCH_SESSION_ID_MAX: Final = 0x7FFFFFFF
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF

SESSIONS_MAX: Final = 1_000
"""Kafka's max.incremental.fetch.session.cache.slots at its default."""

PARTITIONS_MAX: Final = 50_000
"""Of all sessions together: each of their partitions takes half a kilobyte."""

UNUSED_MS_MAX: Final = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms: after so long a session may make room for another."""


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
        """Whether the answer has to name it; notes what the client then knows."""
        failed = data.error_code != ErrorCode.NONE
        news = (
            failed
            or bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        # After an error the client is told in any case that it is over.
        self.high_watermark = -1 if failed else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """What one consumer wants, in the order in which it is read."""

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
        """What of a read the answer has to name. What gave records is read last the next time, so none starves."""
        told = []
        for key, data in found:
            wanted = self._wanted.get(key)
            if wanted is None or not wanted.has_news(data):
                continue
            told.append((key, data))
            if data.records:
                del self._wanted[key]
                self._wanted[key] = wanted
        return told


class FetchSessions:
    """`draw_id` gives a number between 1 and FETCH_SESSION_ID_MAX, hard to guess."""

    def __init__(
        self, draw_id: Callable[[], int], sessions_max: int = SESSIONS_MAX, partitions_max: int = PARTITIONS_MAX
    ) -> None:
        self._draw_id = draw_id
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._partitions = 0
        self._sessions: dict[int, FetchSession] = {}
        """In the order of their last use, the oldest first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """None when there are as many as there may be, and all in use: the consumer then names everything each time."""
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

    def go_on(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Raises Refusal: the consumer begins anew."""
        session = self._sessions.get(session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        if session.uses_topic_ids != uses_topic_ids:
            raise Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} names topics otherwise")
        if session.next_epoch != epoch:
            expected = session.next_epoch
            raise Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"epoch {epoch} came, {expected} was expected")
        session.next_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_at_ms = now_ms
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def change(
        self, session: FetchSession, wanted: Iterable[tuple[FetchKey, FetchPartition]], forgotten: Iterable[FetchKey]
    ) -> bool:
        """As `session.change`. False: there are too many partitions, and the session is over."""
        before = len(session)
        session.change(wanted, forgotten)
        self._partitions += len(session) - before
        if self._partitions <= self._partitions_max:
            return True
        self.end(session.session_id)
        return False

    def end(self, session_id: int) -> None:
        ended = self._sessions.pop(session_id, None)
        if ended is not None:
            self._partitions -= len(ended)
