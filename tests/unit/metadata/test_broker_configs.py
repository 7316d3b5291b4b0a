from __future__ import annotations

import dataclasses

import pytest

from kraft.metadata.broker_configs import (
    EVERY_BROKER,
    TOPIC_DEFAULT_KEYS,
    TopicDefaultsInEffect,
    check_broker_config,
    dynamic_configs,
    with_dynamic,
)
from kraft.metadata.config_decisions import NodeConfigs, incremental_alter_configs
from kraft.metadata.configs import broker_defaults
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerConfigSet, FeatureLevelSet
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.config.components import LogMaintenance
from kraft.server.config.keys import BY_NAME
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster_images import cluster

SETTINGS = {"log.retention.hours": "24"}
STATIC = broker_defaults(SETTINGS)


def altering(broker: str, *, delete: tuple[str, ...] = (), **configs: str) -> AlterConfigsResource:
    """Keys with '_' for '.'."""
    altered = [
        AlterableConfig(name=key.replace("_", "."), config_operation=ConfigOperation.SET, value=value)
        for key, value in configs.items()
    ]
    altered += [AlterableConfig(name=key, config_operation=ConfigOperation.DELETE, value=None) for key in delete]
    return AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=broker, configs=tuple(altered))


def alter(image: MetadataImage, resource: AlterConfigsResource) -> tuple[MetadataImage, AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    decision = incremental_alter_configs(image, request, NodeConfigs(topics=STATIC, settings=SETTINGS, keys=BY_NAME))
    return image.replay(decision.records), decision.response.responses[0]


def altered(image: MetadataImage, resource: AlterConfigsResource) -> MetadataImage:
    after, result = alter(image, resource)
    assert result.error_code is ErrorCode.NONE, result.error_message
    return after


def test_a_brokers_own_value_wins_over_that_of_all_and_that_over_the_file() -> None:
    image = cluster(1, 2)
    of_one, of_two = (TopicDefaultsInEffect(SETTINGS, STATIC, broker) for broker in "12")
    assert of_one(image).retention_ms == 24 * 3_600_000
    image = altered(image, altering(EVERY_BROKER, log_retention_ms="500"))
    assert (of_one(image).retention_ms, of_two(image).retention_ms) == (500, 500)
    image = altered(image, altering("1", log_retention_ms="7"))
    assert (of_one(image).retention_ms, of_two(image).retention_ms) == (7, 500)
    assert TopicDefaultsInEffect(SETTINGS, STATIC)(image).retention_ms == 500
    image = altered(image, altering("1", delete=("log.retention.ms",)))
    assert of_one(image).retention_ms == 500


def test_what_is_set_already_gives_no_record() -> None:
    image = altered(cluster(1), altering("1", log_segment_bytes="5000"))
    assert altered(image, altering("01", log_segment_bytes="5000")) == image


def test_keys_that_are_set_for_a_broker_are_its_own_and_those_of_all() -> None:
    image = cluster(1).replay(
        [
            BrokerConfigSet(broker=EVERY_BROKER, key="log.segment.bytes", value="5000"),
            BrokerConfigSet(broker=EVERY_BROKER, key="log.roll.ms", value="6"),
            BrokerConfigSet(broker="1", key="log.roll.ms", value="7"),
        ]
    )
    assert dynamic_configs(image, "1") == {"log.segment.bytes": "5000", "log.roll.ms": "7"}
    assert dynamic_configs(image, EVERY_BROKER) == {"log.segment.bytes": "5000", "log.roll.ms": "6"}


@pytest.mark.parametrize(
    ("resource", "code", "words"),
    [
        (altering("1", log_dirs="/a"), ErrorCode.INVALID_CONFIG, "log.dirs cannot be changed while a broker runs"),
        (
            altering("1", retention_ms="5"),
            ErrorCode.INVALID_CONFIG,
            "for all topics of a broker use log.retention.ms",
        ),
        (altering("1", log_retention_mss="5"), ErrorCode.INVALID_CONFIG, "did you mean 'log.retention.ms'?"),
        (altering("1", zzzz="5"), ErrorCode.INVALID_CONFIG, "kraft configs describe --broker ID --all lists all"),
        (altering("1", delete=("log.dirs",)), ErrorCode.INVALID_CONFIG, "cannot be changed while a broker runs"),
        (
            altering("1", log_retention_ms="soon"),
            ErrorCode.INVALID_CONFIG,
            "log.retention.ms=soon: expected a whole number",
        ),
        (altering("1", log_cleaner_backoff_ms="-1"), ErrorCode.INVALID_CONFIG, "a whole number from 0"),
        (altering("9", log_retention_ms="5"), ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 9 is not registered"),
        (altering("one", log_retention_ms="5"), ErrorCode.INVALID_REQUEST, "'one' is not a broker id"),
        (
            altering("1", log_cleaner_min_compaction_lag_ms="9", log_cleaner_max_compaction_lag_ms="8"),
            ErrorCode.INVALID_CONFIG,
            "log.cleaner.min.compaction.lag.ms (9) is above",
        ),
    ],
)
def test_what_a_running_broker_cannot_take_is_refused_in_one_line(
    resource: AlterConfigsResource, code: ErrorCode, words: str
) -> None:
    image, result = alter(cluster(1), resource)
    assert image == cluster(1)
    assert result.error_code is code
    assert words in (result.error_message or "")


def test_values_are_set_as_a_whole_and_not_appended_to() -> None:
    appending = AlterableConfig(name="log.cleanup.policy", config_operation=ConfigOperation.APPEND, value="compact")
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="1", configs=(appending,))
    _, result = alter(cluster(1), resource)
    assert "cannot be appended to or subtracted from: set all of it" in (result.error_message or "")


def test_a_cluster_of_an_earlier_version_takes_none() -> None:
    image = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    _, result = alter(image, altering("1", log_retention_ms="5"))
    assert result.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_values_that_do_not_go_with_a_brokers_file_leave_its_file_in_effect() -> None:
    image = altered(cluster(1), altering(EVERY_BROKER, log_cleaner_min_compaction_lag_ms="9"))
    settings = {"log.cleaner.max.compaction.lag.ms": "8"}
    static = broker_defaults(settings)
    assert TopicDefaultsInEffect(settings, static, "1")(image) == static


def test_a_component_takes_the_dynamic_configs_of_its_keys() -> None:
    static = LogMaintenance(cleaner_backoff_ms=7, cleaner_threads=2)
    configs = {"log.scrub.io.max.bytes.per.second": "5", "log.cleaner.threads": "9", "log.retention.ms": "1"}
    assert with_dynamic(static, configs) == dataclasses.replace(static, scrub_io_bytes_per_second_max=5)
    assert with_dynamic(static, {"log.cleaner.backoff.ms": "0"}).cleaner_backoff_ms == 0


def test_every_key_that_can_be_changed_is_one_of_a_brokers_file_and_takes_what_that_takes() -> None:
    assert BY_NAME.keys() >= TOPIC_DEFAULT_KEYS
    for key in BY_NAME.values():
        if key.dynamic is not None:
            for value in (key.dynamic.least, key.dynamic.most):
                assert key.read(str(value)) == value, key
            with pytest.raises(Refusal):
                check_broker_config(key.name, str(key.dynamic.least - 1), BY_NAME)
