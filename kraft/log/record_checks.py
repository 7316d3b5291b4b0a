"""Checks of the records inside a produced batch, and its recompression."""

from __future__ import annotations

from typing import Final

from kraft.log.format.compression import DECOMPRESSED_BYTES_MAX, decompress
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, recompressed
from kraft.log.format.record_codec import RecordSkim
from kraft.log.topic_config import NEVER, TopicConfig
from kraft.model.errors import ErrorCode, InvalidBatch, InvalidRecords, RecordError
from kraft.model.ids import TopicPartition

RECORD_ERRORS_MAX: Final = 1_000
"""Invalid records of one batch that a response names; it takes the event loop a few milliseconds."""

AT_ONCE_RECORDS_MAX: Final = 1_000
AT_ONCE_BYTES_MAX: Final = 64 << 10
"""Size limit, compressed and decompressed, of a batch that is checked on the event loop, in less than a millisecond."""

_STEPS: Final = 10_000
"""Records that are checked in one call: the compiled codec does not yield to other threads during a call."""


def may_be_late(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Return whether the header has a timestamp too far ahead of the clock."""
    return header.max_timestamp_ms - now_ms > config.message_timestamp_after_max_ms and not config.uses_append_time


def check_records_at_once(
    header: BatchHeader, batch: memoryview, config: TopicConfig, topic_partition: TopicPartition, now_ms: int
) -> bool:
    """Check the records if that is quick. Return False if they are too many for the event loop or cannot be decoded.

    Raises InvalidRecords.
    """
    if header.record_count > AT_ONCE_RECORDS_MAX or header.size_bytes > AT_ONCE_BYTES_MAX:
        return False
    try:
        payload = decompress(header.codec, batch[HEADER_BYTES:], AT_ONCE_BYTES_MAX)
        skim = _skim(header, payload, config, now_ms)
        if not skim.go_on(2 * AT_ONCE_RECORDS_MAX):
            return False
    except InvalidBatch:
        return False
    _raise_if_invalid(skim, header, config, topic_partition, now_ms)
    return True


def checked_and_compressed(
    header: BatchHeader, batch: memoryview, config: TopicConfig, topic_partition: TopicPartition, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    """Return the batch to append, after checking each record; slow. Raises InvalidBatch, or its kind InvalidRecords."""
    try:
        payload = decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
        skim = _skim(header, payload, config, now_ms)
        while not skim.go_on(_STEPS):
            pass
    except InvalidBatch as error:
        # The checksum is right, so the producer built it like this, and a retry would not help.
        raise InvalidBatch(error.message, ErrorCode.INVALID_RECORD) from None
    _raise_if_invalid(skim, header, config, topic_partition, now_ms)
    codec = config.compression
    if codec is None or codec is header.codec:
        return header, batch
    new_header, new_batch = recompressed(header, payload, codec, config.compression_level, skim.max_timestamp_ms)
    return new_header, memoryview(new_batch)


def _skim(header: BatchHeader, payload: bytes, config: TopicConfig, now_ms: int) -> RecordSkim:
    earliest_ms, latest_ms = -NEVER, NEVER
    if not config.uses_append_time:
        earliest_ms = now_ms - config.message_timestamp_before_max_ms
        latest_ms = now_ms + config.message_timestamp_after_max_ms
    count, base_ms = header.record_count, header.base_timestamp_ms
    return RecordSkim(payload, count, base_ms, earliest_ms, latest_ms, RECORD_ERRORS_MAX)


def _raise_if_invalid(
    skim: RecordSkim, header: BatchHeader, config: TopicConfig, topic_partition: TopicPartition, now_ms: int
) -> None:
    """Raise InvalidRecords if a record breaks a rule of the topic. Source of the bounds of timestamps: KIP-937."""
    if skim.late or may_be_late(header, config, now_ms):
        latest_ms = max(header.max_timestamp_ms, skim.max_timestamp_ms)
        reason = (
            f"timestamp {latest_ms} is more than "
            f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms} ahead of {now_ms}"
        )
        raise _invalid_records(reason, ErrorCode.INVALID_TIMESTAMP, skim.late)
    if skim.early:
        reason = (
            f"timestamp {skim.earliest_found_ms} is more than "
            f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms} behind {now_ms}"
        )
        raise _invalid_records(reason, ErrorCode.INVALID_TIMESTAMP, skim.early)
    if config.compacts and skim.keyless:
        reason = f"topic {topic_partition.topic} is compacted, so each of its records needs a key"
        raise _invalid_records(reason, ErrorCode.INVALID_RECORD, skim.keyless)


def _invalid_records(reason: str, code: ErrorCode, wrong: list[int]) -> InvalidRecords:
    """Return the error for a batch in which the records `wrong` break the same rule."""
    return InvalidRecords(reason, code, [RecordError(batch_index=index, error_message=reason) for index in wrong])
