from __future__ import annotations

from dataclasses import fields

import pytest

from kraft.metadata.configs import (
    NOT_BUILT_YET,
    TOPIC_CONFIGS,
    TopicConfig,
    broker_defaults,
    check_topic_config,
    effective,
)
from kraft.metadata.records import TopicConfigSet
from kraft.model.errors import ErrorCode, Refusal
from tests.unit.metadata.clusters import ORDERS, cluster, with_topic


def test_every_key_has_a_field_a_server_key_and_a_default_that_is_allowed() -> None:
    assert {field.name for field in fields(TopicConfig)} == {key.replace(".", "_") for key in TOPIC_CONFIGS}
    for key, declared in TOPIC_CONFIGS.items():
        check_topic_config(key, declared.default)
        assert declared.documentation
    assert not NOT_BUILT_YET & TOPIC_CONFIGS.keys()


def test_without_settings_kafkas_defaults_are_in_effect() -> None:
    assert broker_defaults({}) == TopicConfig(
        segment_bytes=1_073_741_824,
        max_message_bytes=1_048_588,
        min_insync_replicas=1,
        message_timestamp_type="CreateTime",
        index_interval_bytes=4_096,
    )


def test_a_topics_own_value_wins_over_the_brokers() -> None:
    defaults = broker_defaults({"log.segment.bytes": "5000", "message.max.bytes": "700", "node.id": "1"})
    image = with_topic(cluster(1), [1]).replay([TopicConfigSet(topic_id=ORDERS, key="segment.bytes", value="100")])
    in_effect = effective(image, "orders", defaults)
    assert (in_effect.segment_bytes, in_effect.max_message_bytes) == (100, 700)
    assert effective(image, "unknown", defaults) is defaults


def test_a_bad_broker_default_is_refused_under_the_brokers_key() -> None:
    with pytest.raises(Refusal, match=r"log\.segment\.bytes=1: a whole number from 14") as refused:
        broker_defaults({"log.segment.bytes": "1"})
    assert refused.value.error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("segment.bytes", "13", "a whole number from 14 to 2147483647 is needed"),
        ("segment.bytes", "2147483648", "a whole number"),
        ("segment.bytes", "", "a whole number"),
        ("segment.bytes", "1_000", "a whole number"),
        ("segment.bytes", "9" * 100_000, "a whole number"),
        ("segment.bytes", "٣٣٣", "a whole number"),
        ("max.message.bytes", "-1", "a whole number from 0"),
        ("min.insync.replicas", "0", "a whole number from 1"),
        ("message.timestamp.type", "createtime", "CreateTime or LogAppendTime is needed"),
        ("segment.byte", "1", "did you mean 'segment.bytes'?"),
        ("min.insync.replica", "1", "did you mean 'min.insync.replicas'?"),
        ("zzz", "1", "known are index.interval.bytes"),
        ("log.segment.bytes", "1", "on a topic it is called 'segment.bytes'"),
        ("cleanup.policy", "compact", "not built yet"),
        ("unclean.leader.election.enable", "true", "not built yet"),
    ],
)
def test_a_config_that_cannot_have_effect_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_topic_config(key, value)
    assert refused.value.error_code == ErrorCode.INVALID_CONFIG
    assert message in refused.value.message
    assert len(refused.value.message) < 300
