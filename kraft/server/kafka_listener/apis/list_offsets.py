"""ListOffsets: look up the first and last offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from kraft.model import list_offsets as values
from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.server.kafka_listener.apis.leaders import Leaders
from kraft.server.kafka_listener.connection import CloseConnection
from kraft.server.kafka_listener.repeated_refusals import REPEATED_MIN, RepeatedRefusals
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED: Final = 1
"""Isolation level of a consumer of committed records."""

Handle = Callable[[values.ListOffsetsRequest], Awaitable[values.ListOffsetsResponse]]

_SPECIAL_FROM: Final[Mapping[int, int]] = {
    values.MAX_TIMESTAMP: 7,
    values.EARLIEST_LOCAL_TIMESTAMP: 8,
    values.LATEST_TIERED_TIMESTAMP: 9,
    values.EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""First version that defines each special timestamp: KIP-734, KIP-405, KIP-1005, KIP-1023."""


class ListOffsetsApi:
    def __init__(self, handle: Handle, leaders: Leaders, broker_id: BrokerId, monotonic_ms: Callable[[], int]) -> None:
        """`broker_id` is the broker that answers."""
        self._handle = handle
        self._leaders = leaders
        self._broker_id = broker_id
        self._monotonic_ms = monotonic_ms

    async def __call__(self, request: ListOffsetsRequest, call: ConnectionContext) -> ListOffsetsResponse:
        answer = await self._handle(
            values.ListOffsetsRequest(
                partitions=[
                    values.ListOffsetsPartition(
                        topic=topic.name,
                        partition=partition.partition_index,
                        timestamp_ms=partition.timestamp,
                        current_leader_epoch=partition.current_leader_epoch,
                    )
                    for topic in request.topics
                    for partition in topic.partitions
                    if _is_known(partition, call.version)
                ],
                reads_committed=request.isolation_level == READ_COMMITTED,
            )
        )
        if call.repeated is not None:
            self._check_repeated(answer.partitions, call.repeated)
        results = iter(answer.partitions)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(_partition(each, results, call.version) for each in topic.partitions),
                )
                for topic in request.topics
            )
        )

    def _check_repeated(self, results: Iterable[values.ListOffsetsPartitionResult], repeated: RepeatedRefusals) -> None:
        """Raise CloseConnection if the client only repeats a request for partitions that another broker leads.

        A client that has refreshed its metadata also comes here while this broker does not know yet that it leads, or
        while nobody leads.
        """
        elsewhere = frozenset(
            (each.topic, each.partition)
            for each in results
            if each.error_code is not ErrorCode.NONE and self._is_led_elsewhere(each)
        )
        if not elsewhere:
            repeated.answered()
        elif repeated.are_endless(elsewhere, self._monotonic_ms()):
            topic, partition = min(elsewhere)
            raise CloseConnection(
                f"ListOffsets was repeated {REPEATED_MIN} times for partitions that other brokers lead, {topic}-"
                f"{partition} the first: the client does not refresh its metadata, and does when its connection closes"
            )

    def _is_led_elsewhere(self, result: values.ListOffsetsPartitionResult) -> bool:
        leader_id, _ = self._leaders.current_leader(result.topic, result.partition, result.error_code)
        return leader_id not in (NO_BROKER, self._broker_id)


def _is_known(partition: ListOffsetsPartition, version: int) -> bool:
    return version >= _SPECIAL_FROM.get(partition.timestamp, 0)


def _partition(
    asked: ListOffsetsPartition, results: Iterator[values.ListOffsetsPartitionResult], version: int
) -> ListOffsetsPartitionResponse:
    if not _is_known(asked, version):
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNSUPPORTED_VERSION
        )
    result = next(results)
    return ListOffsetsPartitionResponse(
        partition_index=result.partition,
        error_code=result.error_code,
        timestamp=result.timestamp_ms,
        offset=result.offset,
        # The epoch of the record found; -1 if none was found.
        leader_epoch=result.leader_epoch if result.offset >= 0 else -1,
    )
