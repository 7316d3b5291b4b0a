"""What a producer may append. What comes from a leader was admitted there, and is not asked again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from kraft.log.log_config import NEVER, LogConfig
from kraft.log.record_batch import BatchHeader, Buffer, TimestampType, check_frame, decode_batch_columns, split
from kraft.model.errors import ErrorCode, InvalidBatch, InvalidRecords, RecordError, Refusal
from kraft.model.ids import TopicPartition

RECORD_ERRORS_MAX: Final = 10_000
"""So many records of one batch are named: one that unpacks to millions must not cost an answer of hundreds of MB."""


def admit(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a produce request, each whole and within bounds. Raises Refusal with the code for the producer.

    Records are unpacked only where the topic's configuration asks for something that the header does not tell.
    """
    batches = split(records)
    if not batches:
        raise InvalidBatch("a produce request holds no batch", ErrorCode.INVALID_RECORD)
    for header, batch in batches:
        if header.size_bytes > config.max_message_bytes:
            raise Refusal(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.size_bytes} bytes is larger than "
                f"max.message.bytes={config.max_message_bytes} of topic {topic_partition.topic}",
            )
        check_frame(batch, header.crc)
        _check_header(header)
        _check_timestamps(header, batch, config, now_ms)
        if config.compacts:
            _check_keys(batch, topic_partition)
    if len(records) > config.segment_bytes:
        raise Refusal(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} bytes do not fit a segment (segment.bytes={config.segment_bytes})",
        )
    if len(batches) > 1 and any(header.has_producer for header, _ in batches):
        # Kafka's rule too: one answer could not tell a batch that was written before from one that is new.
        raise InvalidBatch("an idempotent producer sends one batch at a time", ErrorCode.INVALID_RECORD)
    return batches


def _check_header(header: BatchHeader) -> None:
    """Clients write neither markers nor append times, and number their records from 0 without holes."""
    if header.base_offset != 0:
        reason = f"a producer's batch begins at offset 0, not at {header.base_offset}: its place is the broker's to say"
        raise InvalidBatch(reason, ErrorCode.INVALID_RECORD)
    if header.record_count != header.last_offset_delta + 1:
        reason = f"{header.record_count} records over {header.last_offset_delta + 1} offsets"
        raise InvalidBatch(f"a producer's batch has {reason}", ErrorCode.INVALID_RECORD)
    if header.has_producer and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidBatch("a batch with a producer id lacks its epoch or sequence", ErrorCode.INVALID_RECORD)
    if header.is_plain:
        return
    if header.is_control:
        raise InvalidBatch("clients are not allowed to write control records", ErrorCode.INVALID_RECORD)
    if header.is_transactional:
        raise InvalidBatch("transactions are not supported by this version", ErrorCode.INVALID_REQUEST)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidBatch("only a broker sets the timestamp type LogAppendTime", ErrorCode.INVALID_TIMESTAMP)


def _check_timestamps(header: BatchHeader, batch: memoryview, config: LogConfig, now_ms: int) -> None:
    """Source: KIP-937. A record without a timestamp (-1) passes."""
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return
    if header.max_timestamp_ms - now_ms > config.message_timestamp_after_max_ms:
        latest = now_ms + config.message_timestamp_after_max_ms
        raise _invalid_records(
            f"timestamp {header.max_timestamp_ms} is more than "
            f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms} ahead of {now_ms}",
            ErrorCode.INVALID_TIMESTAMP,
            (timestamp_ms > latest for timestamp_ms in decode_batch_columns(batch).timestamps_ms),
        )
    if config.message_timestamp_before_max_ms == NEVER:
        return
    least = now_ms - config.message_timestamp_before_max_ms
    timestamps_ms = decode_batch_columns(batch).timestamps_ms
    for timestamp_ms in timestamps_ms:
        if -1 != timestamp_ms < least:
            raise _invalid_records(
                f"timestamp {timestamp_ms} is more than "
                f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms} behind {now_ms}",
                ErrorCode.INVALID_TIMESTAMP,
                (-1 != each < least for each in timestamps_ms),
            )


def _check_keys(batch: memoryview, topic_partition: TopicPartition) -> None:
    keys = decode_batch_columns(batch).keys
    if None in keys:
        raise _invalid_records(
            f"topic {topic_partition.topic} is compacted, so each of its records needs a key",
            ErrorCode.INVALID_RECORD,
            (key is None for key in keys),
        )


def _invalid_records(reason: str, code: ErrorCode, are_wrong: Iterable[bool]) -> InvalidRecords:
    """For a batch some of whose records are wrong, all in the same way."""
    wrong = (index for index, is_wrong in enumerate(are_wrong) if is_wrong)
    errors = [RecordError(batch_index=index, error_message=reason) for index in islice(wrong, RECORD_ERRORS_MAX)]
    return InvalidRecords(reason, code, errors)
