"""A dump as JSON, one object a line. Bytes that are not UTF-8 become `{"base64": "..."}`."""

from __future__ import annotations

import json
from typing import Any

from kraft.cli.log.kafka_lines import (
    TIMESTAMP_TYPE_NAMES,
    control_type,
    coordinator_epoch,
    delete_horizon_ms,
    sequence_of,
)
from kraft.cli.log.printer import Contents, write_line
from kraft.cli.printing import readable
from kraft.log.format.record_batch import BatchHeader
from kraft.log.format.record_codec import Record
from kraft.log.integrity.inspection import IndexEntry, InspectedBatch, TimeIndexEntry
from kraft.log.leader_epochs import EpochStart
from kraft.log.recovery.log_checkpoint import LogCheckpoint
from kraft.log.recovery.producer_state import ProducerState
from kraft.log.transactions.aborted import AbortedTxn


class JsonLines:
    """A `Printer` for programs: every object has `file` and `type`."""

    def __init__(self, *, with_contents: bool, with_metadata: bool, contents: Contents | None = None) -> None:
        """Without `contents`, keys and values are printed as text, or else base64."""
        self._with_contents = with_contents
        self._with_metadata = with_metadata
        self._contents = contents or _texts
        self._path = ""

    def begin(self, path: str) -> None:
        self._path = path

    def log_starts(self, base_offset: int) -> None:
        self._write("log", base_offset=base_offset)

    def batch(self, batch: InspectedBatch) -> None:
        header = batch.header
        self._write(
            "batch",
            position=batch.position,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            count=header.record_count,
            base_sequence=header.base_sequence,
            last_sequence=header.last_sequence,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partition_leader_epoch=header.leader_epoch,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
            delete_horizon_ms=delete_horizon_ms(header),
            timestamp_type=TIMESTAMP_TYPE_NAMES[header.timestamp_type],
            max_timestamp_ms=header.max_timestamp_ms,
            size_bytes=header.size_bytes,
            magic=header.magic,
            compression_type=header.codec.config_name,
            crc=header.crc,
            is_valid=batch.is_valid,
        )

    def record(self, header: BatchHeader, record: Record) -> None:
        fields: dict[str, Any] = {"offset": record.offset}
        if self._with_metadata:
            fields |= {
                "timestamp_ms": record.timestamp_ms,
                "key_size": -1 if record.key is None else len(record.key),
                "value_size": -1 if record.value is None else len(record.value),
                "sequence": sequence_of(header, record.offset),
                "header_keys": [name for name, _ in record.headers],
            }
        if header.is_control:
            fields |= {"control_type": control_type(record)[0], "coordinator_epoch": coordinator_epoch(record)}
        elif self._with_contents:
            key, value = self._contents(record)
            fields |= {
                "key": key,
                "value": value,
                "headers": [{"key": name, "value": readable(content)} for name, content in record.headers],
            }
        self._write("record", **fields)

    def trailing_bytes(self, count: int) -> None:
        self._write("trailing_bytes", count=count)

    def index_entry(self, entry: IndexEntry) -> None:
        self._write("index_entry", offset=entry.offset, position=entry.position)

    def time_index_entry(self, entry: TimeIndexEntry) -> None:
        self._write("time_index_entry", timestamp_ms=entry.timestamp_ms, offset=entry.offset)

    def aborted_transaction(self, entry: AbortedTxn) -> None:
        self._write(
            "aborted_transaction",
            producer_id=entry.producer_id,
            first_offset=entry.first_offset,
            last_offset=entry.last_offset,
            last_stable_offset=entry.last_stable_offset,
        )

    def is_empty(self) -> None:
        self._write("empty")

    def is_sane(self) -> None:
        self._write("passed_sanity_check")

    def producer(self, producer_id: int, state: ProducerState) -> None:
        self._write(
            "producer",
            producer_id=producer_id,
            producer_epoch=state.epoch,
            coordinator_epoch=state.coordinator_epoch,
            transaction_start_offset=state.transaction_start,
            last_offset=state.last_offset,
            last_timestamp_ms=state.timestamp_ms,
            batches=[
                {
                    "first_sequence": batch.first_sequence,
                    "last_sequence": batch.last_sequence,
                    "base_offset": batch.base_offset,
                    "last_offset": batch.last_offset,
                    "timestamp_ms": batch.timestamp_ms,
                }
                for batch in state.batches
            ],
        )

    def leader_epoch(self, entry: EpochStart) -> None:
        self._write("leader_epoch", leader_epoch=entry.epoch, start_offset=entry.start_offset)

    def checkpoint(self, checkpoint: LogCheckpoint) -> None:
        self._write(
            "log_checkpoint",
            log_start_offset=checkpoint.log_start_offset,
            recovery_point=checkpoint.recovery_point,
            cleaned_end_offset=checkpoint.cleaned_end_offset,
            is_sparse=checkpoint.is_sparse,
        )

    def fault(self, path: str, position: int | None, reason: str) -> None:
        write_line(json.dumps({"file": path, "type": "error", "position": position, "reason": reason}))

    def _write(self, kind: str, **fields: Any) -> None:
        write_line(json.dumps({"file": self._path, "type": kind, **fields}))


def _texts(record: Record) -> tuple[Any, Any]:
    return readable(record.key), readable(record.value)
