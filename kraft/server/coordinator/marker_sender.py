"""Writes the markers of decided transactions: to each partition's leader, until it has them (docs/adr/0034).

What is to be written follows from the state of the shard. Every partition is asked for once at a time; one whose leader
is unknown, does not answer or refuses is asked again after a pause. A request carries the markers of all transactions
that wait for the same broker. A shard that no longer runs here has no markers to write: its successor writes them all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import structlog

from kraft.coordinator.transactions.markers import PendingMarkers, newly_prepared, pending_markers
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, Transactions
from kraft.metadata.image import CurrentImage
from kraft.model.callbacks import Fatal
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, TopicPartition, numbers_by_topic
from kraft.rpc.peers import Unreachable
from kraft.server.coordinator.completions import Completions
from kraft.server.coordinator.transaction_kind import TransactionHost
from kraft.server.loop.background import BackgroundTasks
from kraft.server.loop.turns import Turns
from kraft.wire.schema.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

log = structlog.get_logger()

REPORTS_AT_ONCE: Final = 20
"""Transactions whose markers are reported before other tasks have their turn: each is a decision of a shard."""

MARKERS_PER_REQUEST: Final = 1_000

RETRY_S: Final = 0.1
"""Pause before a marker that was not written is sent again."""

REPORT_S_MAX: Final = 60.0
"""Deadline of a report that markers are written: above the commit timeout, which answers it first."""

ENDED_THERE: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""Results after which nothing of the transaction is open in the partition. A later epoch of the producer was written
there, so that partition has had the marker."""

Write = Callable[[BrokerId, WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
"""Sends a request to a broker. Raises Unreachable or Refusal."""


class _Marker(NamedTuple):
    """One marker for one partition."""

    host: TransactionHost
    transaction: PendingMarkers
    partition: TopicPartition


class _Shard:
    """Progress of the markers of one shard that runs here."""

    def __init__(self) -> None:
        self.seen: Transactions = NO_TRANSACTIONS
        """The committed state whose decisions are carried out or under way."""
        self.under_way: set[tuple[str, int, TopicPartition]] = set()
        """Markers that are not reported yet, by transactional id, time of the decision, and partition."""


class MarkerSender:
    def __init__(self, image: CurrentImage, write: Write, fatal: Fatal) -> None:
        self._image = image
        self._write = write
        self.completions = Completions()
        self._shards: WeakKeyDictionary[TransactionHost, _Shard] = WeakKeyDictionary()
        self._queues: defaultdict[BrokerId, deque[_Marker]] = defaultdict(deque)
        self._sending: set[BrokerId] = set()
        self._delayed: list[_Marker] = []
        self._tasks = BackgroundTasks(fatal)
        self._is_closed = False

    # --- events of shards ----------------------------------------------------------------------------------------

    def loaded(self, host: TransactionHost) -> None:
        """Send all markers of a shard that has been loaded, or loaded again."""
        self._send_pending(host, None)

    def committed(self, host: TransactionHost) -> None:
        """Send the markers of decisions that have just been committed."""
        shard = self._shards.get(host)
        if shard is not None:
            self._send_pending(host, newly_prepared(shard.seen, host.running().committed))

    def _send_pending(self, host: TransactionHost, transactional_ids: Iterable[str] | None) -> None:
        running = host.running()
        shard = self._shards.setdefault(host, _Shard())
        shard.seen = running.committed
        if running.volatile is None:
            # All are looked at when it is loaded again.
            return
        for transaction in pending_markers(running.committed, running.latest, running.volatile, transactional_ids):
            added = [
                _Marker(host, transaction, each)
                for each in sorted(transaction.partitions)
                if (transaction.transactional_id, transaction.prepared_ms, each) not in shard.under_way
            ]
            shard.under_way.update(map(_key, added))
            self._send(added)

    # --- sending -------------------------------------------------------------------------------------------------

    def _send(self, markers: Iterable[_Marker]) -> None:
        """Queue markers for the leaders of their partitions. One whose partition was deleted needs none."""
        if self._is_closed:
            return
        image, deleted = self._image(), []
        for marker in markers:
            state = image.partition(marker.partition)
            if state is None:
                # Only partitions that exist are added to transactions, and this broker's metadata is not older.
                deleted.append(marker)
            elif not state.has_leader:
                self._send_later([marker])
            else:
                self._queues[state.leader].append(marker)
                if state.leader not in self._sending:
                    self._sending.add(state.leader)
                    self._tasks.start(self._send_queue(state.leader), "sender of transaction markers")
        self._report(deleted)

    def _send_later(self, markers: Iterable[_Marker]) -> None:
        is_waiting = bool(self._delayed)
        self._delayed += markers
        if self._delayed and not is_waiting:
            self._tasks.start(self._send_delayed(), "pause of transaction markers")

    async def _send_delayed(self) -> None:
        await asyncio.sleep(RETRY_S)
        delayed, self._delayed = self._delayed, []
        self._send(marker for marker in delayed if marker.host.is_running)

    async def _send_queue(self, broker_id: BrokerId) -> None:
        """Send what waits for a broker, a request at a time, until nothing does."""
        queue = self._queues[broker_id]
        try:
            while queue:
                taken = [queue.popleft() for _ in range(min(len(queue), MARKERS_PER_REQUEST))]
                await self._send_to(broker_id, [marker for marker in taken if marker.host.is_running])
        finally:
            self._sending.discard(broker_id)

    async def _send_to(self, broker_id: BrokerId, markers: Sequence[_Marker]) -> None:
        by_transaction: defaultdict[tuple[TransactionHost, PendingMarkers], list[_Marker]] = defaultdict(list)
        for marker in markers:
            by_transaction[marker.host, marker.transaction].append(marker)
        if not by_transaction:
            return
        request = WriteTxnMarkersRequest(
            markers=tuple(_message(host, transaction, each) for (host, transaction), each in by_transaction.items())
        )
        try:
            response = await self._write(broker_id, request)
        except (Unreachable, Refusal) as error:
            log.debug("transaction markers not written", broker=broker_id, markers=len(markers), reason=str(error))
            # What waits behind them may have other leaders by now, and would take as long for each request.
            queue = self._queues[broker_id]
            self._send_later([*markers, *queue])
            queue.clear()
            return
        turns = Turns(REPORTS_AT_ONCE)
        for sent, result in zip(by_transaction.values(), response.markers, strict=True):
            codes = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in result.topics
                for each in topic.partitions
            }
            self._report([marker for marker in sent if codes.get(marker.partition) in ENDED_THERE])
            self._send_later([marker for marker in sent if codes.get(marker.partition) not in ENDED_THERE])
            await turns.done()

    # --- reports -------------------------------------------------------------------------------------------------

    def _report(self, written: Sequence[_Marker]) -> None:
        """Tell the shards that markers are written."""
        by_transaction: defaultdict[tuple[TransactionHost, PendingMarkers], list[_Marker]] = defaultdict(list)
        for marker in written:
            by_transaction[marker.host, marker.transaction].append(marker)
        for (host, transaction), markers in by_transaction.items():
            self._tasks.start(self._report_one(host, transaction, markers), "report of transaction markers")

    async def _report_one(self, host: TransactionHost, transaction: PendingMarkers, markers: list[_Marker]) -> None:
        command = transaction.written(frozenset(marker.partition for marker in markers))
        while host.is_running:
            # After the decision, which is made before the first wait.
            asyncio.get_running_loop().call_soon(self.completions.check, host, transaction.transactional_id)
            try:
                await host.decide(command, REPORT_S_MAX)
                break
            except Refusal as refusal:
                log.debug("transaction markers not reported", partition=str(host), reason=refusal.message)
                await asyncio.sleep(RETRY_S)
        if (shard := self._shards.get(host)) is not None:
            shard.under_way.difference_update(map(_key, markers))

    async def close(self) -> None:
        self._is_closed = True
        await self._tasks.close()


def _key(marker: _Marker) -> tuple[str, int, TopicPartition]:
    return marker.transaction.transactional_id, marker.transaction.prepared_ms, marker.partition


def _message(host: TransactionHost, transaction: PendingMarkers, markers: Iterable[_Marker]) -> WritableTxnMarker:
    numbers = numbers_by_topic(marker.partition for marker in markers)
    return WritableTxnMarker(
        producer_id=transaction.producer.producer_id,
        producer_epoch=transaction.producer.epoch,
        transaction_result=transaction.commit,
        topics=tuple(
            WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(each)) for topic, each in numbers.items()
        ),
        coordinator_epoch=host.partition.leader_epoch,
        transaction_version=transaction.transaction_version,
    )
