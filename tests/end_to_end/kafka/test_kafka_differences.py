"""Kraft's answers beside those that Apache Kafka gave to the same requests.

`python -m tests.end_to_end.kafka.differences --record` asks Kafka anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.end_to_end.kafka.differences import recorded
from tests.end_to_end.kafka.differences.access_matrix import access_matrix
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.cluster_scenarios import metadata_of_topics
from tests.end_to_end.kafka.differences.comparison import ABSENT, Deliberate, compare
from tests.end_to_end.kafka.differences.deliberate import DELIBERATE
from tests.end_to_end.kafka.differences.fetch_scenarios import fetch, wanted
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.plain import Plain
from tests.end_to_end.kafka.differences.produce_scenarios import produce, produce_idempotently, produce_to_compacted
from tests.end_to_end.kafka.differences.push_scenarios import kraft_that_asks
from tests.end_to_end.kafka.differences.scenarios import (
    ACL_SCENARIOS,
    ACL_SETTINGS,
    CLUSTER_NODES,
    CLUSTER_SCENARIOS,
    GROUP_SCENARIOS,
    GROUP_SETTINGS,
    PUSH_SCENARIOS,
    SCENARIOS,
    SETTINGS,
    ClusterScenario,
    Scenario,
    play,
    play_in_cluster,
)
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.new_topic import new_topic

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Cluster(1, overrides=SETTINGS) as cluster:
        yield cluster.kafka_bootstrap_servers


@pytest.fixture(scope="module")
def authorizing() -> Iterator[str]:
    with Cluster(1, overrides=ACL_SETTINGS) as cluster:
        yield cluster.kafka_bootstrap_servers


@pytest.fixture(scope="module")
def asking() -> Iterator[str]:
    with kraft_that_asks() as cluster:
        yield cluster.kafka_bootstrap_servers


@pytest.fixture(scope="module")
def coordinator() -> Iterator[str]:
    with Cluster(1, overrides=GROUP_SETTINGS) as cluster:
        yield cluster.kafka_bootstrap_servers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(CLUSTER_NODES, overrides=SETTINGS) as running:
        yield running


def check(name: str, answers: dict[str, Any]) -> None:
    """They are Kafka's but where the reason is told, and no reason is told for nothing."""
    comparison = compare(name, recorded.read(name), answers, DELIBERATE)
    assert [str(difference) for difference in comparison.unexplained] == []
    needed = [deliberate for _, deliberate in comparison.explained]
    assert [each for each in DELIBERATE if each.scenarios == name and each not in needed] == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_a_broker_answers_as_kafkas_did(scenario: Scenario, address: str) -> None:
    check(scenario.__name__, play(scenario, address))


@pytest.mark.parametrize("scenario", ACL_SCENARIOS, ids=[scenario.__name__ for scenario in ACL_SCENARIOS])
def test_a_broker_with_an_authorizer_answers_as_kafkas_did(scenario: Scenario, authorizing: str) -> None:
    check(scenario.__name__, play(scenario, authorizing))


@pytest.mark.parametrize("scenario", PUSH_SCENARIOS, ids=[scenario.__name__ for scenario in PUSH_SCENARIOS])
def test_a_broker_that_asks_for_metrics_answers_as_kafkas_did(scenario: Scenario, asking: str) -> None:
    check(scenario.__name__, play(scenario, asking))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", GROUP_SCENARIOS, ids=[scenario.__name__ for scenario in GROUP_SCENARIOS])
def test_a_coordinator_answers_as_kafkas_did(scenario: Scenario, coordinator: str) -> None:
    check(scenario.__name__, play(scenario, coordinator))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", CLUSTER_SCENARIOS, ids=[scenario.__name__ for scenario in CLUSTER_SCENARIOS])
def test_three_brokers_answer_as_kafkas_did(scenario: ClusterScenario, cluster: Cluster) -> None:
    check(scenario.__name__, play_in_cluster(scenario, cluster.kafka_bootstrap_servers.split(",")))


def test_who_asks_the_wrong_broker_is_given_the_leader_and_its_address(cluster: Cluster) -> None:
    addresses = cluster.kafka_bootstrap_servers.split(",")
    peers = [Peer(address, Plain(), {}) for address in addresses]
    assigned = new_topic("elsewhere", -1, -1, assignments={0: (2, 3, 1)})
    (created,) = peers[0].call(CreateTopicsRequest(topics=(assigned,), timeout_ms=TIMEOUT_MS), 7).topics
    peers[1].wait_led("elsewhere")
    by_name = MetadataRequest(topics=(MetadataRequestTopic(name="elsewhere"),))
    for peer in peers[::2]:
        peer.until(by_name, 12, lambda answer: bool(answer.topics[0].partitions))
        produced = peer.call(produce(13, "", created.topic_id, batch("a")), 13)
        fetched = peer.call(fetch(18, "", created.topic_id, [wanted()]), 18)
        refused = (produced.responses[0].partition_responses[0], fetched.responses[0].partitions[0])
        assert [each.error_code for each in refused] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert [(each.current_leader.leader_id, each.current_leader.leader_epoch) for each in refused] == [(2, 0)] * 2
        for (endpoint,) in (produced.node_endpoints, fetched.node_endpoints):
            assert (endpoint.node_id, f"{endpoint.host}:{endpoint.port}") == (2, addresses[1])
    for peer in peers:
        peer.close()


def test_every_scenario_is_recorded_and_no_other() -> None:
    scenarios = (*SCENARIOS, *ACL_SCENARIOS, *PUSH_SCENARIOS, *GROUP_SCENARIOS, *CLUSTER_SCENARIOS, access_matrix)
    assert recorded.recorded() == {scenario.__name__ for scenario in scenarios}


@pytest.mark.slow
def test_kafka_still_answers_as_it_was_recorded() -> None:
    """A few scenarios; the command compares all of them."""
    with kafka_brokers(kafka_jars(), SETTINGS) as (kafka,):
        for scenario in (produce_to_compacted, produce_idempotently, metadata_of_topics):
            name = scenario.__name__
            found = compare(name, recorded.read(name), play(scenario, kafka), ()).unexplained
            assert [str(difference) for difference in found] == []


# --- the comparison itself -------------------------------------------------------------------------------------------


def places(kafka: dict[str, Any], kraft: dict[str, Any], deliberate: Sequence[Deliberate] = ()) -> list[str]:
    return [found.place for found in compare("fetch", kafka, kraft, deliberate).unexplained]


def test_a_difference_is_found_at_any_depth() -> None:
    kafka = {"v1": {"topics": [{"error_code": 0}, {"error_code": 3}]}, "v2": "no answer"}
    kraft = {"v1": {"topics": [{"error_code": 0}, {"error_code": 100}]}, "v2": "no answer"}
    assert places(kafka, kafka) == []
    assert places(kafka, kraft) == ["v1: topics.1.error_code"]


def test_what_only_one_of_them_says_is_a_difference() -> None:
    assert places({"v1": {"a": 1}}, {"v1": {"b": 1}}) == ["v1: a", "v1: b"]
    assert places({"v1": [1, 2]}, {"v1": [1]}) == ["v1"]
    assert places({"v1": {}}, {}) == ["v1"]


def test_numbers_of_another_kind_and_null_are_not_the_same() -> None:
    assert places({"v1": {"a": 0, "b": None, "c": 1}}, {"v1": {"a": False, "b": "", "c": 1.0}}) == [
        "v1: a",
        "v1: b",
        "v1: c",
    ]


def test_an_explanation_holds_where_it_says_and_for_the_answers_that_it_names() -> None:
    kafka, kraft = {"v1 x": {"text": ABSENT, "code": 0}}, {"v1 x": {"text": "why", "code": 3}}
    text = Deliberate(scenarios="fetch*", places="*text", kafka=ABSENT, reason="because")
    assert places(kafka, kraft, [text]) == ["v1 x: code"]
    for other in (
        Deliberate(scenarios="produce*", places="*", reason="because"),
        Deliberate(scenarios="*", places="v2 *", reason="because"),
        Deliberate(scenarios="*", places="*", kafka=None, reason="because"),
        Deliberate(scenarios="*", places="*", kraft=False, reason="because"),
    ):
        assert places(kafka, kraft, [other]) == ["v1 x: text", "v1 x: code"]
