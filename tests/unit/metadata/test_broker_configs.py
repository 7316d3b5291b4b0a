from __future__ import annotations

import dataclasses

import pytest

from kraft.metadata.broker_configs import (
    EVERY_BROKER,
    TopicDefaultsInEffect,
    with_dynamic,
)
from kraft.metadata.config_decisions import NodeConfigs, incremental_alter_configs
from kraft.metadata.configs import broker_defaults
from kraft.metadata.image import MetadataImage
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode
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
