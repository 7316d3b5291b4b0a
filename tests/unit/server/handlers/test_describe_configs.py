from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.log.topic_config import TOPIC_CONFIGS
from kraft.metadata.broker_configs import TOPIC_DEFAULT_KEYS
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerConfigSet, ClientMetricsConfigSet, TopicConfigSet
from kraft.model.configs import ConfigResourceType, ConfigSource, ConfigType
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc import calls
from kraft.server.config.keys import KEYS
from kraft.server.config.loading import load
from kraft.server.handlers.describe_configs import DescribeConfigsHandler, refused
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.support.cluster_images import ORDERS, cluster, with_topic

FILE = """
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@localhost:9093
listeners=GRPC://localhost:9094,CONTROLLER://localhost:9093
log.dirs=data
"""

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def orders(**configs: str) -> MetadataImage:
    records = [
        TopicConfigSet(topic_id=ORDERS, key=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    return with_topic(cluster(7), [7]).replay(records)


@pytest.fixture(name="directory")
def _directory(tmp_path: Path) -> Path:
    return tmp_path


def described(
    directory: Path,
    image: MetadataImage,
    name: str = "orders",
    *,
    kind: ConfigResourceType = TOPIC,
    file: str = "",
    keys: tuple[str, ...] = (),
    in_full: bool = True,
) -> DescribeConfigsResult:
    path = directory / "server.properties"
    path.write_text(FILE + file)
    request = DescribeConfigsRequest(
        resources=(DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None),),
        include_synonyms=in_full,
        include_documentation=in_full,
    )
    response = asyncio.run(DescribeConfigsHandler(load(path), lambda: image).handle(request))
    # Everything that is described can be encoded.
    assert calls.DESCRIBE_CONFIGS.response.to_value(calls.DESCRIBE_CONFIGS.response.to_message(response)) == response
    (description,) = response.results
    return description


def entry(description: DescribeConfigsResult, key: str) -> DescribeConfigsResourceResult:
    return next(each for each in description.configs if each.name == key)


def synonyms(described: DescribeConfigsResourceResult) -> list[tuple[str, str | None, str]]:
    return [(each.name, each.value, ConfigSource(each.source).name) for each in described.synonyms]


def test_every_config_of_a_topic_is_described_in_order(directory: Path) -> None:
    description = described(directory, orders())
    assert [each.name for each in description.configs] == sorted(TOPIC_CONFIGS)
    assert {each.config_source for each in description.configs} == {ConfigSource.DEFAULT_CONFIG}
    assert all(not each.read_only and each.documentation for each in description.configs)
    retention = entry(description, "retention.ms")
    assert (retention.value, retention.config_type) == ("604800000", ConfigType.LONG)
    assert synonyms(retention) == [("log.retention.hours", "168", "DEFAULT_CONFIG")]


def test_the_topics_own_value_comes_before_the_files_and_that_before_the_default(directory: Path) -> None:
    file = "log.retention.hours=2\nlog.retention.minutes=3\n"
    from_file = entry(described(directory, orders(), file=file), "retention.ms")
    assert (from_file.value, from_file.config_source) == ("180000", ConfigSource.STATIC_BROKER_CONFIG)
    assert synonyms(from_file) == [
        ("log.retention.minutes", "3", "STATIC_BROKER_CONFIG"),
        ("log.retention.hours", "2", "STATIC_BROKER_CONFIG"),
        ("log.retention.hours", "168", "DEFAULT_CONFIG"),
    ]
    own = entry(described(directory, orders(retention_ms="5"), file=file), "retention.ms")
    assert (own.value, own.config_source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert synonyms(own)[0] == ("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG")
    assert len(own.synonyms) == 4


def test_a_value_is_described_in_its_canonical_form(directory: Path) -> None:
    image = orders(unclean_leader_election_enable="TRUE", cleanup_policy="compact , delete")
    description = described(directory, image)
    for key, value in (("unclean.leader.election.enable", "true"), ("cleanup.policy", "compact,delete")):
        assert (entry(description, key).value, synonyms(entry(description, key))[0][1]) == (value, value)


def test_the_configs_of_a_topic_that_does_not_exist_are_described_as_if_it_did(directory: Path) -> None:
    there = described(directory, orders(retention_ms="5"), in_full=False)
    handler = DescribeConfigsHandler(load(directory / "server.properties"), lambda: cluster(7))
    assert handler.in_effect_on_topic({"retention.ms": "5"}) == list(there.configs)


def test_only_what_is_asked_for_is_described(directory: Path) -> None:
    description = described(directory, orders(), keys=("segment.bytes", "nonsense"), in_full=False)
    (only,) = description.configs
    assert (only.name, only.value, only.synonyms, only.documentation) == ("segment.bytes", "1073741824", (), None)


def test_a_secret_of_the_file_is_described_without_its_value(directory: Path) -> None:
    secure = (
        "listener.security.protocol.map=CONTROLLER:SSL\nssl.keystore.location=/own.pem\nssl.key.password=hunter2\n"
        "ssl.truststore.location=/ca.pem\n"
    )
    description = described(directory, orders(), "7", kind=BROKER, file=secure)
    found = entry(description, "ssl.key.password")
    assert (found.value, found.is_sensitive, found.config_type) == (None, True, ConfigType.PASSWORD)
    assert synonyms(found) == [
        ("ssl.key.password", None, "STATIC_BROKER_CONFIG"),
        ("ssl.key.password", None, "DEFAULT_CONFIG"),
    ]
    assert {each.name for each in description.configs if each.is_sensitive} == {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }
    assert "hunter2" not in repr(description)


def test_a_broker_describes_the_configs_of_its_file_and_its_defaults(directory: Path) -> None:
    description = described(directory, orders(), "7", kind=BROKER, file="log.cleaner.enable=false\n")
    assert [each.name for each in description.configs] == sorted(key.name for key in KEYS)
    assert all(each.documentation for each in description.configs)
    assert {each.name for each in description.configs if not each.read_only} == {
        "log.cleaner.backoff.ms",
        "log.cleaner.io.max.bytes.per.second",
        "log.scrub.io.max.bytes.per.second",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        *TOPIC_DEFAULT_KEYS,
    }
    for key, value, kind, source in (
        ("node.id", "7", ConfigType.INT, "STATIC_BROKER_CONFIG"),
        ("log.cleaner.enable", "false", ConfigType.BOOLEAN, "STATIC_BROKER_CONFIG"),
        ("num.partitions", "1", ConfigType.INT, "DEFAULT_CONFIG"),
        ("log.retention.hours", "168", ConfigType.INT, "DEFAULT_CONFIG"),
        ("listeners", "GRPC://localhost:9094,CONTROLLER://localhost:9093", ConfigType.LIST, "STATIC_BROKER_CONFIG"),
        ("log.retention.ms", None, ConfigType.LONG, "DEFAULT_CONFIG"),
        ("log.durability", "fsync", ConfigType.STRING, "DEFAULT_CONFIG"),
        ("group.consumer.migration.policy", "bidirectional", ConfigType.STRING, "DEFAULT_CONFIG"),
        ("advertised.listeners", None, ConfigType.LIST, "DEFAULT_CONFIG"),
        ("log.retention.check.interval.ms", "300000", ConfigType.LONG, "DEFAULT_CONFIG"),
    ):
        found = entry(description, key)
        assert (found.name, found.value, found.config_type) == (key, value, kind)
        assert ConfigSource(found.config_source).name == source


def test_what_was_set_while_brokers_run_comes_before_what_their_files_say(directory: Path) -> None:
    image = orders().replay(
        [
            BrokerConfigSet(broker="", key="log.retention.ms", value="50"),
            BrokerConfigSet(broker="7", key="log.retention.ms", value="70"),
            BrokerConfigSet(broker="8", key="log.retention.ms", value="80"),
            BrokerConfigSet(broker="", key="log.roll.ms", value="60"),
        ]
    )
    wanted = [
        ("log.retention.ms", "70", "DYNAMIC_BROKER_CONFIG"),
        ("log.retention.ms", "50", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("log.retention.ms", "9", "STATIC_BROKER_CONFIG"),
    ]
    of_broker = described(directory, image, "7", kind=BROKER, file="log.retention.ms=9\n")
    found = entry(of_broker, "log.retention.ms")
    assert (found.value, found.config_source) == ("70", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert synonyms(found)[:3] == wanted
    of_topic = described(directory, image, file="log.retention.ms=9\n")
    found = entry(of_topic, "retention.ms")
    assert (found.value, found.config_source) == ("70", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert synonyms(found)[:3] == wanted
    assert entry(of_topic, "segment.ms").value == "60"
    of_all = described(directory, image, "", kind=BROKER)
    assert [(each.name, each.value) for each in of_all.configs] == [("log.retention.ms", "50"), ("log.roll.ms", "60")]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "ordres", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'ordres'"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is empty"),
        (BROKER, "8", ErrorCode.INVALID_REQUEST, "this is broker 7, which has only its own configs: ask broker '8'"),
        (ConfigResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "the name is empty: name client metrics"),
        (ConfigResourceType.UNKNOWN, "x", ErrorCode.INVALID_REQUEST, "there are no configs of kind 0"),
    ],
)
def test_what_cannot_be_described_is_refused(
    directory: Path, kind: ConfigResourceType, name: str, code: ErrorCode, message: str
) -> None:
    description = described(directory, orders(), name, kind=kind)
    assert (description.error_code, description.configs) == (code, ())
    assert message in (description.error_message or "")


def test_client_metrics_have_their_own_configs_or_the_defaults(directory: Path) -> None:
    text = " org.apache.kafka.producer. ,org.apache.kafka.consumer.,org.apache.kafka.producer."
    image = orders().replay([ClientMetricsConfigSet(name="javas", key="metrics", value=text)])
    found = described(directory, image, "javas", kind=ConfigResourceType.CLIENT_METRICS)
    assert [(each.name, each.value, each.config_source) for each in found.configs] == [
        ("interval.ms", "300000", ConfigSource.DEFAULT_CONFIG),
        ("match", "", ConfigSource.DEFAULT_CONFIG),
        (
            "metrics",
            "org.apache.kafka.producer.,org.apache.kafka.consumer.",
            ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        ),
    ]


def test_a_topic_that_is_named_a_thousand_times_is_described_once_for_each_choice_of_keys(directory: Path) -> None:
    path = directory / "server.properties"
    path.write_text(FILE)
    named = [
        DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name="orders", configuration_keys=keys)
        for keys in (("retention.ms",), None, ())
    ]
    request = DescribeConfigsRequest(resources=tuple(named * 1_000))
    response = asyncio.run(DescribeConfigsHandler(load(path), orders).handle(request))
    assert [len(each.configs) for each in response.results] == [1, len(TOPIC_CONFIGS)]


def test_a_refused_request_is_refused_for_each_resource() -> None:
    resource = DescribeConfigsResource(resource_type=99, resource_name="orders", configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,) * 2)
    results = refused(request, Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")).results
    assert [(each.error_code, each.error_message, each.resource_type, each.configs) for each in results] == [
        (ErrorCode.REQUEST_TIMED_OUT, "late", 99, ())
    ] * 2
