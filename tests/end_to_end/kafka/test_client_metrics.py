"""Clients of Kafka push their metrics, and a scrape of the broker has them: librdkafka and Java, unmodified."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any, Final
from uuid import UUID, uuid4

import confluent_kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.client import Admin, NewTopic, OffsetAndTimestamp, TopicPartition
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.log.format.compression import Codec, compress
from kraft.model.errors import ErrorCode
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tests.support.client_pushes import gauge, pushed
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.kafka_jars import java_command, kafka_jars, run_kafka_tool
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

INTERVAL_MS: Final = 300
TOPIC: Final = "orders"

Sample = tuple[str, dict[str, str], float]


@pytest.fixture(scope="module")
def cluster_and_port() -> Iterator[tuple[Cluster, int]]:
    with ReservedPorts(1) as (port,), Cluster(1, overrides={"metrics.address": f"{HOST}:{port}"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic=TOPIC, partitions=1)])
        yield cluster, port


@pytest.fixture(scope="module")
def cluster(cluster_and_port: tuple[Cluster, int]) -> Cluster:
    return cluster_and_port[0]


@pytest.fixture(scope="module")
def port(cluster_and_port: tuple[Cluster, int]) -> int:
    return cluster_and_port[1]


def scraped(port: int) -> list[Sample]:
    connection = HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    families = text_string_to_metric_families(text)
    return [(each.name, each.labels, each.value) for family in families for each in family.samples]


def of_client(port: int, client_id: str) -> dict[str, float]:
    """The series of a client, by their names: of several with one name, the largest value."""
    found: dict[str, float] = {}
    for name, labels, value in scraped(port):
        if labels.get("client_id") == client_id:
            found[name] = max(value, found.get(name, value))
    return found


def client_metrics(cluster: Cluster, *arguments: str) -> str:
    """Run kafka-client-metrics.sh."""
    command = "org.apache.kafka.tools.ClientMetricsCommand"
    done = run_kafka_tool(kafka_jars(), command, "--bootstrap-server", cluster.kafka_bootstrap_servers, *arguments)
    assert done.code == 0, done.errors or done.output
    return done.output


def test_kafkas_tools_say_what_is_wanted(cluster: Cluster) -> None:
    java = ("--name", "javas", "--match", "client_software_name=apache-kafka-java")
    client_metrics(cluster, "--alter", *java, "--metrics", "org.apache.kafka.producer.", "--interval", "60000")
    until(lambda: client_metrics(cluster, "--list").split() == ["javas"], "the broker does not know it")
    described = client_metrics(cluster, "--describe", "--name", "javas")
    for line in ("interval.ms=60000", "match=client_software_name=apache-kafka-java", "metrics=org.apache.kafka.produ"):
        assert line in described
    configs = ("--entity-type", "client-metrics", "--entity-name", "javas")
    servers = ("--bootstrap-server", cluster.kafka_bootstrap_servers)
    done = run_kafka_tool(kafka_jars(), "kafka.admin.ConfigCommand", *servers, *configs, "--describe")
    assert "interval.ms=60000" in done.output, done.errors
    client_metrics(cluster, "--delete", "--name", "javas")
    until(lambda: not client_metrics(cluster, "--list").split(), "the broker still knows it")


@pytest.fixture
def everything_wanted(cluster: Cluster) -> Iterator[None]:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter_client_metrics("all", {"metrics": "*", "interval.ms": str(INTERVAL_MS)})
        yield
        admin.alter_client_metrics("all", delete=["metrics", "interval.ms"])


@pytest.mark.usefixtures("everything_wanted")
def test_librdkafka_pushes_and_its_last_values_stay_after_its_end(cluster: Cluster, port: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers, "client.id": "shop"})
    latency = "kafka_client_producer_request_latency_avg"

    def is_seen() -> bool:
        producer.produce(TOPIC, b"value")
        producer.poll(0)
        return of_client(port, "shop").get(latency, 0.0) > 0

    until(is_seen, lambda: f"no latency among {of_client(port, 'shop')}")
    assert not producer.flush(30)
    producer.close()
    assert latency in of_client(port, "shop")
    (info,) = [labels for name, labels, _ in scraped(port) if name == "kraft_client_info"]
    assert (info["client_software_name"], info["principal"]) == ("confluent-kafka-python", "User:ANONYMOUS")
    assert info["client_address"] == "127.0.0.1"


@pytest.mark.usefixtures("everything_wanted")
def test_what_java_pushes_is_added_up(cluster: Cluster, port: int) -> None:
    size = ("--num-records", "100000", "--record-size", "10", "--throughput", "200")
    settings = (f"bootstrap.servers={cluster.kafka_bootstrap_servers}", "client.id=java")
    arguments = ("--topic", TOPIC, *size, "--producer-props", *settings)
    command = java_command(kafka_jars(), "org.apache.kafka.tools.ProducerPerformance", *arguments)
    sent = "kafka_client_producer_record_send_total"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as producer:
        try:
            # More than it sends between two pushes.
            until(lambda: of_client(port, "java").get(sent, 0) > 300, lambda: f"at last: {of_client(port, 'java')}")
        finally:
            producer.kill()
    assert of_client(port, "java")[sent] <= end_offset(cluster)
    assert "kafka_client_producer_record_send_rate" in of_client(port, "java")
    nodes = {labels["node_id"] for name, labels, _ in scraped(port) if name.endswith("node_request_latency_max")}
    assert "node-1" in nodes


def end_offset(cluster: Cluster) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        (found,) = admin.list_offsets({TopicPartition(TOPIC, 0): LATEST_TIMESTAMP}).values()
    assert isinstance(found, OffsetAndTimestamp), found
    return found.offset


# --- bad input ----------------------------------------------------------------------------------------------------


class Pusher:
    """A client of our own, over a connection of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.connection = Connection(cluster.kafka_bootstrap_servers)
        self.instance_id = uuid4()

    def ask(self, instance_id: UUID | None = None) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id or self.instance_id)
        self.connection.send(request, 0)
        answer: GetTelemetrySubscriptionsResponse = self._answer(GetTelemetrySubscriptionsResponse)
        return answer

    def push(self, subscription_id: int, data: bytes, codec: int = 0) -> int:
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=data,
        )
        self.connection.send(request, 0)
        error_code: int = self._answer(PushTelemetryResponse).error_code
        return error_code

    def push_in_time(self, subscription_id: int, data: bytes, codec: int = 0) -> int:
        """Push until it is not too early."""
        codes: list[int] = []

        def is_time() -> bool:
            codes.append(self.push(subscription_id, data, codec))
            return codes[-1] != ErrorCode.THROTTLING_QUOTA_EXCEEDED

        until(is_time, "it is too early for ever")
        return codes[-1]

    def _answer(self, kind: Any) -> Any:
        frame = self.connection.frame()
        assert frame is not None, "the connection was closed"
        return decode_response(kind, 0, memoryview(frame))[1]


BOMB = compress(Codec.ZSTD, bytes(64 << 20))
RESOURCES = b"\n\x00" * 500_000
"""As many empty parts as a push has room for."""


@pytest.mark.usefixtures("everything_wanted")
@pytest.mark.parametrize(
    ("data", "codec", "code"),
    [
        (bytes(range(256)) * 8, 0, ErrorCode.INVALID_RECORD),
        (pushed(gauge("cut", 1.0))[:-1], 0, ErrorCode.INVALID_RECORD),
        (BOMB, int(Codec.ZSTD), ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes((1 << 20) + 1), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (RESOURCES, 0, ErrorCode.NONE),
    ],
    ids=["random", "truncated", "bomb", "large", "codec", "empty-resources"],
)
def test_a_push_that_is_none_is_refused_and_the_next_one_is_taken(
    cluster: Cluster, data: bytes, codec: int, code: int
) -> None:
    pusher = Pusher(cluster)
    subscription = until_wanted(pusher)
    assert pusher.push(subscription + 1, data) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert pusher.ask().error_code == ErrorCode.NONE
    assert pusher.push_in_time(subscription, data, codec) == code
    assert pusher.push_in_time(subscription, pushed(gauge("ok", 1.0))) == ErrorCode.NONE


def until_wanted(pusher: Pusher) -> int:
    """Return the id of the subscription, once the broker knows it."""
    found: list[GetTelemetrySubscriptionsResponse] = []

    def is_wanted() -> bool:
        found.append(pusher.ask())
        return bool(found[-1].requested_metrics)

    until(is_wanted, "nothing is wanted")
    return found[-1].subscription_id


@pytest.mark.usefixtures("everything_wanted")
def test_a_push_without_asking_is_not_taken_and_each_client_that_asks_is_known(cluster: Cluster, port: int) -> None:
    pusher = Pusher(cluster)
    assert pusher.push(1, pushed(gauge("a", 1.0))) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    for number in range(500):
        assert pusher.ask(UUID(int=number + 2)).error_code == ErrorCode.NONE
    (count,) = [value for name, _, value in scraped(port) if name == "kafka_server_client_metrics_instance_count"]
    assert count >= 500
