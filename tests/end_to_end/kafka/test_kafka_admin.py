"""Administration by clients of Kafka, unmodified: confluent-kafka, kafka-python and Kafka's own command line tools."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PlainNewTopic

from kraft.testing import Cluster
from tests.support.command_line import kraft
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

DEADLINE_S = 30

admin_values: Any = confluent_kafka.admin
"""The package does not declare which names it exports."""

SET, DELETE, APPEND = (
    admin_values.AlterConfigOpType.SET,
    admin_values.AlterConfigOpType.DELETE,
    admin_values.AlterConfigOpType.APPEND,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


class ToolFailed(Exception):
    """One of Kafka's tools ended with an error."""


def eventually(ask: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """Wait for an answer: a client asks any broker, and brokers get a change at different times."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            answer = ask()
        except (confluent_kafka.KafkaException, kafka.errors.KafkaError, ToolFailed) as error:
            answer = error
        else:
            if is_so(answer):
                return answer
        assert time.monotonic() < deadline, f"at last it was: {answer!r}"
        # Polled: nobody tells a client that all brokers know.
        time.sleep(0.05)


# --- confluent-kafka -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confluent(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap_servers})


def done(futures: dict[Any, Future[Any]]) -> Any:
    """The one result of a call about one thing."""
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def refused(futures: dict[Any, Future[Any]]) -> tuple[str, str]:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        done(futures)
    error = caught.value.args[0]
    return error.name(), error.str()


def described(admin: AdminClient, topic: str, partitions: int) -> Any:
    """The topic as soon as it has so many partitions."""

    def ask() -> Any:
        return done(admin.describe_topics(TopicCollection([topic])))

    return eventually(ask, lambda answer: len(answer.partitions) == partitions)


def replicas(admin: AdminClient, topic: str, partitions: int) -> list[list[int]]:
    return [[node.id for node in each.replicas] for each in described(admin, topic, partitions).partitions]


def check_configs(admin: AdminClient, topic: str, expected: dict[str, str]) -> None:
    """They are all that is set on the topic itself."""

    def ask() -> dict[str, str]:
        entries = done(admin.describe_configs([admin_values.ConfigResource("topic", topic)]))
        return {key: entry.value for key, entry in entries.items() if entry.source == 1}

    eventually(ask, lambda answer: answer == expected)


def check_is_gone(admin: AdminClient, topic: str) -> None:
    eventually(lambda: admin.list_topics(timeout=DEADLINE_S).topics, lambda answer: topic not in answer)


def altering(topic: str, *operations: tuple[str, Any, str | None]) -> list[Any]:
    entries = [
        admin_values.ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in operations
    ]
    return [admin_values.ConfigResource("topic", topic, incremental_configs=entries)]


def test_confluent_creates_grows_and_deletes_topics(confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("orders", 2, 3, config={"retention.ms": "5000"})]))
    check_configs(confluent, "orders", {"retention.ms": "5000"})
    assert refused(confluent.create_topics([admin_values.NewTopic("orders", 1, 1)]))[0] == "TOPIC_ALREADY_EXISTS"
    done(
        confluent.create_partitions(
            [admin_values.NewPartitions("orders", 4, replica_assignment=[[1, 2, 3], [3, 2, 1]])]
        )
    )
    assert replicas(confluent, "orders", 4)[2:] == [[1, 2, 3], [3, 2, 1]]
    assert refused(confluent.create_partitions([admin_values.NewPartitions("orders", 3)]))[0] == "INVALID_PARTITIONS"
    first_id = described(confluent, "orders", 4).topic_id
    done(confluent.delete_topics(["orders"]))
    assert refused(confluent.delete_topics(["orders"]))[0] == "UNKNOWN_TOPIC_OR_PART"
    done(confluent.create_topics([admin_values.NewTopic("orders", 1, 3)]))
    assert str(described(confluent, "orders", 1).topic_id) != str(first_id)


def test_confluent_places_a_topic_by_hand(confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("placed", 2, replica_assignment=[[3, 1], [2, 3]])]))
    assert replicas(confluent, "placed", 2) == [[3, 1], [2, 3]]
    name, reason = refused(confluent.create_topics([admin_values.NewTopic("nowhere", 1, replica_assignment=[[7]])]))
    assert (name, reason) == (
        "INVALID_REPLICA_ASSIGNMENT",
        "partition 0 on [7]: brokers [7] are not registered: name registered brokers",
    )


def test_confluent_only_asks_whether_a_topic_could_be(confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("imagined", 3, 3)], validate_only=True))
    name, reason = refused(confluent.create_topics([admin_values.NewTopic("imagined", 3, 9)], validate_only=True))
    assert (name, "3 brokers are in service" in reason) == ("INVALID_REPLICATION_FACTOR", True)
    assert "imagined" not in confluent.list_topics(timeout=DEADLINE_S).topics


def test_confluent_alters_configs_one_by_one_and_all_at_once(confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("tuned", 1, 3, config={"segment.ms": "60000"})]))
    one_by_one = altering("tuned", ("retention.ms", SET, "7000"), ("cleanup.policy", APPEND, "compact"))
    done(confluent.incremental_alter_configs(one_by_one))
    expected = {"segment.ms": "60000", "retention.ms": "7000", "cleanup.policy": "delete,compact"}
    check_configs(confluent, "tuned", expected)
    done(confluent.incremental_alter_configs(altering("tuned", ("cleanup.policy", DELETE, None))))
    name, reason = refused(confluent.incremental_alter_configs(altering("tuned", ("retention.ms", SET, "soon"))))
    assert (name, "a whole number from -1" in reason) == ("INVALID_CONFIG", True)
    with warnings.catch_warnings():
        # That the call is deprecated is no reason for it not to work.
        warnings.simplefilter("ignore", DeprecationWarning)
        done(
            confluent.alter_configs(
                [admin_values.ConfigResource("topic", "tuned", set_config={"max.message.bytes": "2000"})]
            )
        )
    check_configs(confluent, "tuned", {"max.message.bytes": "2000"})


def test_confluent_deletes_records(cluster: Cluster, confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("emptied", 1, 3)]))
    described(confluent, "emptied", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers})
    for number in range(10):
        producer.produce("emptied", b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    assert done(confluent.delete_records([TopicPartition("emptied", 0, 4)])).low_watermark == 4
    earliest = done(confluent.list_offsets({TopicPartition("emptied", 0): admin_values.OffsetSpec.earliest()}))
    assert earliest.offset == 4
    assert refused(confluent.delete_records([TopicPartition("emptied", 0, 99)]))[0] == "OFFSET_OUT_OF_RANGE"


def test_confluent_describes_the_cluster(cluster: Cluster, confluent: AdminClient) -> None:
    described = confluent.describe_cluster(include_authorized_operations=True).result(DEADLINE_S)
    assert described.cluster_id == cluster.cluster_id
    addresses = {f"{node.host}:{node.port}" for node in described.nodes}
    assert addresses == set(cluster.kafka_bootstrap_servers.split(","))
    assert described.controller.id in {1, 2, 3}
    assert admin_values.AclOperation.CREATE in described.authorized_operations
    assert confluent.elect_leaders(confluent_kafka.ElectionType.PREFERRED, None).result(DEADLINE_S) == {}


# --- kafka-python ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap_servers.split(","))
    yield admin
    admin.close()


def test_kafka_python_creates_and_deletes_topics_by_name_and_id(python: KafkaAdminClient) -> None:
    python.create_topics([PlainNewTopic("python", num_partitions=2, replication_factor=3)])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError, match="already exists"):
        python.create_topics([PlainNewTopic("python", num_partitions=2, replication_factor=3)])
    (topic,) = eventually(lambda: python.describe_topics(["python"]), lambda answer: len(answer[0]["partitions"]) == 2)
    assert all(sorted(each["replica_nodes"]) == [1, 2, 3] for each in topic["partitions"])
    python.delete_topics([UUID(str(topic["topic_id"]))])
    eventually(python.list_topics, lambda answer: "python" not in answer)


def test_kafka_python_tells_what_brokers_hold_and_how_the_quorum_is(cluster: Cluster, python: KafkaAdminClient) -> None:
    python.create_topics([PlainNewTopic("held", num_partitions=1, replication_factor=3)])
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap_servers.split(","), enable_idempotence=True
    )
    producer.send("held", b"a value", partition=0).get(DEADLINE_S)
    producer.close()
    for broker in python.describe_log_dirs():
        (directory,) = broker["log_dirs"]
        held = {topic["name"]: topic["partitions"] for topic in directory["topics"]}["held"]
        assert (directory["error_code"], held[0]["offset_lag"]) == (0, 0)
        assert held[0]["partition_size"] > 0
        assert directory["total_bytes"] >= directory["usable_bytes"] > 0
    quorum = python.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    assert {each["replica_id"] for each in partition["current_voters"]} == {1, 2, 3}
    assert {each["node_id"] for each in quorum["nodes"]} == {1, 2, 3}
    (state,) = python.describe_producers([kafka.TopicPartition("held", 0)]).values()
    assert [each.last_sequence for each in state.active_producers] == [0]
    listed = eventually(python.list_config_resources, lambda answer: "held" in answer["topic"])
    assert listed["broker"] == ["1", "2", "3"]


def test_kafka_python_pages_through_topics(python: KafkaAdminClient) -> None:
    python.create_topics([PlainNewTopic("paged", num_partitions=3, replication_factor=1)])
    first, cursor = page(python, None, [0, 1])
    assert first["topics"][0]["name"] == "paged"
    assert page(python, cursor, [2])[1] is None


def page(admin: KafkaAdminClient, cursor: Any, partitions: list[int]) -> tuple[Any, Any]:
    """The page that holds these partitions, and where the next one begins."""

    def ask() -> Any:
        return admin.describe_topic_partitions(["paged"], response_partition_limit=2, cursor=cursor)

    answer = eventually(
        ask, lambda answer: [each["partition_index"] for each in answer["topics"][0]["partitions"]] == partitions
    )
    return answer, answer["next_cursor"]


def test_kafka_python_moves_a_partition(python: KafkaAdminClient) -> None:
    python.create_topics([PlainNewTopic("moved", replica_assignments={0: [1, 2]})])
    partition = kafka.TopicPartition("moved", 0)
    assert python.alter_partition_reassignments({partition: [3, 1]}) == {partition: None}

    def place() -> Any:
        return python.describe_topics(["moved"])[0]["partitions"][0]["replica_nodes"]

    eventually(place, lambda answer: answer == [3, 1])
    # What is over for the broker that was asked may not be for the one that is asked now.
    eventually(lambda: python.list_partition_reassignments([partition]), lambda answer: not answer)
    (error,) = python.alter_partition_reassignments({partition: None}).values()
    assert error is kafka.errors.NoReassignmentInProgressError


# --- Kafka's own tools -----------------------------------------------------------------------------------------------


class KafkaTools:
    def __init__(self, jars: Path, bootstrap_servers: str) -> None:
        self._jars = jars
        self._bootstrap_servers = bootstrap_servers

    def run(self, tool: str, *arguments: str) -> str:
        """Run a tool; return its output. It may ask any broker: wait for a change by `eventually`."""
        finished = run_kafka_tool(self._jars, tool, "--bootstrap-server", self._bootstrap_servers, *arguments)
        if finished.code:
            raise ToolFailed(finished.output + finished.errors)
        return finished.output

    def topics(self, *arguments: str) -> str:
        return self.run("org.apache.kafka.tools.TopicCommand", *arguments)

    def configs(self, *arguments: str) -> str:
        return self.run("kafka.admin.ConfigCommand", *arguments)


@pytest.fixture(scope="module")
def java(cluster: Cluster) -> KafkaTools:
    return KafkaTools(kafka_jars(), cluster.kafka_bootstrap_servers)


def test_kafka_topics_creates_describes_grows_and_deletes(
    java: KafkaTools, confluent: AdminClient, cluster: Cluster
) -> None:
    sizes = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=9000")
    assert "Created topic java." in java.topics("--create", "--topic", "java", *sizes)
    eventually(lambda: java.topics("--alter", "--topic", "java", "--partitions", "3"), lambda output: output == "")
    first, *partitions = eventually(
        lambda: java.topics("--describe", "--topic", "java").splitlines(), lambda lines: len(lines) == 4
    )
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: retention.ms=9000" in first
    assert all("Elr: " in line and "Leader: none" not in line for line in partitions)
    own = kraft(cluster, "topics", "describe", "java").splitlines()[0]
    assert own.partition("\tConfigs: ")[2] == first.partition("\tConfigs: ")[2]
    eventually(lambda: java.topics("--delete", "--topic", "java"), lambda output: output == "")
    check_is_gone(confluent, "java")


def test_kafka_configs_alters_and_describes(java: KafkaTools, confluent: AdminClient) -> None:
    done(confluent.create_topics([admin_values.NewTopic("configured", 1, 3)]))
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    eventually(
        lambda: java.configs("--alter", *topic, "--add-config", "retention.ms=8000"),
        lambda output: "Completed updating config" in output,
    )
    eventually(
        lambda: java.configs("--describe", *topic),
        lambda output: "retention.ms=8000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=8000" in output,
    )
    java.configs(
        "--alter", "--entity-type", "clients", "--entity-name", "loud", "--add-config", "producer_byte_rate=99"
    )


def test_kafka_configs_alters_the_levels_of_a_brokers_loggers(java: KafkaTools, cluster: Cluster) -> None:
    lifecycle, loggers = "kraft.server.broker.lifecycle", ("--entity-type", "broker-loggers", "--entity-name", "2")
    changed = java.configs(*loggers, "--alter", "--add-config", f"{lifecycle}=DEBUG,kraft.server.coordinator=WARN")
    assert changed == "Completed updating config for broker-logger 2.\n"
    shown = java.configs(*loggers, "--describe")
    for line in (f"{lifecycle}=DEBUG", "kraft.server.coordinator.group_log=WARN", "root=INFO"):
        assert f"  {line} sensitive=false synonyms={{}}" in shown.splitlines()

    listed = json.loads(kraft(cluster, "brokers", "loggers", "2", "--set", "root=error", "--output", "json"))["loggers"]
    assert (listed[lifecycle], listed["root"], listed["kraft.server.replica"]) == ("DEBUG", "ERROR", "ERROR")
    assert f"{lifecycle}=INFO" in java.configs("--entity-type", "broker-loggers", "--entity-name", "1", "--describe")
    java.configs(*loggers, "--alter", "--delete-config", lifecycle)
    kraft(cluster, "brokers", "loggers", "2", "--set", "root=INFO", "--delete", "kraft.server.coordinator")
    assert set(re.findall(r"=(\S+) sensitive", java.configs(*loggers, "--describe"))) == {"INFO"}
    with pytest.raises(ToolFailed, match=r"Invalid broker logger\(s\): kafka\.server"):
        java.configs(*loggers, "--alter", "--add-config", "kafka.server=DEBUG")


def test_kafka_metadata_quorum_and_features_describe(java: KafkaTools, cluster: Cluster) -> None:
    status = java.run("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    assert cluster.cluster_id in status
    assert "HighWatermark:" in status
    assert "Feature: metadata.version" in java.run("org.apache.kafka.tools.FeatureCommand", "describe")
