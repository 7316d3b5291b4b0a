"""What a producer may append. What comes from a leader was admitted there, and is not asked again.

Records are unpacked only where the topic's configuration asks for something that the header does not tell: right away
when they are few, else by a `RecordsWork`, off the event loop.
"""

from __future__ import annotations

from typing import Final

from kraft.log.append_work import AppendMustWait, CheckedRecords, ProducedRecords
from kraft.log.format.record_batch import BatchHeader, TimestampType, check_frame, split
from kraft.log.log_config import LogConfig
from kraft.log.record_checks import check_records_at_once, checked_and_compressed, may_be_late
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import TopicPartition

Batches = list[tuple[BatchHeader, memoryview]]

BATCHES_MAX: Final = 1_000
"""Of one partition in a produce request: the event loop appends them in about ten milliseconds. Kafka takes one."""


def admit(records: ProducedRecords, config: LogConfig, topic_partition: TopicPartition, now_ms: int) -> Batches:
    """The batches of a produce request, each whole and within bounds. Raises Refusal with the code for the producer.

    Raises AppendMustWait when records have to be unpacked, or compressed anew, and that takes long.
    """
    if isinstance(records, CheckedRecords):
        if records.config is config:
            return records.batches
        raise AppendMustWait(RecordsWork(config, topic_partition, now_ms))
    batches = _batches(records, config, topic_partition)
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    for header, batch in batches:
        # Nearly always that is all: every append goes through here.
        if header.max_timestamp_ms <= latest_ms and config.takes_records_unseen:
            continue
        if not _has_to_be_unpacked(header, config, now_ms):
            continue
        # Many batches are not few records, however small each of them is.
        is_alone = len(batches) == 1 and not _changes_codec(header, config)
        if not (is_alone and check_records_at_once(header, batch, config, topic_partition, now_ms)):
            raise AppendMustWait(RecordsWork(config, topic_partition, now_ms))
    return batches


class RecordsWork:
    """Checks every record of a produce request, and compresses batches as the topic wants them."""

    def __init__(self, config: LogConfig, topic_partition: TopicPartition, now_ms: int) -> None:
        self._config = config
        self._topic_partition = topic_partition
        self._now_ms = now_ms

    def run(self, records: ProducedRecords) -> CheckedRecords:
        """In any thread. Raises Refusal with the code for the producer."""
        config, topic_partition = self._config, self._topic_partition
        sent = records.batches if isinstance(records, CheckedRecords) else _batches(records, config, topic_partition)
        batches = [
            checked_and_compressed(header, batch, config, topic_partition, self._now_ms)
            if _has_to_be_unpacked(header, config, self._now_ms)
            else (header, batch)
            for header, batch in sent
        ]
        # Compressed in another way they may have become larger.
        for header, _ in batches:
            _check_size(header, config, topic_partition)
        _check_segment(sum(header.size_bytes for header, _ in batches), config)
        return CheckedRecords(batches=batches, config=config)


def _batches(records: ProducedRecords, config: LogConfig, topic_partition: TopicPartition) -> Batches:
    """Checked as far as headers and checksums tell."""
    assert not isinstance(records, CheckedRecords), "these are checked already"
    batches = split(records, BATCHES_MAX)
    if not batches:
        raise InvalidBatch("a produce request holds no batch", ErrorCode.INVALID_RECORD)
    for header, batch in batches:
        if header.size_bytes > config.max_message_bytes:
            _check_size(header, config, topic_partition)
        check_frame(batch, header.crc)
        _check_header(header)
    if len(records) > config.segment_bytes:
        _check_segment(len(records), config)
    if len(batches) > 1 and any(header.has_producer for header, _ in batches):
        # Kafka's rule too: one answer could not tell a batch that was written before from one that is new.
        raise InvalidBatch("an idempotent producer sends one batch at a time", ErrorCode.INVALID_RECORD)
    return batches


def _has_to_be_unpacked(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    return config.looks_into_records or _changes_codec(header, config) or may_be_late(header, config, now_ms)


def _changes_codec(header: BatchHeader, config: LogConfig) -> bool:
    return config.compression is not None and header.codec is not config.compression


def _check_size(header: BatchHeader, config: LogConfig, topic_partition: TopicPartition) -> None:
    if header.size_bytes > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes is larger than "
            f"max.message.bytes={config.max_message_bytes} of topic {topic_partition.topic}",
        )


def _check_segment(size_bytes: int, config: LogConfig) -> None:
    if size_bytes > config.segment_bytes:
        raise Refusal(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size_bytes} bytes do not fit a segment (segment.bytes={config.segment_bytes})",
        )


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
