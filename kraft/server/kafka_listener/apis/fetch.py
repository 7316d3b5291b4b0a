"""Fetch: return committed record batches to consumers. Followers fetch over the GRPC listener instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
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
from kraft.server.kafka_listener.pending_fetch import FetchState, PendingFetch, WantedPartition
from kraft.server.kafka_listener.requests import RequestContext
from kraft.server.kafka_listener.unread_responses import UnreadResponses
from kraft.server.loop.budget import Budget
from kraft.server.loop.turns import Turns
from kraft.wire.schema.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

Begin = Callable[[values.FetchRequest], Awaitable[values.FetchResponse] | values.FetchResponse]
"""Returns the response itself, not an awaitable, if enough records are there already."""

_TOPIC_IDS_FROM: Final = 13
_READ_COMMITTED: Final = 1

WAITING_PARTITIONS_MAX: Final = 50_000
"""Maximum number of partitions of all waiting fetches; further fetches wait at most CROWDED_WAIT_MS_MAX, since a
waiting fetch takes memory."""

CROWDED_WAIT_MS_MAX: Final = 100

LARGE_WAIT_MS_MAX: Final = 500
"""Maximum wait of a large fetch, since others may wait for its turn to end. Clients ask for this by default."""

_Found = list[tuple[FetchKey, PartitionData]]


class FetchApi:
    def __init__(
        self,
        begin: Begin,
        leaders: Leaders,
        sessions: FetchSessions,
        waiting: Budget,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """`waiting` counts the partitions of all waiting fetches."""
        self._begin = begin
        self._leaders = leaders
        self._sessions = sessions
        self._waiting = waiting
        self._monotonic_ms = monotonic_ms

    def __call__(self, request: FetchRequest, call: RequestContext) -> Awaitable[FetchResponse] | FetchResponse:
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
        try:
            session = self._session(request, uses_topic_ids=call.version >= _TOPIC_IDS_FROM)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.error_code, responses=())
        fetch, unread = self._pending(request, session, call), call.unread
        begun = self._begin(fetch.request(_room_bytes(unread)))
        if isinstance(begun, Awaitable):
            return self._respond_later(fetch, unread, begun)
        _read(fetch, unread, begun)
        if fetch.state is FetchState.ANSWERED and len(fetch.wanted) < PARTITIONS_AT_ONCE:
            return self._response(fetch, [self._found(fetch, *each) for each in fetch.results()])
        return self._respond_later(fetch, unread, None)

    def _pending(self, request: FetchRequest, session: FetchSession | None, call: RequestContext) -> PendingFetch:
        wanted = _named(request) if session is None else session.wanted
        is_large, is_crowded = call.frame_bytes > LARGE_FROM_BYTES, not self._waiting.has_room(len(wanted))
        wait_ms = min(request.max_wait_ms, LARGE_WAIT_MS_MAX) if is_large else request.max_wait_ms
        return PendingFetch(
            wanted=[
                WantedPartition(key, self._leaders.topic_name(key.topic, key.topic_id), partition)
                for key, partition in wanted
            ],
            session=session,
            reads_committed=request.isolation_level == _READ_COMMITTED,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            records_wait_ms=min(wait_ms, CROWDED_WAIT_MS_MAX) if is_crowded else wait_ms,
            room_wait_ms=wait_ms,
        )

    async def _respond_later(
        self, fetch: PendingFetch, unread: UnreadResponses | None, begun: Awaitable[values.FetchResponse] | None
    ) -> FetchResponse:
        self._waiting.hold(fetch, len(fetch.wanted))
        try:
            if begun is not None:
                _read(fetch, unread, await begun)
            while unread is not None and fetch.state is not FetchState.ANSWERED:
                fetch.waited(await unread.room(fetch.deadline_s))
                if fetch.state is FetchState.READING:
                    _read(fetch, unread, await self._read_again(fetch, unread))
            return await self._respond_in_turns(fetch)
        finally:
            self._waiting.release(fetch)

    async def _read_again(self, fetch: PendingFetch, unread: UnreadResponses) -> values.FetchResponse:
        begun = self._begin(fetch.request(unread.room_bytes()))
        return await begun if isinstance(begun, Awaitable) else begun

    def _session(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | None:
        """Return the session of the request, with its changes; None without a session. Raises Refusal."""
        now_ms = self._monotonic_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.end(request.session_id)
            if request.session_epoch == FINAL_EPOCH or not request.topics:
                return None
            session = self._sessions.begin(uses_topic_ids, now_ms)
        else:
            session = self._sessions.resume(request.session_id, request.session_epoch, uses_topic_ids, now_ms)
        if session is None or self._sessions.change(session, _named(request), _forgotten(request)):
            return session
        if request.session_epoch == INITIAL_EPOCH:
            return None
        raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "fetch sessions hold too many partitions")

    async def _respond_in_turns(self, fetch: PendingFetch) -> FetchResponse:
        turns, found = Turns(PARTITIONS_AT_ONCE), list[tuple[FetchKey, PartitionData]]()
        for each in fetch.results():
            found.append(self._found(fetch, *each))
            await turns.done()
        return self._response(fetch, found)

    def _found(
        self, fetch: PendingFetch, key: FetchKey, result: values.FetchPartitionResult | None
    ) -> tuple[FetchKey, PartitionData]:
        return key, _unknown(key) if result is None else self._partition(result, fetch.reads_committed)

    def _partition(self, result: values.FetchPartitionResult, reads_committed: bool) -> PartitionData:
        leader_id, leader_epoch = self._leaders.current_leader(result.topic, result.partition, result.error_code)
        return PartitionData(
            partition_index=result.partition,
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            aborted_transactions=_aborted(result) if reads_committed else None,
            records=result.records,
        )

    def _response(self, fetch: PendingFetch, found: _Found) -> FetchResponse:
        if fetch.session is not None:
            # The first response of a session names every partition, since the client knows nothing yet.
            found = fetch.session.news(found)
        leaders = {data.current_leader.leader_id for _, data in found}
        return FetchResponse(
            session_id=NO_SESSION if fetch.session is None else fetch.session.session_id,
            responses=tuple(
                FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(data for _, data in partitions))
                for (topic, topic_id), partitions in groupby(found, lambda each: each[0][:2])
            ),
            node_endpoints=tuple(
                NodeEndpoint(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack or None)
                for broker_id, endpoint, rack in self._leaders.endpoints(leaders)
            ),
        )


def _aborted(result: values.FetchPartitionResult) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in result.aborted
    )


def _room_bytes(unread: UnreadResponses | None) -> int | None:
    return None if unread is None else unread.room_bytes()


def _read(fetch: PendingFetch, unread: UnreadResponses | None, response: values.FetchResponse) -> None:
    """Count the response at once, so that other fetches that read now see it."""
    size_bytes = sum(len(result.records) for result in response.partitions)
    has_room = unread is None or unread.takes(size_bytes)
    if unread is not None and has_room:
        unread.made(size_bytes)
    fetch.read(response, has_room, asyncio.get_running_loop().time())


def _named(request: FetchRequest) -> list[tuple[FetchKey, FetchPartition]]:
    return [
        (FetchKey(topic.topic, topic.topic_id, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: FetchRequest) -> Iterable[FetchKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield FetchKey(topic.topic, topic.topic_id, partition)


def _unknown(key: FetchKey) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
