"""The table of supported topic configs: types, defaults, documentation and checks.

A key is set on a topic, or for all topics in a broker's configuration under one of its server keys; the topic's own
value wins. Keys of Kafka that are not supported yet are refused rather than ignored: a setting without effect is worse
than an error.

Source of names, types, defaults and bounds: Kafka's TopicConfig, LogConfig and ServerTopicConfigSynonyms (4.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from kraft.log.format.compression import GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL
from kraft.log.format.record_batch import HEADER_BYTES
from kraft.log.log_config import NEVER, SEGMENT_BYTES_MAX, UNLIMITED
from kraft.metadata.config_types import (
    INT32_MAX,
    IntegerBetween,
    Kind,
    ListOf,
    NumberBetween,
    OneOf,
    TrueOrFalse,
    Value,
    text_of,
)
from kraft.model.configs import ConfigType
from kraft.model.errors import ErrorCode, Refusal

T = TypeVar("T", bound=Value)

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

DELETE: Final = "delete"
COMPACT: Final = "compact"

_KEY: Final = "key"
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKey:
    """A broker's key for the default of a topic key. One unit of it is `unit` units of the topic key."""

    name: str
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A topic config. The first of `server_keys` that is set gives the default; `default` is the text of Kafka's."""

    key: str
    server_keys: tuple[ServerKey, ...]
    kind: Kind[Value]
    default: str
    documentation: str

    @property
    def type(self) -> ConfigType:
        return self.kind.type

    def default_server_key(self) -> tuple[str, str]:
        """Return the server key that has a default in Kafka, and that default in the key's unit."""
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


def topic_key(key: str, kind: Kind[T], documentation: str, *, default: T, server_keys: tuple[str, ...]) -> T:
    """Declare the field of TopicConfig for a key. The last word of a server key is its unit, if it has one."""
    units = {"hours": _HOUR_MS, "minutes": _MINUTE_MS}
    declared = ConfigKey(
        key=key,
        server_keys=tuple(ServerKey(name=name, unit=units.get(name.rpartition(".")[2], 1)) for name in server_keys),
        kind=kind,
        default=text_of(default),
        documentation=documentation,
    )
    filled: T = field(default=default, metadata={_KEY: declared})
    return filled


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Topic configs in effect, each declared with its key. A field is named like its key, with '_' for '.'."""

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
        OneOf(values=(PRODUCER, UNCOMPRESSED, "gzip", "snappy", "lz4", "zstd")),
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


TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    declared.key: declared for declared in (each.metadata[_KEY] for each in fields(TopicConfig))
}

SERVER_KEYS: Final[Mapping[str, tuple[ConfigKey, ServerKey]]] = {
    server_key.name: (declared, server_key)
    for declared in TOPIC_CONFIGS.values()
    for server_key in declared.server_keys
}
"""The topic config whose default a broker's key sets, by the name of the broker's key."""

_FIELDS: Final[Mapping[str, str]] = {each.metadata[_KEY].key: each.name for each in fields(TopicConfig)}
"""Names of the fields of TopicConfig, by key."""

KAFKA_DEFAULTS: Final = TopicConfig()
"""Configs of topics that set nothing, on brokers whose files set nothing."""

NOT_SUPPORTED_YET: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)


def checked(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """Return the configs in effect for a topic that sets `configs`. Raises Refusal INVALID_CONFIG if one is invalid."""
    own = {key: _read(_declared(key), value) for key, value in configs.items()}
    in_effect = _with(defaults, own)
    _check_together(in_effect, "min.compaction.lag.ms", "max.compaction.lag.ms")
    return in_effect


def broker_defaults(server_properties: Mapping[str, str]) -> TopicConfig:
    """Return the defaults of topics under a broker's file. Raises Refusal INVALID_CONFIG that names the server key."""
    values = {}
    for declared in TOPIC_CONFIGS.values():
        for server_key in reversed(declared.server_keys):
            # The order is reversed so that the first key wins, and every key that is set is checked.
            if (text := server_properties.get(server_key.name)) is not None:
                values[declared.key] = _read_server(declared, server_key, text)
    defaults = _with(KAFKA_DEFAULTS, values)
    _check_together(defaults, "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    return defaults


def overridden(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """Return `defaults` with a topic's own values, which the controller checked when they were set.

    The controller's defaults may differ from these, so the values are not checked together as in `checked`.
    """
    own = {key: TOPIC_CONFIGS[key].kind.read(value) for key, value in configs.items() if key in TOPIC_CONFIGS}
    return _with(defaults, own)


def text_in_effect(config: TopicConfig, key: str) -> str:
    """Return the value of one key as text."""
    return text_of(getattr(config, _FIELDS[key]))


def unknown_config(key: str) -> str:
    """Return the error for a key that no topic can set, in one line, with the key to use instead if there is one."""
    if key in NOT_SUPPORTED_YET:
        return f"topic config '{key}' is not supported yet: leave it out"
    if key in SERVER_KEYS:
        return f"'{key}' is a broker config: for a topic use '{SERVER_KEYS[key][0].key}'"
    nearest = get_close_matches(key[:100], TOPIC_CONFIGS, n=1)
    remedy = f"did you mean '{nearest[0]}'?" if nearest else "kraft configs describe --all lists all configs"
    return f"there is no topic config '{_shown(key)}': {remedy}"


def _declared(key: str) -> ConfigKey:
    declared = TOPIC_CONFIGS.get(key)
    if declared is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, unknown_config(key))
    return declared


def _read(declared: ConfigKey, text: str) -> Value:
    try:
        return declared.kind.read(text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{declared.key}={_shown(text)}: expected {error}") from None


def _read_server(declared: ConfigKey, server_key: ServerKey, text: str) -> Value:
    try:
        return declared.read_server(server_key, text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{server_key.name}={_shown(text)}: expected {error}") from None


def _shown(text: str) -> str:
    """Shorten text from outside and replace unprintable characters, to fit into one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:60])


def _check_together(config: TopicConfig, min_lag_key: str, max_lag_key: str) -> None:
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        problem = (
            f"{min_lag_key} ({config.min_compaction_lag_ms}) is above {max_lag_key} ({config.max_compaction_lag_ms}): "
            "lower the first or raise the second"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _with(defaults: TopicConfig, own: Mapping[str, Value]) -> TopicConfig:
    values: dict[str, Any] = {_FIELDS[key]: value for key, value in own.items()}
    return replace(defaults, **values)
