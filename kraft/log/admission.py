"""What a producer may append. What comes from a leader was admitted there, and is not asked again."""

from __future__ import annotations

from kraft.log.log_config import NEVER, LogConfig
from kraft.log.record_batch import BatchHeader, Buffer, TimestampType, check_frame, decode_batch_columns, split
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition


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
    """Clients write neither markers nor append times, and number their records without holes."""
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
        raise InvalidBatch(
            f"timestamp {header.max_timestamp_ms} is more than "
            f"message.timestamp.after.max.ms={config.message_timestamp_after_max_ms} ahead of {now_ms}",
            ErrorCode.INVALID_TIMESTAMP,
        )
    if config.message_timestamp_before_max_ms == NEVER:
        return
    least = now_ms - config.message_timestamp_before_max_ms
    for timestamp_ms in decode_batch_columns(batch).timestamps_ms:
        if -1 != timestamp_ms < least:
            raise InvalidBatch(
                f"timestamp {timestamp_ms} is more than "
                f"message.timestamp.before.max.ms={config.message_timestamp_before_max_ms} behind {now_ms}",
                ErrorCode.INVALID_TIMESTAMP,
            )


def _check_keys(batch: memoryview, topic_partition: TopicPartition) -> None:
    if None in decode_batch_columns(batch).keys:
        reason = f"topic {topic_partition.topic} is compacted, so each of its records needs a key"
        raise InvalidBatch(reason, ErrorCode.INVALID_RECORD)
