"""Transactions in a log under test: batches, markers, and what a consumer of committed records sees of them."""

from __future__ import annotations

from collections.abc import Iterable

from kraft.log.append_work import AppendOrigin, AppendResult
from kraft.log.change import run_now
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker, marker_in
from kraft.log.format.record_batch import BatchHeader, Buffer, build_batch, decode_batch, split
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.transactions.aborted import AbortedTxn
from kraft.log.transactions.verification import NOT_REQUIRED
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.log.log_building import NOW_MS

COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT
VERIFIED = AppendOrigin(guard=NOT_REQUIRED)
COORDINATOR = AppendOrigin(is_coordinator=True, guard=NOT_REQUIRED)


def transactional(producer_id: int, sequence: int, *values: str, epoch: int = 0, key: str | None = None) -> bytes:
    """Return one batch as a transactional producer sends it."""
    encoded = None if key is None else key.encode()
    records = [Record(0, 1000 + index, encoded, value.encode()) for index, value in enumerate(values)]
    return build_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def send(log: PartitionLog, producer_id: int, sequence: int, *values: str, epoch: int = 0) -> AppendResult:
    """Append a transactional batch whose transaction the coordinator knows."""
    batch = transactional(producer_id, sequence, *values, epoch=epoch)
    return log.append_as_leader(batch, log_epoch(log), NOW_MS, run_now, origin=VERIFIED)


def end(
    log: PartitionLog,
    producer_id: int,
    kind: MarkerType,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Offset:
    """Append the marker that ends the producer's transaction; return its offset."""
    batch = build_marker(
        EndTransactionMarker(type=kind, coordinator_epoch=coordinator_epoch), producer_id, epoch, NOW_MS
    )
    origin = AppendOrigin(is_coordinator=True, transaction_version=transaction_version)
    return log.append_as_leader(batch, log_epoch(log), NOW_MS, run_now, origin=origin).base_offset


def log_epoch(log: PartitionLog) -> LeaderEpoch:
    return max(log.latest_epoch, LeaderEpoch(0))


def committed_records(batches: Iterable[tuple[BatchHeader, Buffer]], aborted: list[AbortedTxn]) -> list[Record]:
    """Return the records that a consumer delivers which reads these batches and was sent these aborted transactions."""
    pending = sorted(aborted, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    records = []
    for header, batch in batches:
        while pending and pending[0].first_offset <= header.last_offset:
            aborting.add(pending.pop(0).producer_id)
        if header.is_control:
            marker = marker_in(header, batch)
            if marker is not None and marker.type is ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += decode_batch(batch)
    return records


def read_committed(log: PartitionLog, high_watermark: Offset | None = None, bytes_max: int = 1 << 20) -> list[str]:
    """Return the values that a consumer of committed records reads from the start, one fetch after the other."""
    high_watermark = log.log_end_offset if high_watermark is None else high_watermark
    log.transactions.high_watermark_advanced(high_watermark)
    upper = log.transactions.last_stable_offset(high_watermark)
    found: list[str] = []
    offset = log.log_start_offset
    while batches := split(log.read(offset, bytes_max, upper)):
        next_offset = batches[-1][0].next_offset
        records = committed_records(batches, log.transactions.aborted(offset, next_offset))
        found += [(record.value or b"").decode() for record in records if record.offset >= offset]
        offset = next_offset
    return found
