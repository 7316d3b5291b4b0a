"""Fetch: return committed record batches to consumers. Followers fetch over the GRPC listener instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct

from kraft.model import fetch as values
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.list_offsets import READ_COMMITTED
from kraft.server.access.asker import Asker, Askers
from kraft.server.access.data_audit import DataAudit
from kraft.server.access.record_guards import NONE_HIDDEN, hidden_topics
from kraft.server.handlers.fetch import PARTITIONS_AT_ONCE, Room
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchKey,
    FetchSession,
    SharedFetches,
)
from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES
from kraft.server.kafka_listener.requests import ConnectionContext
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

Begin = Callable[[values.FetchRequest, Room | None], Awaitable[values.FetchResponse] | values.FetchResponse]
"""Returns the response itself, not an awaitable, if enough records are there already."""

_TOPIC_IDS_FROM: Final = 13

WAITING_PARTITIONS_MAX: Final = 50_000
"""Maximum number of partitions of all waiting fetches; further fetches wait at most CROWDED_WAIT_MS_MAX, since a
waiting fetch takes memory."""

CROWDED_WAIT_MS_MAX: Final = 100

LARGE_WAIT_MS_MAX: Final = 500
"""Maximum wait of a large fetch, since others may wait for its turn to end. Clients ask for this by default."""

_Found = list[tuple[FetchKey, PartitionData]]

_Result = values.FetchPartitionResult | ErrorCode
"""What is found in a partition, or why it is not read at all."""


class _WantedPartition(NamedTuple):
    key: FetchKey
    topic: str | None
    """None if the topic id is unknown."""

    partition: FetchPartition


class _Fetch(Struct, frozen=True, kw_only=True, eq=False):
    """What a client fetches: the partitions that its request names, or those of its session."""

    wanted: list[_WantedPartition]
    session: FetchSession | None
    reads_committed: bool
    asker: Asker | None = None
    """Who has to be asked again after a wait; None if everybody may fetch."""

    hidden: frozenset[str] = NONE_HIDDEN
    """Topics that it may not read."""

    def request(self, request: FetchRequest, wait_ms: int, bytes_max: int) -> values.FetchRequest:
        """Return the request to the handler, which waits at most `wait_ms` for records, and returns `bytes_max`."""
        return values.FetchRequest(
            request_id=0,
            # An unknown topic id is answered without waiting.
            max_wait_ms=0 if self.hidden or any(each.topic is None for each in self.wanted) else wait_ms,
            min_bytes=min(request.min_bytes, bytes_max),
            max_bytes=bytes_max,
            partitions=[
                values.FetchPartition(
                    topic=topic,
                    partition=partition.partition,
                    fetch_offset=partition.fetch_offset,
                    partition_max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                )
                for _, topic, partition in self.wanted
                if topic is not None and topic not in self.hidden
            ],
            reads_committed=self.reads_committed,
        )

    def topics(self) -> list[str]:
        """Return the topics that are read, a name once for each of its partitions."""
        return [each.topic for each in self.wanted if each.topic is not None and each.topic not in self.hidden]

    def hidden_now(self, response: values.FetchResponse) -> frozenset[str]:
        """Return the topics that it may not read, now that it has waited."""
        if self.asker is None or (now := self.asker.now()) is self.asker:
            return self.hidden
        # The ACLs have changed meanwhile.
        hidden = self.hidden | hidden_topics(now, (each.topic for each in response.partitions))
        now.is_refused(Operation.READ, ResourceType.TOPIC, hidden - self.hidden)
        return hidden

    def results(self, response: values.FetchResponse, hidden: frozenset[str]) -> Iterator[tuple[FetchKey, _Result]]:
        """Return the results in the order of `wanted`, or the error code that there is instead."""
        results = iter(response.partitions)
        for key, topic, _ in self.wanted:
            if topic is None:
                yield key, ErrorCode.UNKNOWN_TOPIC_ID
                continue
            result = None if topic in self.hidden else next(results)
            yield key, ErrorCode.TOPIC_AUTHORIZATION_FAILED if result is None or topic in hidden else result


class FetchApi:
    def __init__(
        self,
        begin: Begin,
        leaders: Leaders,
        shared: SharedFetches,
        askers: Askers | None = None,
        reads: DataAudit | None = None,
    ) -> None:
        """`askers`: None if everybody may fetch. `reads`: None if nobody wants to know who does."""
        self._reads = reads
        self._askers = askers
        self._begin = begin
        self._leaders = leaders
        self._sessions = shared.sessions
        self._waiting = shared.waiting
        self._monotonic_ms = shared.monotonic_ms

    def __call__(self, request: FetchRequest, call: ConnectionContext) -> Awaitable[FetchResponse] | FetchResponse:
        if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
        quota = call.fetch_quota
        if quota is not None and quota.wait_ms and request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # No session begins with a response without its partitions: the client asks for one again.
            self._sessions.end(request.session_id)
            return FetchResponse(session_id=NO_SESSION, responses=())
        try:
            session = self._session(request, uses_topic_ids=call.version >= _TOPIC_IDS_FROM)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.error_code, responses=())
        if quota is not None and quota.wait_ms:
            return FetchResponse(session_id=NO_SESSION if session is None else session.session_id, responses=())
        wanted = _named(request) if session is None else session.wanted
        fetch = self._fetch(request, wanted, session, call)
        if self._reads is not None:
            self._reads.used(call.principal, call.peer, fetch.topics())
        wait_ms = (
            min(request.max_wait_ms, LARGE_WAIT_MS_MAX) if call.frame_bytes > LARGE_FROM_BYTES else request.max_wait_ms
        )
        is_crowded = not self._waiting.has_room(len(wanted))
        begun = self._begin(
            fetch.request(
                request,
                min(wait_ms, CROWDED_WAIT_MS_MAX) if is_crowded else wait_ms,
                request.max_bytes if quota is None else quota.at_most(request.max_bytes),
            ),
            None if call.unread is None else Room(call.unread, wait_ms),
        )
        if isinstance(begun, Awaitable) or len(wanted) >= PARTITIONS_AT_ONCE:
            return self._respond_later(fetch, begun)
        return self._response(fetch, [self._found(fetch, *each) for each in fetch.results(begun, fetch.hidden)])

    def _fetch(
        self,
        request: FetchRequest,
        wanted: list[tuple[FetchKey, FetchPartition]],
        session: FetchSession | None,
        call: ConnectionContext,
    ) -> _Fetch:
        named = [
            _WantedPartition(key, self._leaders.topic_name(key.topic, key.topic_id), partition)
            for key, partition in wanted
        ]
        reads_committed = request.isolation_level == READ_COMMITTED
        if self._askers is None:
            return _Fetch(wanted=named, session=session, reads_committed=reads_committed)
        asker = self._askers.at(call.principal, call.peer)
        hidden = hidden_topics(asker, [topic for _, topic, _ in named if topic is not None])
        if hidden:
            asker.is_refused(Operation.READ, ResourceType.TOPIC, hidden)
        return _Fetch(wanted=named, session=session, reads_committed=reads_committed, asker=asker, hidden=hidden)

    async def _respond_later(
        self, fetch: _Fetch, begun: Awaitable[values.FetchResponse] | values.FetchResponse
    ) -> FetchResponse:
        self._waiting.hold(fetch, len(fetch.wanted))
        try:
            response = await begun if isinstance(begun, Awaitable) else begun
            turns, found = Turns(PARTITIONS_AT_ONCE), list[tuple[FetchKey, PartitionData]]()
            for each in fetch.results(response, fetch.hidden_now(response)):
                found.append(self._found(fetch, *each))
                await turns.done()
            return self._response(fetch, found)
        finally:
            self._waiting.release(fetch)

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

    def _found(self, fetch: _Fetch, key: FetchKey, result: _Result) -> tuple[FetchKey, PartitionData]:
        if isinstance(result, ErrorCode):
            return key, _refused(key, result)
        return key, self._partition(result, fetch.reads_committed)

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

    def _response(self, fetch: _Fetch, found: _Found) -> FetchResponse:
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


def _refused(key: FetchKey, error_code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        error_code=error_code,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
