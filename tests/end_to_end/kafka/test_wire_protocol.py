"""Our clients by Kafka's protocol, at Kraft's brokers and at Apache Kafka's: the same programs, the same outcomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Admin, Consumer, InvalidSetting, KraftError, NewTopic, Producer, Refusal, TopicPartition
from kraft.console.routes import PAGES
from kraft.model.errors import ErrorCode
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.testing import Cluster
from tests.support.console_addresses import address_of
from tests.support.console_api import assert_fits
from tests.support.console_browser import Browser, console
from tests.support.kafka.kafka_broker import kafka_brokers
from tests.support.kafka.kafka_jars import kafka_jars
from tests.support.waiting import until

KAFKA: Final[dict[str, Any]] = {"wire_protocol": "kafka"}

REFUSED_BY_OPEN_CLUSTERS: Final = {
    "SECURITY_DISABLED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "RESOURCE_NOT_FOUND",
    "UNSUPPORTED_VERSION",
    "OFFSET_OUT_OF_RANGE",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "INVALID_TXN_STATE",
}
"""Without an authorizer there are no ACLs, and no audit; the connections of clients are told by gRPC only. A partition
may have got no record, and no transaction is open that could be shown, or aborted."""

_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module", params=["kraft", "apache-kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Bootstrap servers for clients of Kafka's protocol."""
    if request.param == "kraft":
        with Cluster(1, overrides=_SETTINGS) as running:
            yield running.kafka_bootstrap_servers
    else:
        with kafka_brokers(kafka_jars(), _SETTINGS) as addresses:
            yield ",".join(addresses)


@pytest.fixture(scope="module")
def admin(brokers: str) -> Iterator[Admin]:
    with Admin(brokers, **KAFKA) as admin:
        yield admin


def created(admin: Admin, topic: str, partitions: int = 1) -> str:
    admin.create_topic(topic, partitions, 1)
    until(lambda: topic in admin.list_topics(), f"topic {topic} is listed")
    # A leader that is not ready yet would refuse, and a producer with acks=0 hears of no refusal.
    ends = admin.list_offsets({TopicPartition(topic, number): LATEST_TIMESTAMP for number in range(partitions)})
    assert [each.offset for each in ends.values() if not isinstance(each, KraftError)] == [0] * partitions
    return topic


def written(brokers: str, topic: str, count: int, **settings: Any) -> None:
    with Producer(brokers, **KAFKA, **settings) as producer:
        futures = [producer.send(topic, value=b"%d" % number) for number in range(count)]
        for each in futures:
            each.result(30)


def values_until(consumer: Consumer, is_enough: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Return the values that the consumer reads until there are enough."""
    found: list[bytes] = []

    def poll() -> bool:
        found.extend(each.value or b"" for each in consumer.poll(500))
        return is_enough(found)

    until(poll, lambda: f"{len(found)} records were read")
    return found


def test_topics_are_created_described_changed_and_deleted(admin: Admin) -> None:
    admin.create_topics([NewTopic(topic="first", partitions=3, replication_factor=1, configs={"retention.ms": "5000"})])
    until(lambda: "first" in admin.list_topics(), "the topic is listed")
    (described,) = admin.describe_topics(["first"])
    assert (described.configs["retention.ms"], len(described.metadata.partitions)) == ("5000", 3)
    with pytest.raises(Refusal, match="'first'") as refused:
        admin.create_topic("first", 1, 1)
    assert refused.value.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    admin.delete_topics(["first"])
    until(lambda: "first" not in admin.list_topics(), "the topic is gone")
    with pytest.raises(Refusal) as refused:
        admin.describe_topics(["first"])
    assert refused.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_cluster_is_described(admin: Admin) -> None:
    (broker,) = admin.describe_brokers()
    assert (broker.broker_id, broker.fenced) == (1, False)
    quorum = admin.describe_quorum()
    assert ([each.node_id for each in quorum.voters], quorum.leader_id) == ([1], 1)
    assert quorum.cluster_id == admin.describe_cluster().cluster_id
    levels = {each.feature: each.finalized_level for each in admin.describe_features().features}
    assert levels["metadata.version"] >= 1


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_records_are_written_and_read(brokers: str, admin: Admin, acks: str) -> None:
    topic = created(admin, f"records-{acks}", 3)
    written(brokers, topic, 1_000, acks=acks, compression_type="lz4")
    places = [TopicPartition(topic, number) for number in range(3)]
    with Consumer(brokers, **KAFKA, auto_offset_reset="earliest") as consumer:
        until(lambda: sum(consumer.end_offsets(places).values()) == 1_000, "all records are appended")
        consumer.assign(places)
        found = values_until(consumer, lambda found: len(found) >= 1_000)
    assert sorted(map(int, found)) == list(range(1_000))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_commits_and_is_described(brokers: str, admin: Admin, protocol: str) -> None:
    topic, group = created(admin, f"for-{protocol}", 2), f"group-{protocol}"
    written(brokers, topic, 100)
    with Consumer(brokers, **KAFKA, group_id=group, group_protocol=protocol, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found = values_until(consumer, lambda found: len(found) >= 100)
        (described,) = admin.describe_consumer_groups([group])
        assert len(described.members) == 1
    assert len(found) == 100
    committed = admin.list_consumer_group_offsets(group)
    assert sum(each.offset for each in committed.values()) == 100
    assert {each.topic for each in committed} == {topic}
    admin.delete_consumer_groups([group])


def test_a_transaction_is_committed_and_another_aborted(brokers: str, admin: Admin) -> None:
    topic = created(admin, "in-transactions")
    with Producer(brokers, **KAFKA, transactional_id="writer") as producer:
        for value in (b"kept", b"dropped", b"last"):
            producer.begin_transaction()
            producer.send(topic, value=value)
            if value == b"dropped":
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    with Consumer(brokers, **KAFKA, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = values_until(consumer, lambda found: b"last" in found)
    assert found == [b"kept", b"last"]

    def listed() -> list[tuple[str, str]]:
        return [(each.transactional_id, each.state) for each in admin.list_transactions()]

    # A reader sees the last marker before its coordinator has heard that it is written.
    until(lambda: listed() == [("writer", "CompleteCommit")], listed)


def test_what_kafka_does_not_have_is_refused_at_once(admin: Admin) -> None:
    with pytest.raises(Refusal, match="Kafka's protocol has no FenceBroker: use a broker's GRPC listener"):
        admin.fence_broker(1)


def test_another_protocol_is_named(brokers: str) -> None:
    with pytest.raises(InvalidSetting, match=r"wire\.protocol=http is not one of grpc, kafka"):
        Admin(brokers, wire_protocol="http")


@pytest.mark.slow
def test_the_console_shows_each_page_or_says_why_not(brokers: str, admin: Admin, tmp_path: Path) -> None:
    topic, group = created(admin, "for-console", 2), "group-of-console"
    written(brokers, topic, 20)
    with Consumer(brokers, **KAFKA, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        values_until(consumer, lambda found: len(found) >= 20)
        consumer.commit()
    settings = {"cluster.c.bootstrap.servers": brokers, "cluster.c.wire.protocol": "kafka"}
    with console(tmp_path, {"clusters": "c", **settings}) as port:
        browser, refused = Browser(port), dict[str, list[str]]()
        for page in PAGES:
            address = address_of(page, cluster="c", topic=topic, group=group, broker="1", transactional_id="none")
            shown, answer = browser.get(address), browser.get(f"/api{address}")
            assert_fits(f"/api{page.path}", "get", answer)
            assert shown.status not in (500, 504), f"{address}: {answer.text}"
            if shown.status != 200:
                assert re.search('role="(status|alert)"', shown.text), f"{address} says why it shows nothing"
                refused[address] = re.findall(r'"code":"([A-Z_]+)"', answer.text)
    main = ("", "/brokers", "/topics", f"/topics/{topic}", "/groups", f"/groups/{group}", "/users", "/quotas")
    assert not refused.keys() & {f"/clusters/c{each}" for each in main}
    for codes in refused.values():
        assert set(codes) <= REFUSED_BY_OPEN_CLUSTERS, refused
