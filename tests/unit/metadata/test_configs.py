from __future__ import annotations

import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.configs import broker_defaults, checked, overridden
from kraft.model.errors import ErrorCode, Refusal


def test_without_settings_kafkas_defaults_are_in_effect() -> None:
    assert broker_defaults({}) == KAFKA_DEFAULTS
    assert (KAFKA_DEFAULTS.retention_ms, KAFKA_DEFAULTS.max_message_bytes) == (168 * 3_600_000, 1_048_588)


def test_a_topics_own_value_wins_over_the_brokers() -> None:
    defaults = broker_defaults({"log.segment.bytes": "5000", "message.max.bytes": "700", "node.id": "1"})
    in_effect = overridden(defaults, {"segment.bytes": "100"})
    assert (in_effect.segment_bytes, in_effect.max_message_bytes) == (100, 700)
    assert overridden(defaults, {}) == defaults


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "2", "log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_of_a_brokers_keys_wins(settings: dict[str, str], retention_ms: int) -> None:
    assert broker_defaults(settings).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log.segment.bytes": "1"}, "log.segment.bytes=1: expected a whole number from 61 to 2147483647"),
        ({"log.retention.hours": "-2"}, "log.retention.hours=-2: expected a whole number from -1 to 2147483647"),
        # It would not count, but it is wrong.
        ({"log.roll.hours": "x", "log.roll.ms": "5"}, "log.roll.hours=x: expected a whole number from 1"),
        (
            {"log.cleaner.min.compaction.lag.ms": "6", "log.cleaner.max.compaction.lag.ms": "5"},
            "log.cleaner.min.compaction.lag.ms (6) is above log.cleaner.max.compaction.lag.ms (5)",
        ),
    ],
)
def test_a_bad_broker_default_is_refused_under_the_brokers_key(settings: dict[str, str], message: str) -> None:
    with pytest.raises(Refusal) as refused:
        broker_defaults(settings)
    assert refused.value.error_code == ErrorCode.INVALID_CONFIG
    assert message in refused.value.message


def test_the_largest_number_of_hours_is_still_a_number_of_milliseconds() -> None:
    assert broker_defaults({"log.roll.hours": str(2**31 - 1)}).segment_ms == (2**31 - 1) * 3_600_000 < 2**63


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("segment.bytes", "60", "expected a whole number from 61 to 2147483647"),
        ("segment.bytes", "", "a whole number"),
        ("segment.bytes", "1_000", "a whole number"),
        ("segment.bytes", "1\n", "segment.bytes=1?: expected a whole number"),
        ("segment\n.bytes", "1", "there is no topic config 'segment?.bytes'"),
        ("segment.bytes", "9" * 100_000, "a whole number"),
        ("segment.bytes", "٣٣٣", "a whole number"),
        ("retention.ms", "-2", "expected a whole number from -1 to 9223372036854775807"),
        ("message.timestamp.type", "createtime", "expected CreateTime or LogAppendTime"),
        ("preallocate", "yes", "expected true or false"),
        ("min.cleanable.dirty.ratio", "1.01", "expected a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "expected a number from 0 to 1"),
        ("cleanup.policy", "Compact", "expected delete or compact, or several of them, separated by commas"),
        ("cleanup.policy", "delete,delete", "delete or compact"),
        ("cleanup.policy", "delete,", "delete or compact"),
        ("segment.byte", "1", "did you mean 'segment.bytes'?"),
        ("min.insync.replica", "1", "did you mean 'min.insync.replicas'?"),
        ("zzz", "1", "kraft configs describe --all lists all configs"),
        ("log.segment.bytes", "1", "for a topic use 'segment.bytes'"),
        ("log.retention.hours", "1", "for a topic use 'retention.ms'"),
        ("remote.storage.enable", "true", "not supported yet"),
        ("compression.gzip.level", "0", "expected a whole number from 1 to 9, or -1"),
    ],
)
def test_a_config_that_cannot_have_effect_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked(KAFKA_DEFAULTS, {key: value})
    assert refused.value.error_code == ErrorCode.INVALID_CONFIG
    assert message in refused.value.message
    assert len(refused.value.message) < 300
    assert "\n" not in refused.value.message


def test_configs_that_contradict_each_other_are_refused_together() -> None:
    with pytest.raises(Refusal, match=r"min\.compaction\.lag\.ms \(6\) is above max\.compaction\.lag\.ms \(5\)"):
        checked(KAFKA_DEFAULTS, {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    defaults = broker_defaults({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(Refusal, match=r"above max\.compaction\.lag\.ms \(5\)"):
        checked(defaults, {"min.compaction.lag.ms": "6"})
    # On a broker whose file has another default, the minimum wins.
    in_effect = overridden(defaults, {"min.compaction.lag.ms": "6"})
    assert (in_effect.min_compaction_lag_ms, in_effect.max_compaction_lag_ms) == (6, 6)
