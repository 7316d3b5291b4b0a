"""Files that were written for Kafka: its samples, and what is changed in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.loading import ConfigError
from tests.unit.server.config.files import Load

COMMON = """
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
socket.send.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=data
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
"""
"""Settings that the samples of Kafka 4.3 have in common."""

SERVER = (
    COMMON
    + """
process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
"""
)
CONTROLLER = (
    COMMON
    + """
process.roles=controller
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
"""
)
BROKER = (
    COMMON
    + """
process.roles=broker
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
"""
)
BEFORE_KAFKA_4 = """
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""Settings that the samples of Kafka 2.8 have in common."""

FIRST_SERVER = (
    BEFORE_KAFKA_4
    + """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs=/tmp/kraft-combined-logs
"""
)
"""The sample of Kafka 2.8 for a node without ZooKeeper."""

WITH_ZOOKEEPER = (
    BEFORE_KAFKA_4
    + """
broker.id=0
listeners=PLAINTEXT://localhost:9092
log.dirs=/tmp/kafka-logs
group.initial.rebalance.delay.ms=0
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
"""
)
"""The sample of Kafka 2.8 for a broker with ZooKeeper, with a listener on this machine."""

OF_LISTENERS = "CONTROLLER://:9093 is opened as CONTROLLER://localhost:9093: for controllers on other machines, set"


def test_kafkas_sample_of_a_combined_node_starts_as_it_is(load_text: Load) -> None:
    config = load_text(SERVER)
    assert [str(voter) for voter in config.quorum.voters] == ["1@localhost:9093"]
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://localhost:9092",
        "CONTROLLER://localhost:9093",
        "GRPC://localhost:9094",
    ]
    said = [f"{warning.key}: {warning.message}" for warning in config.warnings]
    assert "inter.broker.listener.name: PLAINTEXT has no effect: brokers call each other at GRPC" in said
    assert (
        "listeners: has no GRPC listener, which brokers and the kraft command use: GRPC://localhost:9094 is added"
        in said
    )
    assert not [each for each in said if "unknown key" in each or each.startswith("controller.quorum.bootstrap")]
    assert any(OF_LISTENERS in each for each in said)
    assert any("PLAINTEXT://:9092 is opened as PLAINTEXT://localhost:9092, because it sends" in each for each in said)
    assert any(each.startswith("controller.quorum.voters: is not set: this node is the only") for each in said)


@pytest.mark.parametrize("voters", ["1@localhost:9093", "1@localhost:9093,2@localhost:9193,3@localhost:9293"])
def test_the_sample_of_kafka_2_8_without_zookeeper_starts_as_it_is_alone_and_as_one_of_three(
    load_text: Load, voters: str
) -> None:
    config = load_text(FIRST_SERVER.replace("1@localhost:9093", voters))
    assert ",".join(map(str, config.quorum.voters)) == voters
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://localhost:9092",
        "CONTROLLER://localhost:9093",
        "GRPC://localhost:9094",
    ]
    assert config.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    assert not [each for each in config.warnings if "unknown key" in each.message]


def test_the_sample_of_kafka_2_8_with_zookeeper_is_answered_with_one_remedy_for_each_line(load_text: Load) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(WITH_ZOOKEEPER)
    problems = [each.partition("server.properties")[2] for each in str(raised.value).splitlines()]
    line = WITH_ZOOKEEPER.splitlines().index("zookeeper.connect=localhost:2181") + 1
    assert [each.split()[0] for each in problems[1:3]] == [f":{line}:", f":{line + 1}:"]
    assert all("Kraft has no ZooKeeper: name the controllers in controller.quorum.voters=" in p for p in problems[1:3])
    assert [each.split()[1] for each in problems[3:]] == ["process.roles", "controller.quorum.voters"]
    config = load_text(
        "".join(each for each in WITH_ZOOKEEPER.splitlines(keepends=True) if not each.startswith("zookeeper."))
        .replace("listeners=", "listeners=CONTROLLER://localhost:9093,")
        .replace("broker.id=0\n", "broker.id=0\nprocess.roles=broker,controller\n")
        + "controller.quorum.voters=0@localhost:9093\n"
    )
    assert (config.node_id, config.log_dirs) == (0, (Path("/tmp/kafka-logs"),))
    assert [str(each) for each in config.listeners] == [
        "CONTROLLER://localhost:9093",
        "PLAINTEXT://localhost:9092",
        "GRPC://localhost:9094",
    ]


def test_kafkas_sample_of_a_controller_starts_as_it_is(load_text: Load) -> None:
    config = load_text(CONTROLLER)
    assert [str(each) for each in config.listeners] == ["CONTROLLER://localhost:9093"]


def test_kafkas_sample_of_a_broker_needs_one_edit_which_its_error_names(load_text: Load) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(BROKER)
    edit = str(raised.value).rpartition(" ")[2]
    assert edit == "controller.quorum.voters=1@localhost:9093"
    config = load_text(BROKER.replace("node.id=1", "node.id=2") + edit)
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://localhost:9092", "GRPC://localhost:9094"]


def test_several_controllers_without_ids_are_named_in_the_example(load_text: Load) -> None:
    three = SERVER.replace("servers=localhost:9093", "servers=a:9093,b:9093,c:9093")
    with pytest.raises(ConfigError, match=r"for example controller\.quorum\.voters=1@a:9093,2@b:9093,3@c:9093$"):
        load_text(three)


@pytest.mark.parametrize(
    "server",
    [
        "controllers.example:9093",
        "10.0.0.1:9093",
        "localhost:9193",
        "localhost:9193,",
        "localhost:9093,other:9093",
        "other:9093,localhost:9093",
        "localhost:9093,localhost:9093",
    ],
)
def test_a_controller_does_not_vote_alone_unless_the_only_address_is_its_own(load_text: Load, server: str) -> None:
    """The others of its quorum may be behind that address: it would form a second cluster."""
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters is missing"):
        load_text(CONTROLLER.replace("servers=localhost:9093", f"servers={server}") + "cluster.secret.file=secret\n")


@pytest.mark.parametrize("voters", ["1@elsewhere:9093", "1@localhost:9093,2@elsewhere:9093"])
def test_nothing_is_added_or_narrowed_for_a_quorum_on_other_machines(load_text: Load, voters: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(f"{SERVER}controller.quorum.voters={voters}\n")
    assert "a broker needs a listener GRPC" in str(raised.value)
    assert "CONTROLLER://:9093 is open to other machines" in str(raised.value)


def test_an_address_that_was_written_is_not_narrowed(load_text: Load) -> None:
    with pytest.raises(ConfigError, match=r"CONTROLLER://0\.0\.0\.0:9093 is open to other machines"):
        load_text(CONTROLLER.replace("listeners=CONTROLLER://:9093", "listeners=CONTROLLER://0.0.0.0:9093"))


def test_an_open_listener_is_narrowed_only_if_its_clients_are_on_this_machine(load_text: Load) -> None:
    elsewhere = SERVER.replace("PLAINTEXT://localhost:9092", "PLAINTEXT://here.example:9092")
    with pytest.raises(ConfigError, match="PLAINTEXT://:9092 is open to other machines without authentication"):
        load_text(elsewhere)
    written = SERVER.replace("PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092")
    with pytest.raises(ConfigError, match=r"PLAINTEXT://0\.0\.0\.0:9092 is open to other machines"):
        load_text(written)


def test_a_listener_that_may_be_open_is_not_narrowed(load_text: Load) -> None:
    config = load_text(f"{SERVER}allow.unauthenticated.listeners=PLAINTEXT\n")
    assert "PLAINTEXT://:9092" in map(str, config.listeners)


def test_with_a_secret_controllers_are_open_to_other_machines(load_text: Load) -> None:
    config = load_text(CONTROLLER + "cluster.secret.file=secret\n")
    assert [str(each) for each in config.listeners] == ["CONTROLLER://:9093"]


def test_a_controller_with_two_listeners_does_not_vote_alone(load_text: Load) -> None:
    """Which of them its quorum knows is not said."""
    two = CONTROLLER.replace("listeners=CONTROLLER://:9093", "listeners=CONTROLLER://:9193,CONTROLLER://:9093")
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters is missing"):
        load_text(two + "cluster.secret.file=secret\n")


def test_controllers_that_authenticate_by_certificates_are_open_to_other_machines(load_text: Load) -> None:
    tls = CONTROLLER.replace("CONTROLLER:PLAINTEXT", "CONTROLLER:SSL")
    files = "ssl.keystore.location=node.pem\nssl.truststore.location=ca.pem\n"
    config = load_text(tls + files + "ssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.client.auth=required\n")
    assert [str(each) for each in config.listeners] == ["CONTROLLER://:9093"]
    assert not [each.message for each in config.warnings if "is opened as" in each.message]
