"""Checks of what a producer sends. Batches that a follower copies were checked by the leader and are not checked again.

Records are decompressed only if the topic's configuration needs a check that the header does not allow: at once if they
are few, otherwise by a `RecordsWork`, off the event loop.
"""

from __future__ import annotations

from typing import Final

from kraft.log.append_work import CLIENT, AppendMustWait, AppendOrigin, CheckedRecords, ProducedRecords
from kraft.log.format.record_batch import NOT_PLAIN, BatchHeader, TimestampType, check_frame, split
from kraft.log.record_checks import check_records_at_once, checked_and_compressed, may_be_late
from kraft.log.topic_config import SEGMENT_BYTES_MAX, TopicConfig
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition

Batches = list[tuple[BatchHeader, memoryview]]

BATCHES_MAX: Final = 1_000
"""Batches per partition in a produce request: the event loop appends them in about 10 ms. Kafka accepts one."""


def admit(
    records: ProducedRecords,
    config: TopicConfig,
    topic_partition: TopicPartition,
    now_ms: int,
    origin: AppendOrigin = CLIENT,
) -> Batches:
    """Return the checked batches of an append. Raises Refusal with the error code for the producer.

    Raises AppendMustWait if records have to be decompressed or recompressed and that takes long; those of a coordinator
    are written as they are.
    """
    if isinstance(records, CheckedRecords):
        if records.config is config:
            return records.batches
        raise AppendMustWait(RecordsWork(config, topic_partition, now_ms, origin))
    batches = _batches(records, config, topic_partition, origin)
    if origin.is_coordinator:
        return batches
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    for header, batch in batches:
        # The common case, and every append goes through here.
        if header.max_timestamp_ms <= latest_ms and config.accepts_headers_alone:
            continue
        if not _needs_record_checks(header, config, now_ms):
            continue
        # Many batches hold many records, even if each batch is small.
        is_alone = len(batches) == 1 and not _changes_codec(header, config)
        if not (is_alone and check_records_at_once(header, batch, config, topic_partition, now_ms)):
            raise AppendMustWait(RecordsWork(config, topic_partition, now_ms, origin))
    return batches


class RecordsWork:
    """Work that checks every record of a produce request and recompresses batches to the topic's `compression.type`."""

    def __init__(self, config: TopicConfig, topic_partition: TopicPartition, now_ms: int, origin: AppendOrigin) -> None:
        self._config = config
        self._topic_partition = topic_partition
        self._now_ms = now_ms
        self._origin = origin

    def run(self, records: ProducedRecords) -> CheckedRecords:
        """Return the checked records. Runs in any thread. Raises Refusal with the error code for the producer."""
        config, topic_partition, origin = self._config, self._topic_partition, self._origin
        if isinstance(records, CheckedRecords):
            sent = records.batches
        else:
            sent = _batches(records, config, topic_partition, origin)
        batches = [
            checked_and_compressed(header, batch, config, topic_partition, self._now_ms)
            if _needs_record_checks(header, config, self._now_ms)
            else (header, batch)
            for header, batch in sent
        ]
        # Recompression may have made them larger.
        for header, _ in batches:
            _check_size(header, config, topic_partition, origin)
        _check_segment(sum(header.size_bytes for header, _ in batches), config, origin)
        return CheckedRecords(batches=batches, config=config)


def _batches(
    records: ProducedRecords, config: TopicConfig, topic_partition: TopicPartition, origin: AppendOrigin = CLIENT
) -> Batches:
    """Return the batches after the checks that need only headers and checksums."""
    assert not isinstance(records, CheckedRecords), "the records are already checked"
    batches = split(records, BATCHES_MAX)
    if not batches:
        raise InvalidBatch("the produce request contains no batch", ErrorCode.INVALID_RECORD)
    bytes_max = config.max_message_bytes
    for header, batch in batches:
        if len(batch) > bytes_max:
            _check_size(header, config, topic_partition, origin)
        check_frame(batch, header.crc)
        _check_header(header, origin)
    if len(records) > config.segment_bytes:
        _check_segment(len(records), config, origin)
    if len(batches) > 1 and any(header.has_producer for header, _ in batches):
        # Kafka's rule too: one response cannot distinguish a duplicate batch from a new one.
        raise InvalidBatch(
            "an idempotent producer must send one batch per partition in a request", ErrorCode.INVALID_RECORD
        )
    return batches


def _needs_record_checks(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    return config.must_check_records or _changes_codec(header, config) or may_be_late(header, config, now_ms)


def _changes_codec(header: BatchHeader, config: TopicConfig) -> bool:
    return config.compression is not None and header.codec is not config.compression


def _check_size(
    header: BatchHeader, config: TopicConfig, topic_partition: TopicPartition, origin: AppendOrigin
) -> None:
    if header.size_bytes > config.max_message_bytes and not _is_any_size(origin):
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes is larger than "
            f"max.message.bytes={config.max_message_bytes} of topic {topic_partition.topic}",
        )


def _check_segment(size_bytes: int, config: TopicConfig, origin: AppendOrigin) -> None:
    # A segment of one large batch is as large as that batch.
    size_max = SEGMENT_BYTES_MAX if _is_any_size(origin) else config.segment_bytes
    if size_bytes > size_max:
        raise Refusal(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size_bytes} bytes do not fit into a segment (segment.bytes={size_max})",
        )


def _is_any_size(origin: AppendOrigin) -> bool:
    """Return whether these batches are written under any limit of the topic, as markers: a transaction has to end."""
    return origin.is_coordinator or origin.is_any_size


def _check_header(header: BatchHeader, origin: AppendOrigin) -> None:
    """Raise InvalidBatch unless a client may write this: no marker, no append time, offsets from 0 without gaps."""
    if header.base_offset != 0:
        reason = f"a producer's batch must have base offset 0, not {header.base_offset}: the broker assigns offsets"
        raise InvalidBatch(reason, ErrorCode.INVALID_RECORD)
    if header.record_count != header.last_offset_delta + 1:
        reason = f"{header.record_count} records for {header.last_offset_delta + 1} offsets, both must be equal"
        raise InvalidBatch(f"a producer's batch has {reason}", ErrorCode.INVALID_RECORD)
    if (header.base_sequence < 0 or header.producer_epoch < 0) and header.has_producer and not origin.is_coordinator:
        raise InvalidBatch("a batch with a producer id lacks its producer epoch or sequence", ErrorCode.INVALID_RECORD)
    if not header.attributes & NOT_PLAIN:
        return
    if header.is_control and not origin.is_coordinator:
        raise InvalidBatch("clients are not allowed to write control records", ErrorCode.INVALID_RECORD)
    if header.is_transactional and not header.has_producer:
        raise InvalidBatch("a transactional batch lacks its producer id", ErrorCode.INVALID_RECORD)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidBatch("only a broker may set the timestamp type LogAppendTime", ErrorCode.INVALID_TIMESTAMP)
