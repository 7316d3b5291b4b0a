"""WriteTxnMarkers and AbortTransaction: write the markers that end transactions into partitions led here.

A coordinator repeats its request until every partition has the marker, so a marker may come twice: the second one ends
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import repeat
from typing import Final

from kraft.coordinator.transactions.transaction import EPOCH_MAX, ProducerIdAndEpoch
from kraft.log.append_work import AppendMustWait, AppendOrigin, ProducedRecords
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.recovery.producer_state import ProducerState
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.callbacks import NowMs
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import Offset, ProducerId, TopicPartition
from kraft.model.produce import ACKS_ALL
from kraft.model.transactions import AbortTransactionRequest, AbortTransactionResponse
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition, ProduceOutcome, code_by_now
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.waiting_appends import WaitingAppend, WaitingAppends
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

WRITTEN_S_MAX: Final = 4.0
"""How long a request waits until the replicas have its markers; the coordinator's deadline is longer."""

AppendGroupMarker = Callable[[int, bytes, AppendOrigin], Awaitable[None]]
"""Appends a marker to a partition of `__consumer_offsets`; ends when it is committed. Raises Refusal."""

CheckHanging = Callable[[ProducerIdAndEpoch, TopicPartition], Awaitable[None]]
"""Raises Refusal unless no coordinator has the partition in a transaction of the producer."""

MARKERS_AT_ONCE: Final = 50
"""Markers appended before other tasks have their turn."""

RESULTS_AT_ONCE: Final = 1_000
"""Results of markers and partitions that are built before other tasks have their turn: 2 microseconds each."""

WAITING_MAX: Final = 256
"""Markers of a request that wait for replicas together: all of them may be there in one turn of the loop."""


class TxnMarkersHandler:
    def __init__(
        self,
        partitions: Partitions,
        waiting: WaitingAppends,
        wall_ms: NowMs,
        append_group_marker: AppendGroupMarker,
        check_hanging: CheckHanging,
    ) -> None:
        self._check_hanging = check_hanging
        self._append_group_marker = append_group_marker
        self._partitions = partitions
        self._waiting = waiting
        self._wall_ms = wall_ms

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Append the markers, and answer when the in-sync replicas have them.

        A partition that took too long has REQUEST_TIMED_OUT, and may get its marker later.
        """
        until_s = loop_time_s() + WRITTEN_S_MAX
        turns = Turns(MARKERS_AT_ONCE)
        codes: list[list[ErrorCode]] = []
        waiting = _WaitingMarkers(until_s)
        try:
            for marker in request.markers:
                of_marker: list[ErrorCode] = []
                codes.append(of_marker)
                for partition in marked(marker):
                    outcome = self._begin(marker, partition, until_s)
                    if isinstance(outcome, ErrorCode):
                        of_marker.append(outcome)
                    else:
                        await waiting.add(outcome, of_marker)
                    await turns.done()
            await waiting.end()
            return await _response(request.markers, codes)
        finally:
            waiting.cancel()

    async def abort(self, request: AbortTransactionRequest) -> AbortTransactionResponse:
        """Write an abort marker for a hanging transaction into one partition. Raises Refusal.

        Any client may ask for it, so it ends only what no coordinator will end: an open transaction that is none of
        theirs. Without an open transaction of the producer there is nothing to do.
        """
        # Raise the Refusal with its message.
        if request.producer_id < 0 or not 0 <= request.producer_epoch <= EPOCH_MAX:
            problem = f"no producer has id {request.producer_id} and epoch {request.producer_epoch}"
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{problem}: describe the producers of the partition")
        before = self._open_transaction(request)
        if before is None:
            return AbortTransactionResponse()
        producer = ProducerIdAndEpoch.of(request.producer_id, request.producer_epoch)
        await self._check_hanging(producer, TopicPartition(request.topic, request.partition))
        after = self._open_transaction(request)
        if after is None or after.transaction_start != before.transaction_start:
            # It ended meanwhile, and the marker would be that of the producer's next transaction.
            return AbortTransactionResponse()
        self._check_nothing_was_added(request, before, after)
        marker = WritableTxnMarker(
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            transaction_result=False,
            topics=(WritableTxnMarkerTopic(name=request.topic, partition_indexes=(request.partition,)),),
            coordinator_epoch=request.coordinator_epoch,
        )
        response = await self.write(WriteTxnMarkersRequest(markers=(marker,)))
        if (code := error_code(response.markers[0].topics[0].partitions[0].error_code)) is not ErrorCode.NONE:
            problem = f"the abort marker was not written into {request.topic}-{request.partition}"
            raise Refusal(code, f"{problem}: describe the producers of the partition again")
        return AbortTransactionResponse()

    def _check_nothing_was_added(
        self, request: AbortTransactionRequest, before: ProducerState, after: ProducerState
    ) -> None:
        """Raise Refusal if the marker might abort what was not there when the coordinators were asked.

        Since then the producer may have begun a transaction with the partition, whose records, in the same epoch, join
        those that hang. The marker is appended, or first in its queue, before the next wait: later ones follow it.
        """
        problem = None
        if after.last_offset != before.last_offset:
            problem = "its producer has written meanwhile"
        elif self._partitions.by_name(request.topic, request.partition).waiting_appends.waiting:
            problem = "records of the partition wait for their turn"
        if problem is not None:
            raise Refusal(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the transaction may not hang, because {problem}: try again"
            )

    def _open_transaction(self, request: AbortTransactionRequest) -> ProducerState | None:
        """Return the producer's state if its transaction is open. Raises Refusal if its epoch is another one."""
        partition = self._partitions.by_name(request.topic, request.partition)
        partition.as_leader()
        state = partition.log.producers.get(ProducerId(request.producer_id))
        if state is None or state.transaction_start is None:
            return None
        if state.epoch != request.producer_epoch:
            problem = f"the open transaction is one of epoch {state.epoch}, not {request.producer_epoch}"
            raise Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, f"{problem}: describe the producers of the partition again")
        return state

    # --- appends -------------------------------------------------------------------------------------------------

    def _begin(self, marker: WritableTxnMarker, named: TopicPartition, until_s: float) -> ProduceOutcome:
        """Append a marker, or queue it behind other appends. Return its outcome, or the future of it."""
        if marker.producer_id < 0 or not 0 <= marker.producer_epoch <= EPOCH_MAX:
            return ErrorCode.INVALID_REQUEST
        if loop_time_s() >= until_s:
            return ErrorCode.REQUEST_TIMED_OUT
        kind = MarkerType.COMMIT if marker.transaction_result else MarkerType.ABORT
        end = EndTransactionMarker(type=kind, coordinator_epoch=marker.coordinator_epoch)
        batch = build_marker(end, marker.producer_id, marker.producer_epoch, self._wall_ms())
        origin = AppendOrigin(is_coordinator=True, transaction_version=marker.transaction_version)
        if named.topic == OFFSETS_TOPIC:
            return asyncio.ensure_future(self._append_to_group(named.partition, batch, origin))
        try:
            partition = self._partitions.by_name(named.topic, named.partition)
            if not partition.waiting_appends.waiting:
                try:
                    return _append_marker(partition, batch, origin)
                except AppendMustWait as wait:
                    return self._queue_append(partition, batch, origin, wait, until_s)
            return self._queue_append(partition, batch, origin, None, until_s)
        except Refusal as refusal:
            return refusal.error_code

    async def _append_to_group(self, partition: int, batch: bytes, origin: AppendOrigin) -> ErrorCode:
        """Append a marker in its turn among the records of a group coordinator."""
        try:
            await self._append_group_marker(partition, batch, origin)
        except Refusal as refusal:
            return refusal.error_code
        return ErrorCode.NONE

    def _queue_append(
        self, partition: Partition, batch: bytes, origin: AppendOrigin, wait: AppendMustWait | None, until_s: float
    ) -> asyncio.Future[ErrorCode]:
        self._waiting.check_room(len(batch))
        outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def ended(code: ErrorCode) -> None:
            if not outcome.done():
                outcome.set_result(code)

        def append(records: ProducedRecords) -> None:
            begun = _append_marker(partition, records, origin)
            if isinstance(begun, ErrorCode):
                ended(begun)
            else:
                begun.add_done_callback(lambda done: ended(code_by_now(done)))
                outcome.add_done_callback(lambda _: begun.cancel())

        self._waiting.join(
            partition.waiting_appends,
            WaitingAppend(
                records=batch,
                work=None if wait is None else wait.work,
                deadline_s=until_s,
                append=append,
                refuse=lambda refusal: ended(refusal.error_code),
            ),
        )
        return outcome


def markers_refused(request: WriteTxnMarkersRequest, refusal: Refusal) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(marker_result(marker, repeat(refusal.error_code)) for marker in request.markers)
    )


def marked(marker: WritableTxnMarker) -> Iterable[TopicPartition]:
    """Return the partitions of a marker, in order."""
    return (TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes)


def marker_result(marker: WritableTxnMarker, codes: Iterable[int]) -> WritableTxnMarkerResult:
    """Return the result of a marker; `codes` are those of its partitions, in order."""
    left = iter(codes)
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(left))
                    for number in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )


async def _response(markers: Iterable[WritableTxnMarker], codes: Iterable[Sequence[int]]) -> WriteTxnMarkersResponse:
    turns = Turns(RESULTS_AT_ONCE)
    results = []
    for marker, of_marker in zip(markers, codes, strict=True):
        results.append(marker_result(marker, of_marker))
        await turns.done(1 + len(of_marker))
    return WriteTxnMarkersResponse(markers=tuple(results))


def _append_marker(partition: Partition, batch: ProducedRecords, origin: AppendOrigin) -> ProduceOutcome:
    """Append now. Raises Refusal and AppendMustWait if nothing was appended."""
    result = partition.append(batch, ACKS_ALL, origin)
    return partition.park_produce(Offset(result.last_offset + 1))


class _WaitingMarkers:
    """Markers of a request that wait for replicas, a few at a time."""

    def __init__(self, until_s: float) -> None:
        """Those that take longer, by the loop's clock, have timed out."""
        self._until_s = until_s
        self._places: list[tuple[asyncio.Future[ErrorCode], list[ErrorCode], int]] = []

    async def add(self, outcome: asyncio.Future[ErrorCode], codes: list[ErrorCode]) -> None:
        """Add a marker whose code comes next in `codes`. Ends at once unless very many wait."""
        self._places.append((outcome, codes, len(codes)))
        codes.append(ErrorCode.REQUEST_TIMED_OUT)
        if len(self._places) == WAITING_MAX:
            await self.end()

    async def end(self) -> None:
        """Wait for all of them, and put their codes into their places."""
        if self._places:
            outcomes = [outcome for outcome, _, _ in self._places]
            await asyncio.wait(outcomes, timeout=max(self._until_s - loop_time_s(), 0))
            for outcome, codes, at in self._places:
                codes[at] = code_by_now(outcome)
            self.cancel()

    def cancel(self) -> None:
        for outcome, _, _ in self._places:
            outcome.cancel()
        self._places.clear()
