"""Files that were written for Kafka: its samples, and what is changed in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.server.config.loading import ConfigError
from tests.support.kafka import release_files
from tests.support.kafka.release_files import BROKER_4 as BROKER
from tests.support.kafka.release_files import CONTROLLER_4 as CONTROLLER
from tests.support.kafka.release_files import SERVER_2_8
from tests.support.kafka.release_files import SERVER_4 as SERVER
from tests.unit.server.config.files import Load

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


@pytest.mark.parametrize("text", [release_files.CONTROLLER_2_8, release_files.BROKER_2_8], ids=["controller", "broker"])
def test_the_samples_of_kafka_2_8_for_a_node_with_one_role_start_as_they_are(load_text: Load, text: str) -> None:
    config = load_text(text)
    assert [str(voter) for voter in config.quorum.voters] == ["1@localhost:9093"]
    assert not [each for each in config.warnings if "unknown key" in each.message]


@pytest.mark.parametrize("voters", ["1@localhost:9093", "1@localhost:9093,2@localhost:9193,3@localhost:9293"])
def test_the_sample_of_kafka_2_8_without_zookeeper_starts_as_it_is_alone_and_as_one_of_three(
    load_text: Load, voters: str
) -> None:
    config = load_text(SERVER_2_8.replace("1@localhost:9093", voters))
    assert ",".join(map(str, config.quorum.voters)) == voters
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://localhost:9092",
        "CONTROLLER://localhost:9093",
        "GRPC://localhost:9094",
    ]
    assert config.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    assert not [each for each in config.warnings if "unknown key" in each.message]


WITH_ZOOKEEPER = {
    name: getattr(release_files, name)
    for name in (
        *("KAFKA_0_8", "KAFKA_0_8_2", "KAFKA_0_9", "KAFKA_0_10", "KAFKA_1", "KAFKA_2_8", "KAFKA_3_9"),
        *("SECOND_BROKER_0_8", "SECOND_BROKER_1"),
    )
}


@pytest.mark.parametrize("text", WITH_ZOOKEEPER.values(), ids=WITH_ZOOKEEPER.keys())
def test_a_file_with_zookeeper_starts_once_it_is_edited_as_its_errors_say_all_of_them_at_once(
    load_text: Load, text: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    edited = release_files.edited_as_told(text, str(raised.value))
    kept, lines = edited.splitlines(), text.splitlines()
    gone = [each for each in lines if not any(line.startswith(each) for line in kept)]
    assert [each.partition("=")[0] for each in gone] == ["zookeeper.connect", "zookeeper.connection.timeout.ms"]
    config = load_text(edited)

    own = next(int(line[-1]) for line in lines if line.startswith("broker.id="))
    assert (config.node_id, [each.node_id for each in config.quorum.voters]) == (own, [own])
    port = 9092 + own
    assert [each.port for each in config.kafka_listeners] == [port]
    assert all(each.host == "localhost" for each in config.listeners)
    assert {str(each) for each in config.log_dirs} <= {"/tmp/kafka-logs", "/tmp/kafka-logs-1"}
    assert not [each for each in config.warnings if "unknown key" in each.message]


@pytest.mark.parametrize(
    ("ports", "grpc_ports"),
    [
        ([(9092, 9093), (9192, 9193), (9292, 9293)], [9094, 9194, 9294]),
        ([(9092, 9093), (9094, 9095), (9096, 9097)], [9098, 9099, 9100]),
        ([(9092, 19092), (9093, 19093), (9094, 19094)], [19095, 19096, 19097]),
    ],
)
def test_the_nodes_of_guides_for_one_machine_get_ports_of_their_own(
    load_text: Load, ports: list[tuple[int, int]], grpc_ports: list[int]
) -> None:
    voters = ",".join(f"{node_id}@localhost:{port}" for node_id, (_, port) in enumerate(ports, 1))
    found = []
    for node_id, (kafka_port, port) in enumerate(ports, 1):
        copied = SERVER_2_8.replace("node.id=1", f"node.id={node_id}").replace("1@localhost:9093", voters)
        config = load_text(copied.replace("//:9093", f"//:{port}").replace(":9092", f":{kafka_port}"))
        found += [each.port for each in config.listeners if each.name == "GRPC"]
    assert found == grpc_ports


def test_kafkas_sample_of_a_controller_starts_as_it_is(load_text: Load) -> None:
    config = load_text(CONTROLLER)
    assert [str(each) for each in config.listeners] == ["CONTROLLER://localhost:9093"]


def test_kafkas_sample_of_a_broker_needs_one_edit_which_its_error_names(load_text: Load) -> None:
    with pytest.raises(ConfigError) as raised:
        load_text(BROKER)
    edit = str(raised.value).rpartition(" ")[2]
    assert edit == "controller.quorum.voters=1@localhost:9093"
    config = load_text(f"{BROKER}{edit}\n")
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://localhost:9092", "GRPC://localhost:9094"]
    with pytest.raises(ConfigError, match=r"for example controller\.quorum\.voters=2@localhost:9093$"):
        load_text(BROKER.replace("node.id=2", "node.id=1"))


def test_several_controllers_without_ids_are_named_in_the_example(load_text: Load) -> None:
    three = SERVER.replace("servers=localhost:9093", "servers=a:9093,b:9093,c:9093")
    with pytest.raises(ConfigError, match=r"for example controller\.quorum\.voters=1@a:9093,2@b:9093,3@c:9093\n"):
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
    tls = f"{CONTROLLER}listener.security.protocol.map=CONTROLLER:SSL\n"
    files = "ssl.keystore.location=node.pem\nssl.truststore.location=ca.pem\n"
    config = load_text(tls + files + "ssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.client.auth=required\n")
    assert [str(each) for each in config.listeners] == ["CONTROLLER://:9093"]
    assert not [each.message for each in config.warnings if "is opened as" in each.message]
