"""A dump in the format of Kafka's dump tool, so that scripts for that tool work with ours.

One difference: control characters in keys, values and header names are written as `\\x1b`, `\\n` and so on, because
they would move a terminal's cursor, change its colours or set its title.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from kraft.cli.log.printer import Contents, write_line
from kraft.log.format.record_batch import DELETE_HORIZON_BIT, SEQUENCE_MAX, BatchHeader, TimestampType
from kraft.log.format.record_codec import Record
from kraft.log.integrity.inspection import IndexEntry, InspectedBatch, TimeIndexEntry
from kraft.log.leader_epochs import EpochStart
from kraft.log.recovery.log_checkpoint import LogCheckpoint
from kraft.log.recovery.producer_state import ProducerState
from kraft.log.transactions.aborted import ENTRY_VERSION, AbortedTxn

TIMESTAMP_TYPE_NAMES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
CONTROL_TYPES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""Names by the number in the key of a control record."""

_CONTROL_KEY: Final = struct.Struct(">hh")
_END_MARKER: Final = struct.Struct(">hi")

# C0, DEL and C1; line and paragraph separators; marks that change the writing direction.
_UNSAFE: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES: Final = {code: chr(code).encode("unicode_escape").decode("ascii") for code in _UNSAFE}


def safe(content: bytes | str) -> str:
    """Return text that is safe on a terminal; bytes that are not UTF-8 become U+FFFD, as Kafka prints them."""
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    return text if text.isprintable() else text.translate(_ESCAPES)


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Return the time at which tombstones of a compacted batch may be deleted; it replaces the base timestamp."""
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None


def sequence_of(header: BatchHeader, offset: int) -> int:
    """Return the sequence of the record at `offset`, -1 without one."""
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + offset - header.base_offset) & SEQUENCE_MAX


def control_type(record: Record) -> tuple[str, int]:
    """Return the name and number of a control record, with UNKNOWN for an unknown number."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        return "UNKNOWN", -1
    _, number = _CONTROL_KEY.unpack_from(record.key)
    return (CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else "UNKNOWN"), number


def coordinator_epoch(record: Record) -> int | None:
    """Return the coordinator epoch of an end-of-transaction marker; None for any other control record."""
    if control_type(record)[0] not in ("ABORT", "COMMIT"):
        return None
    if record.value is None or len(record.value) < _END_MARKER.size:
        return None
    epoch: int = _END_MARKER.unpack_from(record.value)[1]
    return epoch


class KafkaLines:
    """A `Printer` for people."""

    def __init__(self, *, with_contents: bool, with_metadata: bool, contents: Contents | None = None) -> None:
        """Without `contents`, keys and values are printed as text."""
        self._with_contents = with_contents
        self._with_metadata = with_metadata
        self._contents = contents or _texts
        self._path = ""

    def begin(self, path: str) -> None:
        self._path = path
        write_line(f"Dumping {safe(path)}")

    def log_starts(self, base_offset: int) -> None:
        write_line(f"Log starting offset: {base_offset}")

    def batch(self, batch: InspectedBatch) -> None:
        write_line(batch_line(batch))

    def record(self, header: BatchHeader, record: Record) -> None:
        words = []
        if self._with_metadata:
            words.append(record_line(header, record))
        if self._with_contents and not header.is_control:
            key, value = self._contents(record)
            words += [
                f"{name}: {_shown(each)}" for name, each in (("key", key), ("payload", value)) if each is not None
            ]
        write_line(" ".join(words) if self._with_metadata or not words else f"| {' '.join(words)}")

    def trailing_bytes(self, count: int) -> None:
        write_line(f"Found {count} invalid bytes at the end of {safe(self._path.rpartition('/')[2])}")

    def index_entry(self, entry: IndexEntry) -> None:
        write_line(f"offset: {entry.offset} position: {entry.position}")

    def time_index_entry(self, entry: TimeIndexEntry) -> None:
        write_line(f"timestamp: {entry.timestamp_ms} offset: {entry.offset}")

    def aborted_transaction(self, entry: AbortedTxn) -> None:
        write_line(
            f"version: {ENTRY_VERSION} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )

    def is_empty(self) -> None:
        write_line(f"{safe(self._path)} is empty.")

    def is_sane(self) -> None:
        write_line(f"{safe(self._path)} passed sanity check.")

    def producer(self, producer_id: int, state: ProducerState) -> None:
        last = state.batches[-1] if state.batches else None
        line = (
            f"producerId: {producer_id} producerEpoch: {state.epoch} coordinatorEpoch: {state.coordinator_epoch} "
            f"currentTxnFirstOffset: {_optional(state.transaction_start)} lastTimestamp: {state.timestamp_ms}"
        )
        if last is not None:
            line += (
                f" firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
                f"lastOffset: {last.last_offset} offsetDelta: {last.last_offset - last.base_offset} "
                # Kafka keeps one timestamp per producer, and prints it twice.
                f"timestamp: {state.timestamp_ms}"
            )
        write_line(line)

    def leader_epoch(self, entry: EpochStart) -> None:
        write_line(f"leaderEpoch: {entry.epoch} startOffset: {entry.start_offset}")

    def checkpoint(self, checkpoint: LogCheckpoint) -> None:
        write_line(
            f"logStartOffset: {checkpoint.log_start_offset} recoveryPoint: {checkpoint.recovery_point} "
            f"cleanedEndOffset: {checkpoint.cleaned_end_offset} isSparse: {_word(checkpoint.is_sparse)}"
        )

    def fault(self, path: str, position: int | None, reason: str) -> None:
        pass


def batch_line(batch: InspectedBatch) -> str:
    header = batch.header
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_word(header.is_transactional)} "
        f"isControl: {_word(header.is_control)} "
        f"deleteHorizonMs: {_optional(delete_horizon_ms(header))} "
        f"position: {batch.position} "
        f"{TIMESTAMP_TYPE_NAMES[header.timestamp_type]}: {header.max_timestamp_ms} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {header.codec.config_name} crc: {header.crc} "
        f"isvalid: {_word(batch.is_valid)}"
    )


def record_line(header: BatchHeader, record: Record) -> str:
    line = (
        f"| offset: {record.offset} {TIMESTAMP_TYPE_NAMES[header.timestamp_type]}: {record.timestamp_ms} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        f"sequence: {sequence_of(header, record.offset)} "
        f"headerKeys: [{','.join(safe(name) for name, _ in record.headers)}]"
    )
    if not header.is_control:
        return line
    name, number = control_type(record)
    epoch = coordinator_epoch(record)
    if epoch is None:
        return f"{line} controlType: {name}({number})"
    return f"{line} endTxnMarker: {name} coordinatorEpoch: {epoch}"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _word(is_so: bool) -> str:
    return "true" if is_so else "false"


def _optional(number: int | None) -> str:
    return "OptionalLong.empty" if number is None else f"OptionalLong[{number}]"


def _texts(record: Record) -> tuple[bytes | None, bytes | None]:
    return record.key, record.value


def _shown(content: Any) -> str:
    if isinstance(content, (bytes, str)):
        return safe(content)
    return safe(json.dumps(content, separators=(",", ":"), ensure_ascii=False))
