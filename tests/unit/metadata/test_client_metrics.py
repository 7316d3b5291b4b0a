"""Subscriptions to the metrics of clients: what may be set, and what a client is asked for."""

from __future__ import annotations

from uuid import UUID

import crc32c
import pytest

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.client_metrics import (
    MATCH_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    PREFIXES_MAX,
    SUBSCRIPTIONS_MAX,
    Wanted,
    check_client_metrics,
    subscription_id,
    subscriptions_of,
    takes_long,
    wanted,
)
from kraft.metadata.config_decisions import NodeConfigs, incremental_alter_configs
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.records import ClientMetricsConfigSet, FeatureLevelSet, MetadataRecord
from kraft.model.configs import ConfigOperation, ConfigResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster_images import cluster

SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND
Alteration = tuple[str, ConfigOperation, str | None]

CLIENT = {"client_id": "shop-7", "client_software_name": "apache-kafka-java", "client_source_address": "10.0.0.7"}


def of(name: str, *alterations: Alteration) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=ConfigResourceType.CLIENT_METRICS,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in alterations
        ),
    )


def alter(
    *resources: AlterConfigsResource, image: MetadataImage | None = None
) -> tuple[list[tuple[int, str]], list[MetadataRecord]]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    node = NodeConfigs(topics=KAFKA_DEFAULTS)
    decision = incremental_alter_configs(cluster(1) if image is None else image, request, node)
    return [(each.error_code, each.error_message or "") for each in decision.response.responses], list(decision.records)


def refusal(*resources: AlterConfigsResource, image: MetadataImage | None = None) -> tuple[int, str]:
    answers, records = alter(*resources, image=image)
    assert not records
    return answers[-1]


def asked(client: dict[str, str], **configs: dict[str, str]) -> tuple[tuple[str, ...], int]:
    found = wanted(subscriptions_of(configs), client)
    return found.metrics, found.interval_ms


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


# --- what may be set ----------------------------------------------------------------------------------------------


def test_configs_are_set_and_removed_and_the_last_one_removes_the_subscription() -> None:
    answers, records = alter(of("javas", ("metrics", SET, "*"), ("interval.ms", SET, "1000")))
    assert answers == [(ErrorCode.NONE, "")]
    image = cluster(1).replay(records)
    assert image.client_metrics == {"javas": {"interval.ms": "1000", "metrics": "*"}}
    assert alter(of("javas", ("metrics", SET, "*")), image=image)[1] == []
    _, records = alter(
        of("javas", ("metrics", DELETE, None), ("interval.ms", DELETE, None), ("no.such", DELETE, None)), image=image
    )
    assert records == [
        ClientMetricsConfigSet(name="javas", key="interval.ms", value=None),
        ClientMetricsConfigSet(name="javas", key="metrics", value=None),
    ]
    assert image.replay(records).client_metrics == {}


@pytest.mark.parametrize(
    ("alteration", "code", "words"),
    [
        (("metrcs", SET, "a"), ErrorCode.INVALID_REQUEST, "did you mean 'metrics'?"),
        (("retention", SET, "a"), ErrorCode.INVALID_REQUEST, "client metrics have interval.ms, match, metrics"),
        (("interval.ms", SET, "99"), ErrorCode.INVALID_REQUEST, "expected 100 to 3600000"),
        (("interval.ms", SET, "3600001"), ErrorCode.INVALID_REQUEST, "expected 100 to 3600000"),
        (("interval.ms", SET, "soon"), ErrorCode.INVALID_CONFIG, "expected a whole number"),
        (("metrics", APPEND, "a"), ErrorCode.INVALID_CONFIG, "set all of it"),
        (("metrics", SET, "a,,b"), ErrorCode.INVALID_CONFIG, "none of which is empty"),
        (("metrics", SET, "a" * 8_193), ErrorCode.INVALID_CONFIG, "at most 8192 characters"),
        (("match", SET, "client_id"), ErrorCode.INVALID_CONFIG, "NAME=REGEX,... with names of client_instance_id,"),
        (("match", SET, "client_id="), ErrorCode.INVALID_CONFIG, "NAME=REGEX"),
        (("match", SET, "client=a"), ErrorCode.INVALID_CONFIG, "NAME=REGEX"),
        (("match", SET, "client_id=a=b"), ErrorCode.INVALID_CONFIG, "NAME=REGEX"),
        (("match", SET, "client_id=(a"), ErrorCode.INVALID_CONFIG, "'(a' is none: missing )"),
        (("match", SET, r"client_id=(a)\1"), ErrorCode.INVALID_CONFIG, "is none: invalid escape sequence"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_kafkas_code(alteration: Alteration, code: int, words: str) -> None:
    refused = refusal(of("javas", alteration))
    assert refused[0] == code
    assert words in refused[1]


def test_a_name_is_needed_and_limited() -> None:
    for name in ("", "n" * (NAME_CHARACTERS_MAX + 1)):
        assert refusal(of(name, ("metrics", SET, "*")))[0] == ErrorCode.INVALID_REQUEST


def test_the_subscriptions_of_a_cluster_are_limited_and_those_that_are_there_may_change() -> None:
    full = cluster(1).replay(
        [ClientMetricsConfigSet(name=str(each), key="metrics", value="*") for each in range(SUBSCRIPTIONS_MAX - 1)]
    )
    answers, records = alter(of("new", ("metrics", SET, "a")), of("newer", ("metrics", SET, "a")), image=full)
    assert [code for code, _ in answers] == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    image = full.replay(records)
    assert refusal(of("newest", ("metrics", SET, "a")), image=image)[0] == ErrorCode.POLICY_VIOLATION
    assert alter(of("new", ("metrics", SET, "b")), image=image)[0] == [(ErrorCode.NONE, "")]


def test_the_expressions_of_one_request_are_limited_together() -> None:
    half = "client_id=" + "a" * (MATCH_CHARACTERS_MAX // 2)
    answers, _ = alter(of("one", ("match", SET, half)), of("two", ("match", SET, half)))
    assert [code for code, _ in answers] == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    assert "alter fewer client metrics at a time" in answers[1][1]


def test_there_are_none_while_a_node_may_not_know_them() -> None:
    image = cluster(1).replay([FeatureLevelSet(feature=METADATA_VERSION, level=4)])
    code, words = refusal(of("javas", ("metrics", SET, "*")), image=image)
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert "run kraft features upgrade --feature metadata.version=5" in words


# --- what a client is asked for -----------------------------------------------------------------------------------


def test_without_a_subscription_nothing_is_wanted() -> None:
    assert asked(CLIENT) == ((), 300_000)


def test_several_subscriptions_ask_for_all_of_theirs_at_the_shortest_interval() -> None:
    assert asked(
        CLIENT,
        one={"metrics": "b,a", "interval.ms": "5000"},
        two={"metrics": "c,a", "interval.ms": "3600000"},
        three={"metrics": "d", "interval.ms": "100", "match": "client_id=other"},
    ) == (("a", "b", "c"), 5_000)


def test_the_longest_interval_is_five_minutes_as_in_kafka() -> None:
    assert asked(CLIENT, one={"metrics": "a", "interval.ms": "3600000"}) == (("a",), 300_000)


def test_every_metric_swallows_the_others() -> None:
    assert asked(CLIENT, one={"metrics": "*,a"}, two={"metrics": "b"})[0] == ("*",)


def test_who_would_be_asked_for_too_many_metrics_is_asked_for_all() -> None:
    few = {"one": {"metrics": ",".join(f"a{number}" for number in range(PREFIXES_MAX))}}
    assert len(asked(CLIENT, **few)[0]) == PREFIXES_MAX
    assert not takes_long(subscriptions_of(few))
    many = {**few, "two": {"metrics": "b"}}
    assert asked(CLIENT, **many)[0] == ("*",)
    assert takes_long(subscriptions_of(many))
    assert takes_long(subscriptions_of({"one": {"match": "client_id=a"}}))


@pytest.mark.parametrize(
    ("match", "is_meant"),
    [
        ("", True),
        ("client_id=shop-[0-9]+", True),
        ("client_id=shop", False),
        ("client_id=.*,client_software_name=apache-kafka-java", True),
        ("client_id=.*,client_software_name=librdkafka", False),
        ("client_id=other,client_id=shop-7", True),
        ("client_software_version=.*", False),
        ("client_source_address=10[.].*", True),
    ],
)
def test_expressions_match_whole_values_and_all_of_them(match: str, is_meant: bool) -> None:
    assert asked(CLIENT, one={"metrics": "a", "match": match})[0] == (("a",) if is_meant else ())


def test_what_a_newer_controller_set_asks_for_nothing_here() -> None:
    for configs in ({"match": "client_team=a"}, {"interval.ms": "often"}, {"match": "client_id=("}):
        assert asked(CLIENT, one={"metrics": "a", **configs}) == ((), 300_000)


def test_ids_of_subscriptions_are_kafkas() -> None:
    """The CRC-32C of what is wanted, and the id of the client folded as by Kafka's Uuid.hashCode."""
    every = Wanted(metrics=("*",), interval_ms=5_000)
    assert subscription_id(every, UUID(int=0)) == 0x49A9834A == crc32c.crc32c(b"[*]5000")
    client = UUID("a0000000-0b00-0000-00c0-0000000d0000")
    assert subscription_id(every, client) == _signed(0x49A9834A ^ 0xA0000000 ^ 0x0B000000 ^ 0x00C00000 ^ 0x000D0000)
    other = Wanted(metrics=("a", "b"), interval_ms=5_000)
    assert subscription_id(other, UUID(int=0)) & 0xFFFFFFFF == crc32c.crc32c(b"[a, b]5000")


def test_valid_configs_pass() -> None:
    check_client_metrics({"metrics": "", "match": "", "interval.ms": " 1000 "})
    with pytest.raises(Refusal):
        check_client_metrics({"match": ","})
