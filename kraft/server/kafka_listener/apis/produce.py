"""Produce: append or copy record batches at once, and answer when the replicas have them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from kraft.log.format.record_batch import HEADER_BYTES, Buffer
from kraft.model import produce as values
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, RecordError, Refusal
from kraft.server.access.asker import Asker, Askers
from kraft.server.access.data_audit import DataAudit
from kraft.server.access.record_guards import transaction_refusal
from kraft.server.handlers.long_produces import LONG_FROM, PackedEntries
from kraft.server.handlers.produce_verification import TransactionSupport
from kraft.server.kafka_listener.answering import CloseConnection
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.apis.produced import ProducedTopic, encode_produced
from kraft.server.kafka_listener.requests import ConnectionContext, EncodedMessage
from kraft.server.loop.turns import Turns
from kraft.server.replica.waiting_appends import WaitingClient
from kraft.wire.schema.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
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

_ENTRY_BYTES_MIN: Final = 6
"""Size of an entry without records: its partition, a length and no tagged fields."""

_ABORTABLE_FROM: Final = 11
_ADDS_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_NOBODY: Final = LeaderIdAndEpoch()

_Begun = Awaitable[values.ProduceResponse | None] | values.ProduceResponse | None

_Unknown = tuple[UUID, int, bytes]
"""Topic id, partition, and the header of the records' first batch."""

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
        topics: list[ProducedTopic] = []
        wanted: list[values.ProducePartition] = []
        packed = _Packed() if _is_long(request, call) else None
        unknown: list[_Unknown] = []
        asker = None if self._askers is None else self._askers.at(call.principal, call.peer)
        of_all = None if asker is None else _transaction_refusal(asker, request)
        for topic in request.topic_data:
            name = topic.name or self._leaders.topic_name(topic.name, topic.topic_id)
            if asker is not None and name is not None and (of_all is not None or not asker.may_write(name)):
                refused = of_all or asker.refusal(Operation.WRITE, ResourceType.TOPIC, name)
                indexes = [each.index for each in topic.partition_data]
                topics.append(ProducedTopic(topic.name, topic.topic_id, None, indexes, refused))
                continue
            partitions: list[int] = []
            topics.append(ProducedTopic(topic.name, topic.topic_id, name, partitions))
            for each in topic.partition_data:
                partitions.append(each.index)
                records = each.records or b""
                if name is None and packed is not None:
                    unknown.append((topic.topic_id, each.index, bytes(records[:HEADER_BYTES])))
                elif name is None:
                    self._refuse_unknown(topic.topic_id, each.index, records)
                elif packed is None:
                    wanted.append(values.ProducePartition(topic=name, partition=each.index, records=records))
                else:
                    packed.places.append((name, each.index))
                    packed.records.append(records)
        if self._writes is not None:
            self._writes.used(call.principal, call.peer, [each.name for each in topics if each.name is not None])
        try:
            # The records are appended or copied when this returns: their bytes belong to the receive buffer.
            begun = self._begin(
                values.ProduceRequest(
                    request_id=0,
                    acks=request.acks,
                    timeout_ms=request.timeout_ms,
                    partitions=wanted if packed is None else packed.entries(),
                    transactional_id=request.transactional_id or "",
                ),
                call.waiting,
                _SUPPORT[call.version],
            )
        except Refusal as refusal:
            raise _failed_unanswered(refusal) from None
        if unknown:
            if call.waiting is not None:
                # The client's next request has to be handled after the refusals are noted.
                call.waiting.began()
            return self._respond_in_turns(topics, begun, unknown, call)
        return self._respond_now_or_later(topics, begun, call.version)

    async def _respond_in_turns(
        self, topics: list[ProducedTopic], begun: _Begun, unknown: list[_Unknown], call: ConnectionContext
    ) -> _Response:
        turns = Turns(RESULTS_AT_ONCE)
        try:
            await asyncio.sleep(0)
            response = self._respond_now_or_later(topics, begun, call.version)
            if isinstance(response, Awaitable):
                response = await response
            for topic_id, partition, header in unknown:
                self._refuse_unknown(topic_id, partition, header)
                await turns.done()
        finally:
            if call.waiting is not None:
                call.waiting.ended()
        return response

    def _respond_now_or_later(
        self, topics: list[ProducedTopic], begun: _Begun, version: int
    ) -> Awaitable[_Response] | _Response:
        if begun is None or isinstance(begun, values.ProduceResponse):
            return self._respond(topics, begun, version)
        return self._respond_when_there(topics, begun, version)

    async def _respond_when_there(
        self, topics: list[ProducedTopic], begun: Awaitable[values.ProduceResponse | None], version: int
    ) -> _Response:
        try:
            answer = await begun
        except Refusal as refusal:
            raise _failed_unanswered(refusal) from None
        if answer is None or len(answer.partitions) <= RESULTS_AT_ONCE:
            return self._respond(topics, answer, version)
        if (usual := encode_produced(topics, answer.partitions, version)) is not None:
            return EncodedMessage(ProduceResponse, usual)
        turns, partitions = Turns(RESULTS_AT_ONCE), list[PartitionProduceResponse]()
        for result in answer.partitions:
            partitions.append(self._partition(result))
            await turns.done()
        return self._response(topics, iter(partitions), version)

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
        return self._response(topics, map(self._partition, answer.partitions), version)

    def _response(
        self, topics: list[ProducedTopic], partitions: Iterator[PartitionProduceResponse], version: int
    ) -> ProduceResponse:
        responses = tuple(_topic(topic, partitions, version) for topic in topics)
        leaders = {each.current_leader.leader_id for topic in responses for each in topic.partition_responses}
        return ProduceResponse(
            responses=responses,
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


class _Packed:
    """The entries of a long request, whose values are made when they are needed."""

    def __init__(self) -> None:
        self.places: list[tuple[str, int]] = []
        self.records: list[Buffer] = []

    def entries(self) -> list[values.ProducePartition]:
        # They are only read, as any sequence may be.
        return PackedEntries(self.places, self.records)  # type: ignore[return-value]


def _is_long(request: ProduceRequest, call: ConnectionContext) -> bool:
    # Most frames are too small for that.
    return (
        call.frame_bytes > LONG_FROM * _ENTRY_BYTES_MIN
        and sum(len(topic.partition_data) for topic in request.topic_data) > LONG_FROM
    )


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
