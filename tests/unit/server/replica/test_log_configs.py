from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import fields, replace

from kraft.log.format.compression import Codec, compress, decompress
from kraft.log.format.record_batch import TimestampType
from kraft.log.log_config import LogConfig
from kraft.metadata.config_types import IntegerBetween
from kraft.metadata.configs import KAFKA_DEFAULTS, TOPIC_CONFIGS, broker_defaults, checked
from kraft.server.replica.log_configs import log_config


def test_kafkas_defaults_are_the_logs_own() -> None:
    assert log_config(KAFKA_DEFAULTS) == LogConfig()


OTHER_THAN_DEFAULT: dict[str, tuple[str, str, Any]] = {
    "segment.bytes": ("1048576", "segment_bytes", 1_048_576),
    "segment.ms": ("1000", "segment_ms", 1_000),
    "segment.jitter.ms": ("100", "segment_jitter_ms", 100),
    "segment.index.bytes": ("1024", "segment_index_bytes", 1_024),
    "index.interval.bytes": ("1", "index_interval_bytes", 1),
    "preallocate": ("true", "preallocate", True),
    "max.message.bytes": ("2000", "max_message_bytes", 2_000),
    "message.timestamp.type": ("LogAppendTime", "message_timestamp_type", TimestampType.LOG_APPEND_TIME),
    "message.timestamp.before.max.ms": ("5", "message_timestamp_before_max_ms", 5),
    "message.timestamp.after.max.ms": ("6", "message_timestamp_after_max_ms", 6),
    "flush.messages": ("7", "flush_messages", 7),
    "flush.ms": ("8", "flush_ms", 8),
    "retention.ms": ("-1", "retention_ms", -1),
    "retention.bytes": ("9", "retention_bytes", 9),
    "file.delete.delay.ms": ("0", "file_delete_delay_ms", 0),
    "min.cleanable.dirty.ratio": ("0.25", "min_cleanable_dirty_ratio", 0.25),
    "min.compaction.lag.ms": ("10", "min_compaction_lag_ms", 10),
    "max.compaction.lag.ms": ("11", "max_compaction_lag_ms", 11),
    "delete.retention.ms": ("12", "delete_retention_ms", 12),
}


@pytest.mark.parametrize("key", OTHER_THAN_DEFAULT)
def test_each_config_of_a_topic_reaches_its_logs(key: str) -> None:
    value, field, expected = OTHER_THAN_DEFAULT[key]
    assert log_config(checked(KAFKA_DEFAULTS, {key: value})) == replace(LogConfig(), **{field: expected})


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        ("delete, compact", True, True),
        ("", False, False),
    ],
)
def test_a_cleanup_policy_says_what_is_done_to_old_records(policy: str, deletes: bool, compacts: bool) -> None:
    config = log_config(checked(KAFKA_DEFAULTS, {"cleanup.policy": policy}))
    assert (config.deletes, config.compacts) == (deletes, compacts)


@pytest.mark.parametrize(
    ("configs", "codec", "level"),
    [
        ({"compression.type": "producer", "compression.gzip.level": "1"}, None, None),
        ({"compression.type": "uncompressed"}, Codec.NONE, None),
        ({"compression.type": "gzip"}, Codec.GZIP, -1),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Codec.GZIP, 9),
        ({"compression.type": "snappy", "compression.zstd.level": "1"}, Codec.SNAPPY, None),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, Codec.LZ4, 17),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, Codec.ZSTD, -131_072),
        ({"compression.type": "zstd", "compression.zstd.level": "22"}, Codec.ZSTD, 22),
    ],
)
def test_a_compression_type_has_its_own_level(configs: dict[str, str], codec: Codec | None, level: int | None) -> None:
    config = log_config(checked(KAFKA_DEFAULTS, configs))
    assert (config.compression, config.compression_level) == (codec, level)
    if codec is not None:
        assert decompress(codec, compress(codec, b"some records " * 99, level)) == b"some records " * 99


OF_REPLICATION = ("min.insync.replicas", "unclean.leader.election.enable")
"""Configs that a topic's log does not get."""

OF_COMPRESSION = ("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level")


def test_every_log_config_has_a_topic_config() -> None:
    reached = {field for _, field, _ in OTHER_THAN_DEFAULT.values()} | {
        "deletes",
        "compacts",
        "compression",
        "compression_level",
    }
    assert reached == {field.name for field in fields(LogConfig)}
    assert OTHER_THAN_DEFAULT.keys() | {"cleanup.policy", *OF_COMPRESSION, *OF_REPLICATION} == TOPIC_CONFIGS.keys()


@pytest.mark.parametrize("key", [key for key, each in TOPIC_CONFIGS.items() if isinstance(each.kind, IntegerBetween)])
def test_a_log_works_with_whatever_a_topic_may_set(key: str) -> None:
    kind = TOPIC_CONFIGS[key].kind
    assert isinstance(kind, IntegerBetween)
    for value in (kind.least, kind.most):
        # Lags are checked against each other, too.
        other = {"max.compaction.lag.ms": str(2**63 - 1)} if key == "min.compaction.lag.ms" else {}
        log_config(checked(KAFKA_DEFAULTS, {key: str(value), **other}))


def test_a_maximum_compaction_lag_below_the_minimum_is_raised_to_it() -> None:
    of_this_broker = broker_defaults({"log.cleaner.max.compaction.lag.ms": "1000"})
    config = log_config(dataclasses.replace(of_this_broker, min_compaction_lag_ms=5_000))
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (5_000, 5_000)
