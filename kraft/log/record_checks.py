"""Checks of single records of a produced batch, and the batch compressed as its topic wants it."""

from __future__ import annotations

from typing import Final

from kraft.log.format.compression import DECOMPRESSED_BYTES_MAX, decompress
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, TimestampType, recompressed
from kraft.log.format.record_codec import RecordSkim
from kraft.log.log_config import NEVER, LogConfig
from kraft.model.errors import ErrorCode, InvalidBatch, InvalidRecords, RecordError
from kraft.model.ids import TopicPartition

RECORD_ERRORS_MAX: Final = 1_000
"""So many records of one batch are named, in an answer that takes the event loop a few milliseconds."""

AT_ONCE_RECORDS_MAX: Final = 1_000
AT_ONCE_BYTES_MAX: Final = 64 << 10
"""Of a batch that is looked into on the event loop, before and after it is unpacked: for less than a millisecond."""

_STEPS: Final = 10_000
"""Records between two chances for other threads: compiled, the codec lets nobody else in."""


def may_be_late(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """The header claims a timestamp that lies too far ahead."""
    return (
        header.max_timestamp_ms - now_ms > config.message_timestamp_after_max_ms
        and config.message_timestamp_type is TimestampType.CREATE_TIME
    )


def check_records_at_once(
    header: BatchHeader, batch: memoryview, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> bool:
    """False: the records are too many for the event loop, or something is wrong with how they are packed.

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
    _judge(skim, header, config, topic_partition, now_ms)
    return True


def checked_and_compressed(
    header: BatchHeader, batch: memoryview, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    """The batch as it is to be appended. Takes long. Raises InvalidBatch, and InvalidRecords among them."""
    try:
        payload = decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX)
        skim = _skim(header, payload, config, now_ms)
        while not skim.go_on(_STEPS):
            pass
    except InvalidBatch as error:
        # Its checksum is right, so this is what the producer made: to send it again would be in vain.
        raise InvalidBatch(error.message, ErrorCode.INVALID_RECORD) from None
    _judge(skim, header, config, topic_partition, now_ms)
    codec = config.compression
    if codec is None or codec is header.codec:
        return header, batch
    new_header, new_batch = recompressed(header, payload, codec, config.compression_level, skim.max_timestamp_ms)
    return new_header, memoryview(new_batch)


def _skim(header: BatchHeader, payload: bytes, config: LogConfig, now_ms: int) -> RecordSkim:
    earliest_ms, latest_ms = -NEVER, NEVER
    if config.message_timestamp_type is TimestampType.CREATE_TIME:
        earliest_ms = now_ms - config.message_timestamp_before_max_ms
        latest_ms = now_ms + config.message_timestamp_after_max_ms
    count, base_ms = header.record_count, header.base_timestamp_ms
    return RecordSkim(payload, count, base_ms, earliest_ms, latest_ms, RECORD_ERRORS_MAX)


def _judge(
    skim: RecordSkim, header: BatchHeader, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> None:
    """Source of the bounds of timestamps: KIP-937."""
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
    """For a batch some of whose records are wrong, all in the same way."""
    return InvalidRecords(reason, code, [RecordError(batch_index=index, error_message=reason) for index in wrong])
