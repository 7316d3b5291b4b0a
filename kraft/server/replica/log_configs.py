"""Converts a topic's configs into the config of its logs."""

from __future__ import annotations

from kraft.log.format.compression import CODEC_OF_NAME, Codec
from kraft.log.format.record_batch import TimestampType
from kraft.log.log_config import LogConfig
from kraft.metadata.configs import COMPACT, DELETE, LOG_APPEND_TIME, PRODUCER, UNCOMPRESSED, TopicConfig


def log_config(config: TopicConfig) -> LogConfig:
    is_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        preallocate=config.preallocate,
        max_message_bytes=config.max_message_bytes,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        message_timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compression=_codec(config),
        compression_level=_level(config),
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        deletes=DELETE in config.cleanup_policy,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        compacts=COMPACT in config.cleanup_policy,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        # The controller checked the topic against its own defaults. With other defaults in this broker's file the
        # minimum may exceed the maximum; then the minimum wins.
        max_compaction_lag_ms=max(config.max_compaction_lag_ms, config.min_compaction_lag_ms),
        delete_retention_ms=config.delete_retention_ms,
    )


def _codec(config: TopicConfig) -> Codec | None:
    if config.compression_type == PRODUCER:
        return None
    return Codec.NONE if config.compression_type == UNCOMPRESSED else CODEC_OF_NAME[config.compression_type]


def _level(config: TopicConfig) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    codec = _codec(config)
    return None if codec is None else levels.get(codec)
