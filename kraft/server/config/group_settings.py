"""Settings of the topic `__consumer_offsets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.format.compression import Codec
from kraft.log.topic_config import SEGMENT_BYTES_MAX
from kraft.model.config_keys import key, whole_number
from kraft.server.config.readers import MIB

OFFSETS_REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"
OFFSETS_REPLICATION_FACTOR_DEFAULT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopicSettings:
    """Settings of the topic that holds consumer groups and their offsets, and of what is written to it."""

    partitions: int = key(
        "offsets.topic.num.partitions",
        whole_number(1, 10_000),
        "Partition count of __consumer_offsets, used when the topic is created.",
        default=50,
    )
    replication_factor: int = key(
        OFFSETS_REPLICATION_FACTOR,
        whole_number(1, 32_767),
        "Replication factor of __consumer_offsets, used when the topic is created; not created with fewer brokers."
        " A node that is the whole cluster uses 1 if the key is not set.",
        default=OFFSETS_REPLICATION_FACTOR_DEFAULT,
    )
    segment_bytes: int = key(
        "offsets.topic.segment.bytes",
        whole_number(1_024, SEGMENT_BYTES_MAX),
        "Segment size of __consumer_offsets, used when the topic is created: small segments are compacted sooner.",
        default=100 * MIB,
    )
    codec: int = key(
        "offsets.topic.compression.codec",
        whole_number(min(Codec), max(Codec)),
        "Compression of the records of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        default=int(Codec.NONE),
    )
    load_bytes_max: int = key(
        "offsets.load.buffer.size",
        whole_number(1),
        "Bytes read at a time when a coordinator loads its partition of __consumer_offsets. Kafka's default is 5 MiB.",
        default=MIB,
    )
    commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms",
        whole_number(1),
        "Time in which the replicas have to confirm a write of a coordinator.",
        default=5_000,
    )
