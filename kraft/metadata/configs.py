"""The topic configs that have effect here, in one table; it checks values, gives defaults and explains itself.

A key is set on a topic, or for all topics in a broker's configuration under its server key; the topic's own value wins.
Keys that Kafka knows and that are not built yet are refused rather than ignored: a setting that does nothing is worse
than an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import assert_never

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal

INT32_MAX = 2**31 - 1

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every topic config in effect. The field's name is the key's with '_' for '.', and the unit where it has one."""

    segment_bytes: int
    max_message_bytes: int
    min_insync_replicas: int
    message_timestamp_type: str
    index_interval_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerBetween:
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """`server_key` is the broker's key for topics that do not set their own."""

    key: str
    server_key: str
    allowed: IntegerBetween | OneOf
    default: str
    documentation: str


_KEYS = (
    ConfigKey(
        key="segment.bytes",
        server_key="log.segment.bytes",
        # A segment holds at least one batch whatever its size, and an index entry has 31 bits for the position.
        allowed=IntegerBetween(least=14, most=INT32_MAX),
        default="1073741824",
        documentation="Size in bytes at which a partition's log begins a new segment file.",
    ),
    ConfigKey(
        key="max.message.bytes",
        server_key="message.max.bytes",
        allowed=IntegerBetween(least=0, most=INT32_MAX),
        default="1048588",
        documentation="Largest record batch that is accepted, in bytes, as compressed by the producer.",
    ),
    ConfigKey(
        key="min.insync.replicas",
        server_key="min.insync.replicas",
        allowed=IntegerBetween(least=1, most=INT32_MAX),
        default="1",
        documentation="In-sync replicas without which acks=all writes are refused and nothing is committed.",
    ),
    ConfigKey(
        key="message.timestamp.type",
        server_key="log.message.timestamp.type",
        allowed=OneOf(values=(CREATE_TIME, LOG_APPEND_TIME)),
        default=CREATE_TIME,
        documentation="Whether a record keeps its producer's timestamp or gets the time at which it was appended.",
    ),
    ConfigKey(
        key="index.interval.bytes",
        server_key="log.index.interval.bytes",
        allowed=IntegerBetween(least=0, most=INT32_MAX),
        default="4096",
        documentation="Bytes of log between two entries of its offset index.",
    ),
)

TOPIC_CONFIGS: Mapping[str, ConfigKey] = {declared.key: declared for declared in _KEYS}

NOT_BUILT_YET = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "preallocate",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)


def check_topic_config(key: str, value: str) -> None:
    """Raises Refusal INVALID_CONFIG when the key is not one of ours or the value not one of the key's."""
    declared = TOPIC_CONFIGS.get(key)
    if declared is None:
        raise Refusal(ErrorCode.INVALID_CONFIG, _unknown(key))
    _check_value(key, value, declared.allowed)


def broker_defaults(server_properties: Mapping[str, str]) -> TopicConfig:
    """What topics get that set nothing themselves. Raises Refusal INVALID_CONFIG that names the server key."""
    values = {}
    for declared in _KEYS:
        value = server_properties.get(declared.server_key, declared.default)
        _check_value(declared.server_key, value, declared.allowed)
        values[declared.key] = value
    return _typed(values)


def effective(image: MetadataImage, topic: str, defaults: TopicConfig) -> TopicConfig:
    """The configs in effect for a topic; `defaults` for one that does not exist."""
    topic_image = image.topic(topic)
    return defaults if topic_image is None else overridden(defaults, topic_image.configs)


def overridden(defaults: TopicConfig, configs: Mapping[str, str]) -> TopicConfig:
    """`defaults` with a topic's own values. Those were checked when they were set."""
    return _typed({key: configs.get(key, str(getattr(defaults, _field(key)))) for key in TOPIC_CONFIGS})


def _typed(values: Mapping[str, str]) -> TopicConfig:
    return TopicConfig(
        segment_bytes=int(values["segment.bytes"]),
        max_message_bytes=int(values["max.message.bytes"]),
        min_insync_replicas=int(values["min.insync.replicas"]),
        message_timestamp_type=values["message.timestamp.type"],
        index_interval_bytes=int(values["index.interval.bytes"]),
    )


def _field(key: str) -> str:
    return key.replace(".", "_")


def _check_value(key: str, value: str, allowed: IntegerBetween | OneOf) -> None:
    match allowed:
        case IntegerBetween():
            if not _is_integer_within(value, allowed):
                wanted = f"a whole number from {allowed.least} to {allowed.most}"
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{key}={value[:40]}: {wanted} is needed")
        case OneOf():
            if value not in allowed.values:
                wanted = " or ".join(allowed.values)
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{key}={value[:40]}: {wanted} is needed")
        case _:
            assert_never(allowed)


def _is_integer_within(value: str, allowed: IntegerBetween) -> bool:
    # int() would also take '1_000' and digits of other scripts, and works long on very long texts.
    digits = value.removeprefix("-")
    return len(digits) <= 20 and digits.isascii() and digits.isdigit() and allowed.least <= int(value) <= allowed.most


def _unknown(key: str) -> str:
    if key in NOT_BUILT_YET:
        return f"topic config '{key}' is one of Kafka's that is not built yet: leave it out"
    for declared in _KEYS:
        if key == declared.server_key:
            return f"'{key}' is the brokers' config: on a topic it is called '{declared.key}'"
    nearest = get_close_matches(key[:100], TOPIC_CONFIGS, n=1)
    remedy = f"did you mean '{nearest[0]}'?" if nearest else f"known are {', '.join(sorted(TOPIC_CONFIGS))}"
    return f"there is no topic config '{key[:100]}': {remedy}"
