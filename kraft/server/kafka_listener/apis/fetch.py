"""Fetch: committed record batches for consumers. Followers copy from each other over the GRPC listener."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Final

from kraft.model import requests as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.fetch import PARTITIONS_AT_ONCE
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Place,
)
from kraft.server.kafka_listener.requests import Call
from kraft.server.kafka_listener.unread_answers import UnreadAnswers
from kraft.wire.schema.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

Handle = Callable[[values.FetchRequest], Awaitable[values.FetchResponse]]

_TOPIC_IDS_FROM: Final = 13
_READ_COMMITTED: Final = 1

WAITING_PARTITIONS_MAX: Final = 50_000
"""Of all fetches that wait together. Those above wait for CROWDED_WAIT_MS_MAX only: what waits takes memory."""

CROWDED_WAIT_MS_MAX: Final = 100

_Wanted = list[tuple[Place, FetchPartition]]
_Found = list[tuple[Place, PartitionData]]


class FetchApi:
    def __init__(
        self, handle: Handle, leaders: Leaders, sessions: FetchSessions, monotonic_ms: Callable[[], int]
    ) -> None:
        self._handle = handle
        self._leaders = leaders
        self._sessions = sessions
        self._monotonic_ms = monotonic_ms
        self._waiting_partitions = 0

    async def __call__(self, request: FetchRequest, call: Call) -> FetchResponse:
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
        try:
            session = self._session(request, uses_topic_ids=call.version >= _TOPIC_IDS_FROM)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.error_code, responses=())
        wanted = _named(request) if session is None else session.wanted
        self._waiting_partitions += len(wanted)
        try:
            found = await self._read(request, wanted, call.unread)
        finally:
            self._waiting_partitions -= len(wanted)
        if session is None:
            return self._response(found, NO_SESSION)
        # The first answer of a session names everything, since the client knows nothing yet.
        return self._response(session.news(found), session.session_id)

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

    async def _read(self, request: FetchRequest, wanted: _Wanted, unread: UnreadAnswers | None) -> _Found:
        """In the order of `wanted`."""
        is_crowded = self._waiting_partitions > WAITING_PARTITIONS_MAX
        wait_ms = min(request.max_wait_ms, CROWDED_WAIT_MS_MAX) if is_crowded else request.max_wait_ms
        names = [self._leaders.topic_name(place.topic, place.topic_id) for place, _ in wanted]
        answer = await self._handle(
            values.FetchRequest(
                request_id=0,
                # What cannot be read is told at once.
                max_wait_ms=0 if None in names else wait_ms,
                min_bytes=request.min_bytes,
                max_bytes=request.max_bytes if unread is None else min(request.max_bytes, max(1, unread.room_bytes())),
                partitions=[
                    values.FetchPartition(
                        topic=name,
                        partition=partition.partition,
                        fetch_offset=partition.fetch_offset,
                        partition_max_bytes=partition.partition_max_bytes,
                        current_leader_epoch=partition.current_leader_epoch,
                    )
                    for name, (_, partition) in zip(names, wanted, strict=True)
                    if name is not None
                ],
            )
        )
        if unread is not None:
            # At once: others that read now are to know of it, though nothing is written yet.
            unread.made(sum(len(result.records) for result in answer.partitions))
        results = iter(answer.partitions)
        aborted = () if request.isolation_level == _READ_COMMITTED else None
        found: _Found = []
        for name, (place, _) in zip(names, wanted, strict=True):
            if len(found) % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                await asyncio.sleep(0)
            found.append((place, _unknown(place) if name is None else self._partition(next(results), aborted)))
        return found

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

    def _response(self, found: _Found, session_id: int) -> FetchResponse:
        leaders = {data.current_leader.leader_id for _, data in found}
        return FetchResponse(
            session_id=session_id,
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
        (Place(topic.topic, topic.topic_id, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: FetchRequest) -> Iterable[Place]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield Place(topic.topic, topic.topic_id, partition)


def _unknown(place: Place) -> PartitionData:
    return PartitionData(
        partition_index=place.partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
