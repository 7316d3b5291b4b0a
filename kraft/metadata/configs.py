"""The topic configs that have effect here, in one table; it checks values, gives defaults and explains itself.

A key is set on a topic, or for all topics in a broker's configuration under one of its server keys; the topic's own
value wins. Keys that Kafka knows and that are not built yet are refused rather than ignored: a setting that does
nothing is worse than an error.

Source of names, types, defaults and bounds: Kafka's TopicConfig, LogConfig and ServerTopicConfigSynonyms (4.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

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
from kraft.metadata.image import MetadataImage
from kraft.model.configs import ConfigType
from kraft.model.errors import ErrorCode, Refusal

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

DELETE: Final = "delete"
COMPACT: Final = "compact"

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every topic config in effect. The field's name is the key's with '_' for '.', and the unit where it has one."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKey:
    """A broker's key for topics that do not set their own; its unit is `unit` of the topic key's, in whole numbers."""

    name: str
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """`server_keys` in their order: the first that is set counts."""

    key: str
    server_keys: tuple[ServerKey, ...]
    kind: Kind
    default: str
    documentation: str

    @property
    def field(self) -> str:
        return self.key.replace(".", "_")

    @property
    def type(self) -> ConfigType:
        return self.kind.type

    def default_server_key(self) -> tuple[str, str]:
        """The server key that Kafka gives a default to, and that default in the key's unit."""
        # Of retention.ms, for example, that is log.retention.hours=168.
        server_key = next((each for each in reversed(self.server_keys) if each.unit != 1), self.server_keys[0])
        return server_key.name, self.default if server_key.unit == 1 else str(int(self.default) // server_key.unit)

    def read_server(self, server_key: ServerKey, text: str) -> Value:
        """The value that `text` under `server_key` stands for. Raises ValueError that says what is wanted."""
        if server_key.unit == 1:
            return self.kind.read(text)
        assert isinstance(self.kind, IntegerBetween), "only numbers have units"
        least = self.kind.least if self.kind.least < 0 else -(-self.kind.least // server_key.unit)
        number = IntegerBetween(least=least, most=min(INT32_MAX, self.kind.most // server_key.unit)).read(text)
        # Less than nothing means "not at all" in any unit.
        return number if number < 0 else number * server_key.unit


def _server_keys(*names: str) -> tuple[ServerKey, ...]:
    units = {"hours": _HOUR_MS, "minutes": _MINUTE_MS}
    return tuple(ServerKey(name=name, unit=units.get(name.rpartition(".")[2], 1)) for name in names)


_KEYS: Final = (
    # --- segments --------------------------------------------------------------------------------------------
    ConfigKey(
        key="segment.bytes",
        server_keys=_server_keys("log.segment.bytes"),
        # Kafka 4 asks for a MiB, with an internal key to get around that in its tests. A small segment is slow and
        # no more than that, so here is no second key.
        kind=IntegerBetween(least=HEADER_BYTES, most=SEGMENT_BYTES_MAX),
        default="1073741824",
        documentation="Size in bytes at which a partition's log begins a new segment file.",
    ),
    ConfigKey(
        key="segment.ms",
        server_keys=_server_keys("log.roll.ms", "log.roll.hours"),
        kind=IntegerBetween(least=1, most=NEVER),
        default="604800000",
        documentation="Age in milliseconds at which a log begins a new segment file though the last one is not full.",
    ),
    ConfigKey(
        key="segment.jitter.ms",
        server_keys=_server_keys("log.roll.jitter.ms", "log.roll.jitter.hours"),
        kind=IntegerBetween(least=0, most=NEVER),
        default="0",
        documentation="Up to so much before segment.ms, by chance, so that not all logs begin a segment at once.",
    ),
    ConfigKey(
        key="segment.index.bytes",
        server_keys=_server_keys("log.index.size.max.bytes"),
        # Twelve bytes are one entry of the time index; Kafka's four would hold none.
        kind=IntegerBetween(least=12, most=INT32_MAX),
        default="10485760",
        documentation="Size in bytes of a segment's index at which the log begins a new segment file.",
    ),
    ConfigKey(
        key="index.interval.bytes",
        server_keys=_server_keys("log.index.interval.bytes"),
        kind=IntegerBetween(least=0, most=INT32_MAX),
        default="4096",
        documentation="Bytes of log between two entries of its offset index.",
    ),
    ConfigKey(
        key="preallocate",
        server_keys=_server_keys("log.preallocate"),
        kind=TrueOrFalse(),
        default="false",
        documentation="Whether the disk space of a new segment is reserved at once.",
    ),
    # --- what is taken ---------------------------------------------------------------------------------------
    ConfigKey(
        key="max.message.bytes",
        server_keys=_server_keys("message.max.bytes"),
        kind=IntegerBetween(least=0, most=INT32_MAX),
        default="1048588",
        documentation="Largest record batch that is accepted, in bytes, as compressed by the producer.",
    ),
    ConfigKey(
        key="compression.type",
        server_keys=_server_keys("compression.type"),
        kind=OneOf(values=(PRODUCER, UNCOMPRESSED, "gzip", "snappy", "lz4", "zstd")),
        default=PRODUCER,
        documentation="How batches are stored: compressed by one codec, uncompressed, or as their producer sent them.",
    ),
    ConfigKey(
        key="compression.gzip.level",
        server_keys=_server_keys("compression.gzip.level"),
        kind=IntegerBetween(least=1, most=9, also=GZIP_LEVEL),
        default=str(GZIP_LEVEL),
        documentation="With compression.type=gzip: 1 is the fastest, 9 the smallest; -1 leaves it to the library.",
    ),
    ConfigKey(
        key="compression.lz4.level",
        server_keys=_server_keys("compression.lz4.level"),
        kind=IntegerBetween(least=1, most=17),
        default=str(LZ4_LEVEL),
        documentation="With compression.type=lz4: 9 is lz4's fast compressor, any other level its slow one.",
    ),
    ConfigKey(
        key="compression.zstd.level",
        server_keys=_server_keys("compression.zstd.level"),
        kind=IntegerBetween(least=-131072, most=22),
        default=str(ZSTD_LEVEL),
        documentation="With compression.type=zstd: a higher level is slower and smaller, below 0 faster still.",
    ),
    ConfigKey(
        key="message.timestamp.type",
        server_keys=_server_keys("log.message.timestamp.type"),
        kind=OneOf(values=(CREATE_TIME, LOG_APPEND_TIME)),
        default=CREATE_TIME,
        documentation="Whether a record keeps its producer's timestamp or gets the time at which it was appended.",
    ),
    ConfigKey(
        key="message.timestamp.before.max.ms",
        server_keys=_server_keys("log.message.timestamp.before.max.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default=str(NEVER),
        documentation="How far a producer's timestamp may lie before the broker's time, in milliseconds.",
    ),
    ConfigKey(
        key="message.timestamp.after.max.ms",
        server_keys=_server_keys("log.message.timestamp.after.max.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default="3600000",
        documentation="How far a producer's timestamp may lie after the broker's time, in milliseconds.",
    ),
    ConfigKey(
        key="min.insync.replicas",
        server_keys=_server_keys("min.insync.replicas"),
        kind=IntegerBetween(least=1, most=INT32_MAX),
        default="1",
        documentation="In-sync replicas without which acks=all writes are refused and nothing is committed.",
    ),
    ConfigKey(
        key="unclean.leader.election.enable",
        server_keys=_server_keys("unclean.leader.election.enable"),
        kind=TrueOrFalse(),
        default="false",
        documentation="Whether a replica that is not in sync may lead when no other can; what it lacks is lost.",
    ),
    # --- durability ------------------------------------------------------------------------------------------
    ConfigKey(
        key="flush.messages",
        server_keys=_server_keys("log.flush.interval.messages"),
        kind=IntegerBetween(least=1, most=NEVER),
        default=str(NEVER),
        documentation="Records after which a log is synced to disk; with log.durability=fsync each batch is anyway.",
    ),
    ConfigKey(
        key="flush.ms",
        server_keys=_server_keys("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default=str(NEVER),
        documentation="Milliseconds after which a record is synced to disk; with log.durability=fsync it is anyway.",
    ),
    # --- retention -------------------------------------------------------------------------------------------
    ConfigKey(
        key="cleanup.policy",
        server_keys=_server_keys("log.cleanup.policy"),
        kind=ListOf(values=(DELETE, COMPACT)),
        default=DELETE,
        documentation="delete drops old segments, compact keeps the newest record of each key; empty keeps everything.",
    ),
    ConfigKey(
        key="retention.ms",
        server_keys=_server_keys("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        kind=IntegerBetween(least=UNLIMITED, most=NEVER),
        default="604800000",
        documentation="With cleanup.policy=delete: age in milliseconds above which records are dropped; -1: never.",
    ),
    ConfigKey(
        key="retention.bytes",
        server_keys=_server_keys("log.retention.bytes"),
        kind=IntegerBetween(least=UNLIMITED, most=NEVER),
        default="-1",
        documentation="With cleanup.policy=delete: size of a partition above which old records are dropped; -1: any.",
    ),
    ConfigKey(
        key="file.delete.delay.ms",
        server_keys=_server_keys("log.segment.delete.delay.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default="60000",
        documentation="Milliseconds for which the files of a dropped segment stay on the disk.",
    ),
    # --- compaction ------------------------------------------------------------------------------------------
    ConfigKey(
        key="min.cleanable.dirty.ratio",
        server_keys=_server_keys("log.cleaner.min.cleanable.ratio"),
        kind=NumberBetween(least=0, most=1),
        default="0.5",
        documentation="The part of a log that is not compacted yet from which on it is worth compacting.",
    ),
    ConfigKey(
        key="min.compaction.lag.ms",
        server_keys=_server_keys("log.cleaner.min.compaction.lag.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default="0",
        documentation="Milliseconds for which a record is safe from compaction.",
    ),
    ConfigKey(
        key="max.compaction.lag.ms",
        server_keys=_server_keys("log.cleaner.max.compaction.lag.ms"),
        kind=IntegerBetween(least=1, most=NEVER),
        default=str(NEVER),
        documentation="Milliseconds after which a record is compacted however little else there is to compact.",
    ),
    ConfigKey(
        key="delete.retention.ms",
        server_keys=_server_keys("log.cleaner.delete.retention.ms"),
        kind=IntegerBetween(least=0, most=NEVER),
        default="86400000",
        documentation="Milliseconds for which a tombstone outlives the compaction that first met it.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {declared.key: declared for declared in _KEYS}

SERVER_KEYS: Final[Mapping[str, tuple[ConfigKey, ServerKey]]] = {
    server_key.name: (declared, server_key) for declared in _KEYS for server_key in declared.server_keys
}
"""Whose default a broker's key is, by its name."""

NOT_BUILT_YET: Final = frozenset(
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


def check_topic_config(key: str, value: str) -> None:
    """Raises Refusal INVALID_CONFIG when the key is not one of ours or the value not one of the key's."""
    _read(_declared(key), value)


def checked(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """What a topic has in effect that sets `configs`. Raises Refusal INVALID_CONFIG when it cannot be so."""
    own = {key: _read(_declared(key), value) for key, value in configs.items()}
    in_effect = _with(defaults, own)
    _check_together(in_effect, "min.compaction.lag.ms", "max.compaction.lag.ms")
    return in_effect


def broker_defaults(server_properties: Mapping[str, str]) -> TopicConfig:
    """What topics get that set nothing themselves. Raises Refusal INVALID_CONFIG that names the server key."""
    values = {}
    for declared in _KEYS:
        values[declared.field] = declared.kind.read(declared.default)
        for server_key in reversed(declared.server_keys):
            # From the last to the first, so that the first wins, and each that is set is checked.
            if (text := server_properties.get(server_key.name)) is not None:
                values[declared.field] = _read_server(declared, server_key, text)
    defaults = _typed(values)
    _check_together(defaults, "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    return defaults


def effective(image: MetadataImage, topic: str, defaults: TopicConfig) -> TopicConfig:
    """The configs in effect for a topic; `defaults` for one that does not exist."""
    topic_image = image.topic(topic)
    return defaults if topic_image is None else overridden(defaults, topic_image.configs)


def overridden(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """`defaults` with a topic's own values. Those were checked when they were set, against the controller's defaults.

    A broker's defaults may be others, so the values need not go together here as `checked` would ask for.
    """
    own = {key: TOPIC_CONFIGS[key].kind.read(value) for key, value in configs.items() if key in TOPIC_CONFIGS}
    return _with(defaults, own)


def text_in_effect(config: TopicConfig, key: str) -> str:
    """The value of one key, as it would be written."""
    return text_of(getattr(config, TOPIC_CONFIGS[key].field))


def unknown_config(key: str) -> str:
    """One line on a key that no topic can set, with what to write instead where there is something."""
    if key in NOT_BUILT_YET:
        return f"topic config '{key}' is one of Kafka's that is not built yet: leave it out"
    if key in SERVER_KEYS:
        return f"'{key}' is the brokers' config: on a topic it is called '{SERVER_KEYS[key][0].key}'"
    nearest = get_close_matches(key[:100], TOPIC_CONFIGS, n=1)
    remedy = f"did you mean '{nearest[0]}'?" if nearest else "kraft configs describe --all shows those there are"
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
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{declared.key}={_shown(text)}: {error} is needed") from None


def _read_server(declared: ConfigKey, server_key: ServerKey, text: str) -> Value:
    try:
        return declared.read_server(server_key, text)
    except ValueError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{server_key.name}={_shown(text)}: {error} is needed") from None


def _shown(text: str) -> str:
    """Text from outside as part of one short line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:60])


def _check_together(config: TopicConfig, min_lag_key: str, max_lag_key: str) -> None:
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        problem = (
            f"{min_lag_key} ({config.min_compaction_lag_ms}) is above {max_lag_key} ({config.max_compaction_lag_ms}): "
            "a record would have to be compacted before it may be"
        )
        raise Refusal(ErrorCode.INVALID_CONFIG, problem)


def _with(defaults: TopicConfig, own: Mapping[str, Value]) -> TopicConfig:
    values = {
        declared.field: own[declared.key] if declared.key in own else getattr(defaults, declared.field)
        for declared in _KEYS
    }
    return _typed(values)


def _typed(values: Mapping[str, Any]) -> TopicConfig:
    # A test holds the table's kinds against the types of the fields.
    return TopicConfig(**values)


KAFKA_DEFAULTS: Final = broker_defaults({})
"""What topics get where neither they nor the brokers' files say anything."""
