"""Fetch: return committed record batches to consumers. Followers fetch over the GRPC listener instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kraft.model import fetch as values
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.list_offsets import READ_COMMITTED
from kraft.server.access.asker import Asker, Askers
from kraft.server.access.data_audit import DataAudit
from kraft.server.access.record_guards import NONE_HIDDEN, hidden_in_turns, hidden_topics
from kraft.server.handlers.fetch import PARTITIONS_AT_ONCE, Room
from kraft.server.kafka_listener.apis.leaders import NO_LEADER, Leaders
from kraft.server.kafka_listener.encoded_responses import encoded_in_thread
from kraft.server.kafka_listener.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchKey,
    FetchSession,
    SharedFetches,
)
from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage
from kraft.server.loop.turns import collected, pieces
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.fetch import (
    DEBUGGING_CONSUMER,
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

_ENTRY_BYTES_MIN: Final = 3
"""Size of the shortest topic without partitions. What else a request has lists of takes more."""

_Found = list[tuple[FetchKey, PartitionData]]

_Response = FetchResponse | EncodedMessage

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
    of_replica: bool
    asker: Asker | None = None
    """Who has to be asked again after a wait; None if everybody may fetch."""

    hidden: frozenset[str] = NONE_HIDDEN
    """Topics that it may not read."""

    @property
    def has_errors(self) -> bool:
        """Return whether some of it is not read at all."""
        return bool(self.hidden) or any(each.topic is None for each in self.wanted)

    def partitions(self) -> Iterator[values.FetchPartition]:
        """Yield what is read."""
        for _, topic, partition in self.wanted:
            if topic is not None and topic not in self.hidden:
                yield values.FetchPartition(
                    topic=topic,
                    partition=partition.partition,
                    fetch_offset=partition.fetch_offset,
                    partition_max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                )

    def topics(self) -> Iterator[str]:
        """Yield the topics that are read, a name once for each of its partitions."""
        return (each.topic for each in self.wanted if each.topic is not None and each.topic not in self.hidden)

    def asked_again(self) -> Asker | None:
        """Return who has to be asked, if the ACLs have changed while the fetch waited."""
        now = None if self.asker is None else self.asker.now()
        return None if now is self.asker else now

    def results(self, response: values.FetchResponse, hidden: frozenset[str]) -> Iterator[tuple[FetchKey, _Result]]:
        """Yield the results in the order of `wanted`, or the error code that there is instead.

        `hidden`: topics that the client may not read by now.
        """
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

    def __call__(self, request: FetchRequest, call: ConnectionContext) -> Awaitable[_Response] | _Response:
        if max(_replica_ids(request)) >= 0:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=())
        quota = call.fetch_quota
        if quota is not None and quota.wait_ms and request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # No session begins with a response without its partitions: the client asks for one again.
            self._sessions.end(request.session_id)
            return FetchResponse(session_id=NO_SESSION, responses=())
        try:
            session = self._entered(request, uses_topic_ids=call.version >= _TOPIC_IDS_FROM)
            if _is_long(request, session, call):
                return self._answer_in_turns(request, session, call)
            if session is not None:
                session.change(_named(request), _forgotten(request))
                session = self._counted(request, session)
        except Refusal as refusal:
            return FetchResponse(error_code=refusal.error_code, responses=())
        if quota is not None and quota.wait_ms:
            return FetchResponse(session_id=NO_SESSION if session is None else session.session_id, responses=())
        wanted = _named(request) if session is None else session.wanted
        fetch = self._fetch(request, wanted, session, call)
        if self._reads is not None:
            self._reads.used(call.principal, call.peer, fetch.topics())
        begun = self._begun(fetch, list(fetch.partitions()), request, call)
        if isinstance(begun, Awaitable) or len(fetch.wanted) >= PARTITIONS_AT_ONCE:
            return self._respond_later(fetch, begun, call.version)
        return self._response(fetch, [self._found(fetch, *each) for each in fetch.results(begun, fetch.hidden)])

    async def _answer_in_turns(
        self, request: FetchRequest, session: FetchSession | None, call: ConnectionContext
    ) -> _Response:
        """Answer a fetch of so many partitions, or with so many changes of its session, that others have turns."""
        if session is not None:
            async for forgotten in pieces(_forgotten(request), PARTITIONS_AT_ONCE):
                session.change((), forgotten)
            async for added in pieces(_named(request), PARTITIONS_AT_ONCE):
                session.change(added, ())
            try:
                session = self._counted(request, session)
            except Refusal as refusal:
                return FetchResponse(error_code=refusal.error_code, responses=())
        if call.fetch_quota is not None and call.fetch_quota.wait_ms:
            return FetchResponse(session_id=NO_SESSION if session is None else session.session_id, responses=())
        wanted = _named(request) if session is None else session.wanted
        fetch = _Fetch(
            wanted=await collected(self._with_names(wanted), PARTITIONS_AT_ONCE),
            session=session,
            reads_committed=_reads_committed(request),
            of_replica=_is_of_replica(request),
        )
        if self._askers is not None:
            asker = self._askers.at(call.principal, call.peer)
            hidden = await hidden_in_turns(asker, (each.topic for each in fetch.wanted if each.topic is not None))
            asker.is_refused(Operation.READ, ResourceType.TOPIC, hidden)
            fetch = replace(fetch, asker=asker, hidden=hidden)
        if self._reads is not None:
            async for topics in pieces(fetch.topics(), PARTITIONS_AT_ONCE):
                self._reads.used(call.principal, call.peer, topics)
        partitions = await collected(fetch.partitions(), PARTITIONS_AT_ONCE)
        return await self._respond_later(fetch, self._begun(fetch, partitions, request, call), call.version)

    def _with_names(self, wanted: Iterable[tuple[FetchKey, FetchPartition]]) -> Iterator[_WantedPartition]:
        for key, partition in wanted:
            yield _WantedPartition(key, self._leaders.topic_name(key.topic, key.topic_id), partition)

    def _fetch(
        self,
        request: FetchRequest,
        wanted: Iterable[tuple[FetchKey, FetchPartition]],
        session: FetchSession | None,
        call: ConnectionContext,
    ) -> _Fetch:
        named = list(self._with_names(wanted))
        reads_committed = _reads_committed(request)
        if self._askers is None:
            return _Fetch(
                wanted=named, session=session, reads_committed=reads_committed, of_replica=_is_of_replica(request)
            )
        asker = self._askers.at(call.principal, call.peer)
        hidden = hidden_topics(asker, [topic for _, topic, _ in named if topic is not None])
        if hidden:
            asker.is_refused(Operation.READ, ResourceType.TOPIC, hidden)
        return _Fetch(
            wanted=named,
            session=session,
            reads_committed=reads_committed,
            of_replica=_is_of_replica(request),
            asker=asker,
            hidden=hidden,
        )

    def _begun(
        self,
        fetch: _Fetch,
        partitions: list[values.FetchPartition],
        request: FetchRequest,
        call: ConnectionContext,
    ) -> Awaitable[values.FetchResponse] | values.FetchResponse:
        """Begin to read the partitions: wait for records, and return as many bytes, as the request and quotas say."""
        quota = call.fetch_quota
        bytes_max = request.max_bytes if quota is None else quota.at_most(request.max_bytes)
        wait_ms = request.max_wait_ms
        if call.frame_bytes > LARGE_FROM_BYTES:
            wait_ms = min(wait_ms, LARGE_WAIT_MS_MAX)
        crowded_ms = wait_ms if self._waiting.has_room(len(fetch.wanted)) else min(wait_ms, CROWDED_WAIT_MS_MAX)
        return self._begin(
            values.FetchRequest(
                request_id=0,
                # An error is told without waiting.
                max_wait_ms=0 if fetch.has_errors else crowded_ms,
                min_bytes=min(request.min_bytes, bytes_max),
                max_bytes=bytes_max,
                partitions=partitions,
                reads_committed=fetch.reads_committed,
                of_replica=fetch.of_replica,
            ),
            None if call.unread is None else Room(call.unread, wait_ms),
        )

    async def _respond_later(
        self, fetch: _Fetch, begun: Awaitable[values.FetchResponse] | values.FetchResponse, version: int
    ) -> _Response:
        self._waiting.hold(fetch, len(fetch.wanted))
        try:
            response = await begun if isinstance(begun, Awaitable) else begun
            hidden, now = fetch.hidden, fetch.asked_again()
            if now is not None and len(fetch.wanted) < PARTITIONS_AT_ONCE:
                hidden = _hidden_by_now(fetch, now, response)
            elif now is not None:
                hidden |= await hidden_in_turns(now, (each.topic for each in response.partitions))
                now.is_refused(Operation.READ, ResourceType.TOPIC, hidden - fetch.hidden)
            found: _Found = []
            async for piece in pieces(fetch.results(response, hidden), PARTITIONS_AT_ONCE):
                found += [self._found(fetch, *each) for each in piece]
            if len(found) <= PARTITIONS_AT_ONCE:
                return self._response(fetch, found)
            return await self._response_in_turns(fetch, found, version)
        finally:
            self._waiting.release(fetch)

    def _entered(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | None:
        """Return the session of the request, without its changes; None without a session. Raises Refusal."""
        now_ms = self._monotonic_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.end(request.session_id)
            if request.session_epoch == FINAL_EPOCH or not request.topics:
                return None
            return self._sessions.begin(uses_topic_ids, now_ms)
        return self._sessions.resume(request.session_id, request.session_epoch, uses_topic_ids, now_ms)

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
            current_leader=_NOBODY
            if leader_id == NO_LEADER[0]
            else LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            aborted_transactions=_aborted(result) if reads_committed else None,
            records=result.records,
        )

    def _counted(self, request: FetchRequest, session: FetchSession) -> FetchSession | None:
        """Return the session after its changes; None if there is no room for a new one.

        Raises Refusal if there is none for an old one.
        """
        if self._sessions.has_room_for(session):
            return session
        if request.session_epoch == INITIAL_EPOCH:
            return None
        raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "fetch sessions hold too many partitions")

    def _response(self, fetch: _Fetch, found: _Found) -> FetchResponse:
        if fetch.session is not None:
            # The first response of a session names every partition, since the client knows nothing yet.
            found = fetch.session.news(found)
        return self._response_of(fetch, found, tuple(_topics(found)))

    async def _response_in_turns(self, fetch: _Fetch, found: _Found, version: int) -> EncodedMessage:
        if fetch.session is not None:
            all_of_them, found = found, []
            async for piece in pieces(all_of_them, PARTITIONS_AT_ONCE):
                found += fetch.session.news(piece)
        topics = await collected(_topics(found), PARTITIONS_AT_ONCE)
        return await encoded_in_thread(self._response_of(fetch, found, tuple(topics)), version)

    def _response_of(self, fetch: _Fetch, found: _Found, topics: tuple[FetchableTopicResponse, ...]) -> FetchResponse:
        leaders = {data.current_leader.leader_id for _, data in found}
        return FetchResponse(
            session_id=NO_SESSION if fetch.session is None else fetch.session.session_id,
            responses=topics,
            node_endpoints=tuple(
                NodeEndpoint(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack or None)
                for broker_id, endpoint, rack in self._leaders.endpoints(leaders)
            ),
        )


def _replica_ids(request: FetchRequest) -> tuple[int, int]:
    """Return where the request may name who fetches: in its field up to version 14, or in a later one."""
    return request.replica_id, request.replica_state.replica_id


def _is_of_replica(request: FetchRequest) -> bool:
    return DEBUGGING_CONSUMER in _replica_ids(request)


def _reads_committed(request: FetchRequest) -> bool:
    """Return whether only committed records are read: tools that compare replicas read all."""
    return request.isolation_level == READ_COMMITTED and not _is_of_replica(request)


def _topics(found: _Found) -> Iterator[FetchableTopicResponse]:
    for (topic, topic_id), partitions in groupby(found, lambda each: each[0][:2]):
        yield FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(data for _, data in partitions))


def _hidden_by_now(fetch: _Fetch, now: Asker, response: values.FetchResponse) -> frozenset[str]:
    hidden = fetch.hidden | hidden_topics(now, (each.topic for each in response.partitions))
    now.is_refused(Operation.READ, ResourceType.TOPIC, hidden - fetch.hidden)
    return hidden


def _is_long(request: FetchRequest, session: FetchSession | None, call: ConnectionContext) -> bool:
    """Return whether the request or its session names so much that it is answered in turns."""
    if session is not None and len(session) > PARTITIONS_AT_ONCE:
        return True
    if call.frame_bytes <= PARTITIONS_AT_ONCE * _ENTRY_BYTES_MIN:
        return False
    added, forgotten = request.topics, request.forgotten_topics_data
    partitions = sum(len(each.partitions) for each in added) + sum(len(each.partitions) for each in forgotten)
    return len(added) + len(forgotten) + partitions > PARTITIONS_AT_ONCE


def _aborted(result: values.FetchPartitionResult) -> tuple[AbortedTransaction, ...]:
    return tuple(
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in result.aborted
    )


def _named(request: FetchRequest) -> Iterator[tuple[FetchKey, FetchPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield FetchKey(topic.topic, topic.topic_id, partition.partition), partition


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


_NOBODY: Final = _refused(FetchKey("", ZERO_UUID, 0), ErrorCode.NONE).current_leader
"""The default itself, which the encoder recognizes without a comparison."""
