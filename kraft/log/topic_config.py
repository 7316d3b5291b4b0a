"""The topic configs: each is declared once, with its type, bounds, default, documentation and brokers' keys.

A key is set on a topic, or for all topics in a broker's configuration under one of its server keys; the topic's own
value wins. `kraft.metadata.configs` reads and checks what is set, the configuration file and DescribeConfigs follow the
declarations, and logs use the values. As in Kafka, the few configs that concern replication are among those of the log.

Source of names, types, defaults and bounds: Kafka's TopicConfig, LogConfig and ServerTopicConfigSynonyms (4.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from kraft.log.format.compression import GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL, Codec
from kraft.log.format.record_batch import HEADER_BYTES
from kraft.model.config_types import (
    INT32_MAX,
    INT64_MAX,
    ConfigValueKind,
    IntegerBetween,
    ListOf,
    NumberBetween,
    OneOf,
    TrueOrFalse,
    Value,
    text_of,
)
from kraft.model.configs import ConfigType
from kraft.model.throttled_replicas import NO_REPLICAS, ReplicaNames, ThrottledReplicas

T = TypeVar("T", bound=Value)

SEGMENT_BYTES_MAX: Final = INT32_MAX
"""Positions in an index are 31 bits wide in Kafka's format."""

NEVER: Final = INT64_MAX
"""The largest int64, which Kafka's defaults use for "never"."""

UNLIMITED: Final = -1
"""No limit, in `retention.ms` and `retention.bytes`."""

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

DELETE: Final = "delete"
COMPACT: Final = "compact"

_CODECS: Final[Mapping[str, Codec | None]] = {PRODUCER: None, UNCOMPRESSED: Codec.NONE} | {
    codec.config_name: codec for codec in Codec if codec is not Codec.NONE
}
"""Codecs by the values of `compression.type`; None keeps that of the producer."""

_TOPIC_KEY: Final = "topic key"
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKey:
    """A broker's key for the default of a topic key. One unit of it is `unit` units of the topic key."""

    name: str
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A topic config. The first of `server_keys` that is set gives the default; `default` is the text of Kafka's.

    What names replicas of one topic has no server key.
    """

    key: str
    server_keys: tuple[ServerKey, ...]
    kind: ConfigValueKind[Value]
    default: str
    documentation: str

    @property
    def type(self) -> ConfigType:
        return self.kind.type

    @property
    def field_name(self) -> str:
        """The name of the key's field in TopicConfig."""
        return self.key.replace(".", "_")

    def default_server_key(self) -> tuple[str, str] | None:
        """Return the server key that has a default in Kafka, and that default in the key's unit."""
        if not self.server_keys:
            return None
        # For retention.ms, for example, log.retention.hours and 168.
        server_key = next((each for each in reversed(self.server_keys) if each.unit != 1), self.server_keys[0])
        return server_key.name, self.default if server_key.unit == 1 else str(int(self.default) // server_key.unit)

    def read_server(self, server_key: ServerKey, text: str) -> Value:
        """Return the value of `text` under `server_key`. Raises ValueError that describes the valid values."""
        if server_key.unit == 1:
            return self.kind.read(text)
        assert isinstance(self.kind, IntegerBetween), "only numbers have units"
        least = self.kind.least if self.kind.least < 0 else -(-self.kind.least // server_key.unit)
        number = IntegerBetween(least=least, most=min(INT32_MAX, self.kind.most // server_key.unit)).read(text)
        # A negative number means "unlimited" in any unit.
        return number if number < 0 else number * server_key.unit


def topic_key(
    key: str, kind: ConfigValueKind[T], documentation: str, *, default: T, server_keys: tuple[str, ...] = ()
) -> T:
    """Declare the field of TopicConfig for a key. The last word of a server key is its unit, if it has one."""
    units = {"hours": _HOUR_MS, "minutes": _MINUTE_MS}
    declared = ConfigKey(
        key=key,
        server_keys=tuple(ServerKey(name=name, unit=units.get(name.rpartition(".")[2], 1)) for name in server_keys),
        kind=kind,
        default=text_of(default),
        documentation=documentation,
    )
    filled: T = field(default=default, metadata={_TOPIC_KEY: declared})
    return filled


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Topic configs in effect, each declared with its key. A field is named like its key, with '_' for '.'.

    Raises ValueError, which names the key, for an invalid value.
    """

    # --- segments --------------------------------------------------------------------------------------------
    segment_bytes: int = topic_key(
        "segment.bytes",
        # Kafka 4's minimum is 1 MiB, with an internal key for smaller ones in its tests. A small segment is merely
        # slow, so it needs no second key here.
        IntegerBetween(least=HEADER_BYTES, most=SEGMENT_BYTES_MAX),
        "Size in bytes at which a partition's log begins a new segment file.",
        default=1_073_741_824,
        server_keys=("log.segment.bytes",),
    )
    segment_ms: int = topic_key(
        "segment.ms",
        IntegerBetween(least=1, most=NEVER),
        "Age at which a log begins a new segment file even if the last one is not full.",
        default=604_800_000,
        server_keys=("log.roll.ms", "log.roll.hours"),
    )
    segment_jitter_ms: int = topic_key(
        "segment.jitter.ms",
        IntegerBetween(least=0, most=NEVER),
        "Maximum time by which segment.ms is randomly shortened, so that logs do not roll at once.",
        default=0,
        server_keys=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_index_bytes: int = topic_key(
        "segment.index.bytes",
        # An entry of the time index has 12 bytes; Kafka's minimum of 4 would hold none.
        IntegerBetween(least=12, most=INT32_MAX),
        "Size in bytes of a segment's index at which the log begins a new segment file.",
        default=10_485_760,
        server_keys=("log.index.size.max.bytes",),
    )
    index_interval_bytes: int = topic_key(
        "index.interval.bytes",
        IntegerBetween(least=0, most=INT32_MAX),
        "Bytes of log between two entries of its offset index.",
        default=4_096,
        server_keys=("log.index.interval.bytes",),
    )
    preallocate: bool = topic_key(
        "preallocate",
        TrueOrFalse(),
        "Whether the disk space of a new segment is reserved when it is created.",
        default=False,
        server_keys=("log.preallocate",),
    )
    # --- accepted records ------------------------------------------------------------------------------------
    max_message_bytes: int = topic_key(
        "max.message.bytes",
        IntegerBetween(least=0, most=INT32_MAX),
        "Largest record batch that is accepted, in bytes after compression by the producer.",
        default=1_048_588,
        server_keys=("message.max.bytes",),
    )
    compression_type: str = topic_key(
        "compression.type",
        OneOf(values=tuple(_CODECS)),
        "Codec of stored batches: one for all, uncompressed, or producer, which keeps that of the producer.",
        default=PRODUCER,
        server_keys=("compression.type",),
    )
    compression_gzip_level: int = topic_key(
        "compression.gzip.level",
        IntegerBetween(least=1, most=9, also=GZIP_LEVEL),
        "Level for compression.type=gzip: 1 is fastest, 9 smallest; -1 is the default of the library.",
        default=GZIP_LEVEL,
        server_keys=("compression.gzip.level",),
    )
    compression_lz4_level: int = topic_key(
        "compression.lz4.level",
        IntegerBetween(least=1, most=17),
        "Level for compression.type=lz4: 9 is the fast compressor, every other level the slow one.",
        default=LZ4_LEVEL,
        server_keys=("compression.lz4.level",),
    )
    compression_zstd_level: int = topic_key(
        "compression.zstd.level",
        IntegerBetween(least=-131072, most=22),
        "Level for compression.type=zstd: higher is slower and smaller, below 0 is fastest.",
        default=ZSTD_LEVEL,
        server_keys=("compression.zstd.level",),
    )
    message_timestamp_type: str = topic_key(
        "message.timestamp.type",
        OneOf(values=(CREATE_TIME, LOG_APPEND_TIME)),
        "Timestamp of records: CreateTime is that of the producer, LogAppendTime that of the append.",
        default=CREATE_TIME,
        server_keys=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms: int = topic_key(
        "message.timestamp.before.max.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds by which a producer's timestamp may be before the broker's time.",
        default=NEVER,
        server_keys=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_after_max_ms: int = topic_key(
        "message.timestamp.after.max.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds by which a producer's timestamp may be after the broker's time.",
        default=3_600_000,
        server_keys=("log.message.timestamp.after.max.ms",),
    )
    min_insync_replicas: int = topic_key(
        "min.insync.replicas",
        IntegerBetween(least=1, most=INT32_MAX),
        "In-sync replicas below which acks=all writes are refused and nothing is committed.",
        default=1,
        server_keys=("min.insync.replicas",),
    )
    unclean_leader_election_enable: bool = topic_key(
        "unclean.leader.election.enable",
        TrueOrFalse(),
        "Whether a replica out of sync may lead if no other can; records that it lacks are lost.",
        default=False,
        server_keys=("unclean.leader.election.enable",),
    )
    # --- durability ------------------------------------------------------------------------------------------
    flush_messages: int = topic_key(
        "flush.messages",
        IntegerBetween(least=1, most=NEVER),
        "Records after which a log is synced to disk; with log.durability=fsync every batch is.",
        default=NEVER,
        server_keys=("log.flush.interval.messages",),
    )
    flush_ms: int = topic_key(
        "flush.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds after which a record is synced to disk; with log.durability=fsync every batch is at once.",
        default=NEVER,
        server_keys=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    # --- retention -------------------------------------------------------------------------------------------
    cleanup_policy: tuple[str, ...] = topic_key(
        "cleanup.policy",
        ListOf(values=(DELETE, COMPACT)),
        "delete removes old segments, compact keeps the newest record of each key; empty keeps everything.",
        default=(DELETE,),
        server_keys=("log.cleanup.policy",),
    )
    retention_ms: int = topic_key(
        "retention.ms",
        IntegerBetween(least=UNLIMITED, most=NEVER),
        "Age above which records are deleted, for cleanup.policy=delete; -1 means never.",
        default=604_800_000,
        server_keys=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    retention_bytes: int = topic_key(
        "retention.bytes",
        IntegerBetween(least=UNLIMITED, most=NEVER),
        "Partition size in bytes above which old records are deleted, for cleanup.policy=delete; -1 means no limit.",
        default=UNLIMITED,
        server_keys=("log.retention.bytes",),
    )
    file_delete_delay_ms: int = topic_key(
        "file.delete.delay.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds after which the files of a deleted segment are removed from disk.",
        default=60_000,
        server_keys=("log.segment.delete.delay.ms",),
    )
    # --- compaction ------------------------------------------------------------------------------------------
    min_cleanable_dirty_ratio: float = topic_key(
        "min.cleanable.dirty.ratio",
        NumberBetween(least=0, most=1),
        "Fraction of a log not yet compacted at which the log is compacted.",
        default=0.5,
        server_keys=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = topic_key(
        "min.compaction.lag.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds for which a new record is not compacted.",
        default=0,
        server_keys=("log.cleaner.min.compaction.lag.ms",),
    )
    max_compaction_lag_ms: int = topic_key(
        "max.compaction.lag.ms",
        IntegerBetween(least=1, most=NEVER),
        "Milliseconds after which a record is compacted even below min.cleanable.dirty.ratio.",
        default=NEVER,
        server_keys=("log.cleaner.max.compaction.lag.ms",),
    )
    delete_retention_ms: int = topic_key(
        "delete.retention.ms",
        IntegerBetween(least=0, most=NEVER),
        "Milliseconds for which a tombstone is kept after its first compaction.",
        default=86_400_000,
        server_keys=("log.cleaner.delete.retention.ms",),
    )

    # --- throttled moves -------------------------------------------------------------------------------------
    leader_replication_throttled_replicas: ThrottledReplicas = topic_key(
        "leader.replication.throttled.replicas",
        ReplicaNames(),
        "Replicas that send to followers out of sync within the leader.replication.throttled.rate of their brokers: * "
        "for all, or partition:broker,...; without that rate it has no effect.",
        default=NO_REPLICAS,
    )
    follower_replication_throttled_replicas: ThrottledReplicas = topic_key(
        "follower.replication.throttled.replicas",
        ReplicaNames(),
        "Replicas that fetch, while out of sync, within the follower.replication.throttled.rate of their brokers: * "
        "for all, or partition:broker,...; without that rate it has no effect.",
        default=NO_REPLICAS,
    )

    @property
    def deletes(self) -> bool:
        """True if old segments are deleted by age and size."""
        return DELETE in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """True if the newest record of each key is kept, and older ones are not."""
        return COMPACT in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        """True if the broker sets the timestamps of records, not the producer."""
        return self.message_timestamp_type == LOG_APPEND_TIME

    @property
    def compression(self) -> Codec | None:
        """The codec with which batches are recompressed; None if each keeps that of its producer."""
        return _CODECS[self.compression_type]

    @property
    def compression_level(self) -> int | None:
        """The level for `compression`; None if the codec has none."""
        match self.compression:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @property
    def accepts_headers_alone(self) -> bool:
        """True if batches can be appended by their headers alone, as long as their timestamps are not too late."""
        return (
            self.message_timestamp_before_max_ms == NEVER
            and self.compression_type == PRODUCER
            and COMPACT not in self.cleanup_policy
        )

    @property
    def must_check_records(self) -> bool:
        """True if each record has to be checked before its batch is appended."""
        return self.compacts or (self.message_timestamp_before_max_ms != NEVER and not self.uses_append_time)

    def __post_init__(self) -> None:
        for declared in TOPIC_CONFIGS.values():
            value = getattr(self, declared.field_name)
            if not declared.kind.allows(value):
                raise ValueError(f"{declared.key} is {value}, expected {declared.kind.wanted}")


TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    declared.key: declared for declared in (each.metadata[_TOPIC_KEY] for each in fields(TopicConfig))
}

SERVER_KEYS: Final[Mapping[str, tuple[ConfigKey, ServerKey]]] = {
    server_key.name: (declared, server_key)
    for declared in TOPIC_CONFIGS.values()
    for server_key in declared.server_keys
}
"""The topic config whose default a broker's key sets, by the name of the broker's key."""

KAFKA_DEFAULTS: Final = TopicConfig()
"""Configs of topics that set nothing, on brokers whose files set nothing."""
