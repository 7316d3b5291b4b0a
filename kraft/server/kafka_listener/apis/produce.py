"""Produce: append or copy record batches at once, and answer when the replicas have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final
from uuid import UUID

from kraft.log.format.record_batch import Buffer
from kraft.model import produce as values
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, RecordError, Refusal
from kraft.server.access.asker import Asker, Askers
from kraft.server.access.data_audit import DataAudit
from kraft.server.access.record_guards import transaction_refusal
from kraft.server.handlers.long_produces import PackedEntries
from kraft.server.handlers.produce_verification import TransactionSupport
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produced import ProducedTopic, encode_produced
from kraft.server.kafka_listener.encoded_responses import encoded_in_thread
from kraft.server.kafka_listener.kept_frame import KeptFrame
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage
from kraft.server.loop.turns import Turns, collected, pieces
from kraft.server.replica.waiting_appends import WaitingClient
from kraft.wire.schema.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

Begin = Callable[
    [values.ProduceRequest, WaitingClient | None, TransactionSupport],
    Awaitable[values.ProduceResponse | None] | values.ProduceResponse | None,
]
"""Does not need the records' bytes after it returns. Returns the response itself if there is nothing to wait for."""

RefuseUnknown = Callable[[UUID, int, Buffer], None]
"""Called with topic id, partition and records that are refused because the topic id is unknown."""

RESULTS_AT_ONCE: Final = 1_000
"""Results of a response that are converted before other tasks have their turn."""

_TOPIC_TURNS: Final = 4
"""A topic, about which the authorizer is asked, takes as long as so many partitions."""

_ABORTABLE_FROM: Final = 11
_ADDS_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_NOBODY: Final = LeaderIdAndEpoch()

_Begun = Awaitable[values.ProduceResponse | None] | values.ProduceResponse | None

_Response = EncodedMessage | ProduceResponse | None


class ProduceApi:
    def __init__(
        self,
        begin: Begin,
        leaders: Leaders,
        refuse_unknown: RefuseUnknown,
        askers: Askers | None = None,
        writes: DataAudit | None = None,
    ) -> None:
        """`askers`: None if everybody may produce. `writes`: None if nobody wants to know who does."""
        self._writes = writes
        self._begin = begin
        self._leaders = leaders
        self._refuse_unknown = refuse_unknown
        self._askers = askers

    def __call__(self, request: ProduceRequest, call: ConnectionContext) -> Awaitable[_Response] | _Response:
        if call.kept is not None:
            return self._produce_in_turns(request, call, call.kept)
        topics: list[ProducedTopic] = []
        wanted: list[values.ProducePartition] = []
        asker = None if self._askers is None else self._askers.at(call.principal, call.peer)
        of_all = None if asker is None else _transaction_refusal(asker, request)
        for topic in request.topic_data:
            name = self._named(topic, asker, of_all, topics)
            if topics[-1].refusal is not None:
                continue
            for each in topic.partition_data:
                records = each.records or b""
                if name is None:
                    self._refuse_unknown(topic.topic_id, each.index, records)
                else:
                    wanted.append(values.ProducePartition(topic=name, partition=each.index, records=records))
        if self._writes is not None:
            self._writes.used(call.principal, call.peer, [each.name for each in topics if each.name is not None])
        # The records are appended or copied when this returns: their bytes belong to the receive buffer.
        begun = self._begun(request, wanted, call)
        if begun is None or isinstance(begun, values.ProduceResponse):
            return self._respond(topics, begun, call.version)
        return self._respond_when_there(topics, begun, call.version)

    def _named(
        self, topic: TopicProduceData, asker: Asker | None, of_all: Refusal | None, topics: list[ProducedTopic]
    ) -> str | None:
        """Add the topic to those of the response, with its refusal if there is one. Return its name."""
        name = topic.name or self._leaders.topic_name(topic.name, topic.topic_id)
        indexes = [each.index for each in topic.partition_data]
        if asker is not None and name is not None and (of_all is not None or not asker.may_write(name)):
            refused = of_all or asker.refusal(Operation.WRITE, ResourceType.TOPIC, name)
            topics.append(ProducedTopic(topic.name, topic.topic_id, None, indexes, refused))
        else:
            topics.append(ProducedTopic(topic.name, topic.topic_id, name, indexes))
        return name

    def _begun(self, request: ProduceRequest, wanted: list[values.ProducePartition], call: ConnectionContext) -> _Begun:
        try:
            return self._begin(
                values.ProduceRequest(
                    request_id=0,
                    acks=request.acks,
                    timeout_ms=request.timeout_ms,
                    partitions=wanted,
                    transactional_id=request.transactional_id or "",
                ),
                call.waiting,
                _SUPPORT[call.version],
            )
        except Refusal as refusal:
            raise _failed_unanswered(refusal) from None

    async def _produce_in_turns(self, request: ProduceRequest, call: ConnectionContext, kept: KeptFrame) -> _Response:
        """Answer a request of so many topics or partitions that others have turns. Its records are copies."""
        version = call.version
        topics, begun = await self._begin_in_turns(request, call)
        kept.release()
        # Many requests wait at a time, which need not hold their records.
        del request, call
        return await self._respond_in_turns(topics, begun, version)

    async def _begin_in_turns(
        self, request: ProduceRequest, call: ConnectionContext
    ) -> tuple[list[ProducedTopic], _Begun]:
        turns, topics = Turns(RESULTS_AT_ONCE), list[ProducedTopic]()
        places, kept = list[tuple[str, int]](), list[Buffer]()
        unknown: list[tuple[UUID, PartitionProduceData]] = []
        asker = None if self._askers is None else self._askers.at(call.principal, call.peer)
        of_all = None if asker is None else _transaction_refusal(asker, request)
        for topic in request.topic_data:
            name = self._named(topic, asker, of_all, topics)
            if name is None:
                unknown += ((topic.topic_id, each) for each in topic.partition_data)
            elif topics[-1].refusal is None:
                places += ((name, each.index) for each in topic.partition_data)
                kept += (each.records or b"" for each in topic.partition_data)
            await turns.done(_TOPIC_TURNS + len(topic.partition_data))
        if self._writes is not None:
            async for piece in pieces(topics, RESULTS_AT_ONCE):
                self._writes.used(call.principal, call.peer, [each.name for each in piece if each.name is not None])
        # They are only read, as any sequence may be.
        entries: Any = PackedEntries(places, kept)
        begun = self._begun(request, entries, call)
        for topic_id, each in unknown:
            # The client's next request is handled after the refusals are noted.
            self._refuse_unknown(topic_id, each.index, each.records or b"")
            await turns.done()
        return topics, begun

    async def _respond_in_turns(self, topics: list[ProducedTopic], begun: _Begun, version: int) -> _Response:
        answer = await _answer(begun) if isinstance(begun, Awaitable) else begun
        if answer is None:
            return self._respond(topics, None, version)
        usual = await asyncio.to_thread(encode_produced, topics, answer.partitions, version)
        if usual is not None:
            return EncodedMessage(ProduceResponse, usual)
        results = await collected(map(self._partition, answer.partitions), RESULTS_AT_ONCE)
        partitions, turns, responses = iter(results), Turns(RESULTS_AT_ONCE), list[TopicProduceResponse]()
        for topic in topics:
            responses.append(_topic(topic, partitions, version))
            await turns.done(1 + len(topic.partitions))
        return await encoded_in_thread(self._response(responses), version)

    async def _respond_when_there(
        self, topics: list[ProducedTopic], begun: Awaitable[values.ProduceResponse | None], version: int
    ) -> _Response:
        answer = await _answer(begun)
        return self._respond(topics, answer, version)

    def _respond(self, topics: list[ProducedTopic], answer: values.ProduceResponse | None, version: int) -> _Response:
        if answer is None:
            for topic in topics:
                if topic.refusal is not None:
                    raise _failed_unanswered(topic.refusal)
                if topic.name is None:
                    raise CloseConnection("produce request with acks=0 failed: unknown topic id")
            return None
        if (usual := encode_produced(topics, answer.partitions, version)) is not None:
            return EncodedMessage(ProduceResponse, usual)
        partitions = map(self._partition, answer.partitions)
        return self._response([_topic(topic, partitions, version) for topic in topics])

    def _response(self, responses: Sequence[TopicProduceResponse]) -> ProduceResponse:
        leaders = {each.current_leader.leader_id for topic in responses for each in topic.partition_responses}
        return ProduceResponse(
            responses=tuple(responses),
            node_endpoints=tuple(
                NodeEndpoint(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=rack or None)
                for broker_id, endpoint, rack in self._leaders.endpoints(leaders)
            ),
        )

    def _partition(self, result: values.ProducePartitionResult) -> PartitionProduceResponse:
        if result.error_code is not ErrorCode.NONE:
            leader_id, leader_epoch = self._leaders.current_leader(result.topic, result.partition, result.error_code)
            return _refused(
                result.partition,
                result.error_code,
                result.error_message,
                LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
                result.record_errors,
            )
        return PartitionProduceResponse(
            index=result.partition,
            error_code=ErrorCode.NONE,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )


def _transaction_refusal(asker: Asker, request: ProduceRequest) -> Refusal | None:
    records = [each.records or b"" for topic in request.topic_data for each in topic.partition_data]
    return transaction_refusal(asker, request.transactional_id or "", records)


async def _answer(begun: Awaitable[values.ProduceResponse | None]) -> values.ProduceResponse | None:
    try:
        return await begun
    except Refusal as refusal:
        raise _failed_unanswered(refusal) from None


def _topic(topic: ProducedTopic, partitions: Iterator[PartitionProduceResponse], version: int) -> TopicProduceResponse:
    if topic.name is None:
        # In older versions the name is missing, not the id.
        code = ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_IDS_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = ""
        if topic.refusal is not None:
            # A topic that is given by its id is not named.
            code, message = topic.refusal.error_code, topic.refusal.message if topic.topic else ""
        unknown = tuple(_refused(partition, code, message) for partition in topic.partitions)
        return TopicProduceResponse(name=topic.topic, topic_id=topic.topic_id, partition_responses=unknown)
    found = tuple(islice(partitions, len(topic.partitions)))
    return TopicProduceResponse(name=topic.topic, topic_id=topic.topic_id, partition_responses=found)


def _support(version: int) -> TransactionSupport:
    if version >= _ADDS_FROM:
        return TransactionSupport.ADDS
    return TransactionSupport.ABORTABLE if version >= _ABORTABLE_FROM else TransactionSupport.VERIFIES


_SUPPORT: Final = {version: _support(version) for version in ProduceRequest.versions}


def _failed_unanswered(refusal: Refusal) -> CloseConnection:
    """Return the error that closes the connection: with acks=0, a producer can get no other sign of a failure."""
    return CloseConnection(f"produce request with acks=0 failed: {refusal}")


def _refused(
    partition: int,
    code: ErrorCode,
    message: str = "",
    leader: LeaderIdAndEpoch = _NOBODY,
    record_errors: Sequence[RecordError] = (),
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition,
        error_code=code,
        base_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.error_message)
            for each in record_errors
        ),
        error_message=message or None,
        current_leader=leader,
    )
