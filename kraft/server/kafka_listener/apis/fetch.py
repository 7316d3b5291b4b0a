"""Fetch: committed record batches for consumers. Followers copy from each other over the GRPC listener."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from kraft.model import fetch as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.fetch import PARTITIONS_AT_ONCE
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchKey,
    FetchSession,
    FetchSessions,
)
from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES
from kraft.server.kafka_listener.requests import Call
from kraft.server.kafka_listener.unread_answers import UnreadAnswers
from kraft.server.loop.turns import Turns
from kraft.wire.schema.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

Begin = Callable[[values.FetchRequest], Awaitable[values.FetchResponse] | values.FetchResponse]
"""Answers at once when there is enough to answer with."""

_TOPIC_IDS_FROM: Final = 13
_READ_COMMITTED: Final = 1

WAITING_PARTITIONS_MAX: Final = 50_000
"""Of all fetches that wait together. Those above wait for CROWDED_WAIT_MS_MAX only: what waits takes memory."""

CROWDED_WAIT_MS_MAX: Final = 100

LARGE_WAIT_MS_MAX: Final = 500
"""Of a large request: others may wait for their turn behind it. It is what clients ask for by default."""

_Wanted = list[tuple[FetchKey, FetchPartition]]
_Found = list[tuple[FetchKey, PartitionData]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What of a request is needed once its records are read."""

    wanted: _Wanted
    names: Sequence[str | None]
    """Of each topic wanted; None where nobody knows its id."""

    session: FetchSession | None
    aborted: tuple[()] | None
    """The aborted transactions of each partition."""

    unread: UnreadAnswers | None
    wait_ms_max: int

    def bytes_max(self, asked_max: int) -> int:
        return asked_max if self.unread is None else min(asked_max, max(1, self.unread.room_bytes()))

    def makes(self, answer: values.FetchResponse) -> bool:
        """False: there is no room for it. Otherwise it counts at once, so that others know that read now."""
        if self.unread is None:
            return True
        size_bytes = sum(len(result.records) for result in answer.partitions)
        if not self.unread.takes(size_bytes):
            return False
        self.unread.made(size_bytes)
        return True

    async def has_room(self, deadline_s: float) -> bool:
        return self.unread is None or await self.unread.room(deadline_s)

    def results(self, answer: values.FetchResponse) -> Iterator[tuple[FetchKey, values.FetchPartitionResult | None]]:
        """In the order of `wanted`; None where the topic's id is not known."""
        results = iter(answer.partitions)
        for name, (key, _) in zip(self.names, self.wanted, strict=True):
            yield key, None if name is None else next(results)


class FetchApi:
    def __init__(
        self, begin: Begin, leaders: Leaders, sessions: FetchSessions, monotonic_ms: Callable[[], int]
    ) -> None:
        self._begin = begin
        self._leaders = leaders
        self._sessions = sessions
        self._monotonic_ms = monotonic_ms
        self._waiting_partitions = 0

    def __call__(self, request: FetchRequest, call: Call) -> Awaitable[FetchResponse] | FetchResponse:
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
        try:
            session = self._session(request, uses_topic_ids=call.version >= _TOPIC_IDS_FROM)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.error_code, responses=())
        wanted = _named(request) if session is None else session.wanted
        asked = _Asked(
            wanted=wanted,
            names=[self._leaders.topic_name(key.topic, key.topic_id) for key, _ in wanted],
            session=session,
            aborted=() if request.isolation_level == _READ_COMMITTED else None,
            unread=call.unread,
            wait_ms_max=LARGE_WAIT_MS_MAX if call.frame_bytes > LARGE_FROM_BYTES else request.max_wait_ms,
        )
        begun = self._begin(self._reading(request, asked))
        if isinstance(begun, Awaitable):
            return self._respond_when_there(asked, self._when_there(request, asked, begun))
        if not asked.makes(begun):
            empty = _without_records(begun)
            return self._respond_when_there(asked, self._when_there_is_room(request, asked, empty))
        if len(wanted) < PARTITIONS_AT_ONCE:
            return self._response(asked, [self._found(asked, *each) for each in asked.results(begun)])
        return self._respond_in_turns(asked, begun)

    def _session(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | None:
        """Raises Refusal."""
        now_ms = self._monotonic_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.end(request.session_id)
            if request.session_epoch == FINAL_EPOCH or not request.topics:
                return None
            session = self._sessions.begin(uses_topic_ids, now_ms)
        else:
            session = self._sessions.go_on(request.session_id, request.session_epoch, uses_topic_ids, now_ms)
        if session is None or self._sessions.change(session, _named(request), _forgotten(request)):
            return session
        if request.session_epoch == INITIAL_EPOCH:
            return None
        raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "fetch sessions have as many partitions as they may")

    def _reading(self, request: FetchRequest, asked: _Asked) -> values.FetchRequest:
        is_crowded = self._waiting_partitions + len(asked.wanted) > WAITING_PARTITIONS_MAX
        wait_ms = min(request.max_wait_ms, CROWDED_WAIT_MS_MAX if is_crowded else asked.wait_ms_max)
        return values.FetchRequest(
            request_id=0,
            # What cannot be read is told at once.
            max_wait_ms=0 if None in asked.names else wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=asked.bytes_max(request.max_bytes),
            partitions=[
                values.FetchPartition(
                    topic=name,
                    partition=partition.partition,
                    fetch_offset=partition.fetch_offset,
                    partition_max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                )
                for name, (_, partition) in zip(asked.names, asked.wanted, strict=True)
                if name is not None
            ],
        )

    async def _respond_when_there(self, asked: _Asked, answering: Awaitable[values.FetchResponse]) -> FetchResponse:
        self._waiting_partitions += len(asked.wanted)
        try:
            return await self._respond_in_turns(asked, await answering)
        finally:
            self._waiting_partitions -= len(asked.wanted)

    async def _when_there(
        self, request: FetchRequest, asked: _Asked, begun: Awaitable[values.FetchResponse]
    ) -> values.FetchResponse:
        answer = await begun
        if asked.makes(answer):
            return answer
        answer = _without_records(answer)
        return await self._when_there_is_room(request, asked, answer)

    async def _when_there_is_room(
        self, request: FetchRequest, asked: _Asked, empty: values.FetchResponse
    ) -> values.FetchResponse:
        """What was read is not kept for as long as it may not be sent: it is read again, or not sent to a client that
        waits no longer, which is given `empty`.
        """
        deadline_s = asyncio.get_running_loop().time() + min(request.max_wait_ms, asked.wait_ms_max) / 1_000
        while await asked.has_room(deadline_s):
            begun = self._begin(self._reading(request, asked))
            answer = await begun if isinstance(begun, Awaitable) else begun
            if asked.makes(answer):
                return answer
            begun = answer = empty = _without_records(answer)
        return empty

    async def _respond_in_turns(self, asked: _Asked, answer: values.FetchResponse) -> FetchResponse:
        turns, found = Turns(PARTITIONS_AT_ONCE), list[tuple[FetchKey, PartitionData]]()
        for each in asked.results(answer):
            found.append(self._found(asked, *each))
            await turns.done()
        return self._response(asked, found)

    def _found(
        self, asked: _Asked, key: FetchKey, result: values.FetchPartitionResult | None
    ) -> tuple[FetchKey, PartitionData]:
        return key, _unknown(key) if result is None else self._partition(result, asked.aborted)

    def _partition(self, result: values.FetchPartitionResult, aborted: tuple[()] | None) -> PartitionData:
        leader_id, leader_epoch = self._leaders.instead(result.topic, result.partition, result.error_code)
        return PartitionData(
            partition_index=result.partition,
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            # Without transactions, everything that is committed is stable.
            last_stable_offset=result.high_watermark,
            log_start_offset=result.log_start_offset,
            current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            aborted_transactions=aborted,
            records=result.records,
        )

    def _response(self, asked: _Asked, found: _Found) -> FetchResponse:
        if asked.session is not None:
            # The first answer of a session names everything, since the client knows nothing yet.
            found = asked.session.news(found)
        leaders = {data.current_leader.leader_id for _, data in found}
        return FetchResponse(
            session_id=NO_SESSION if asked.session is None else asked.session.session_id,
            responses=tuple(
                FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(data for _, data in partitions))
                for (topic, topic_id), partitions in groupby(found, lambda each: each[0][:2])
            ),
            node_endpoints=tuple(
                NodeEndpoint(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack or None)
                for broker_id, endpoint, rack in self._leaders.endpoints(leaders)
            ),
        )


def _named(request: FetchRequest) -> _Wanted:
    return [
        (FetchKey(topic.topic, topic.topic_id, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: FetchRequest) -> Iterable[FetchKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield FetchKey(topic.topic, topic.topic_id, partition)


def _without_records(answer: values.FetchResponse) -> values.FetchResponse:
    return replace(answer, partitions=[replace(result, records=b"") for result in answer.partitions])


def _unknown(key: FetchKey) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
