"""A real node's /metrics while clients use it, read by Prometheus' own parsers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from kraft.client import Admin, NewTopic
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.server.metrics.table import SECTIONS
from kraft.testing import Cluster
from tests.support.command_line import kraft, run
from tests.support.error_lines import the_one_line
from tests.support.waiting import until

RECORDS: Final = 100
TOPIC: Final = "orders"
GROUP: Final = "readers"
HELD_TOPIC: Final = "held"
HELD_BACK: Final = "impatient"
"""A client with a quota that is soon used up."""

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with ReservedPorts(1) as (port,):
        yield port


@pytest.fixture(scope="module")
def cluster(port: int) -> Iterator[Cluster]:
    overrides = {
        "metrics.address": f"{HOST}:{port}",
        "metrics.per.partition": "true",
        "group.lag.look.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "log.scrub.interval.ms": "1000",
    }
    began_s = time.time()
    with Cluster(1, overrides=overrides) as cluster:
        # Nodes are forked from a process that has imported everything before, and it is not that process.
        assert (_value(_scraped(port), "process_start_time_seconds") or 0) > began_s - 1
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic=TOPIC, partitions=2), NewTopic(topic=HELD_TOPIC, partitions=1)])
        # Before, a produce is refused, tried again, and counted as failed.
        until(lambda: _leads(port, "0"), f"nobody leads {TOPIC}-0")
        kraft(cluster, "configs", "alter", "--client", HELD_BACK, "--add-config", "producer_byte_rate=10")
        _produce_and_consume(cluster.kafka_bootstrap_servers)
        _exceed_quota(cluster.kafka_bootstrap_servers)
        _speak_no_kafka(cluster.kafka_bootstrap_servers)
        yield cluster


def _leads(port: int, partition: str) -> bool:
    return _value(_scraped(port), "kafka_topic_partition_leader", topic=TOPIC, partition=partition) is not None


def _produce_and_consume(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode(), partition=0)
    assert not producer.flush(60)
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    left = RECORDS
    while left:
        left -= len(consumer.consume(left, timeout=60))
    consumer.commit(asynchronous=False)
    # A group of which 7 records are not read.
    consumer.close()
    for number in range(7):
        producer.produce(TOPIC, str(number).encode(), partition=0)
    assert not producer.flush(60)


def _exceed_quota(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "client.id": HELD_BACK})
    # The quota of ten seconds may be used at once.
    producer.produce(HELD_TOPIC, bytes(1_000), partition=0)
    assert not producer.flush(60)


def _speak_no_kafka(address: str) -> None:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(1) == b""


def _get(port: int, path: str = "/metrics", accept: str = "") -> tuple[int, str]:
    connection = HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def _scraped(port: int) -> Series:
    status, text = _get(port)
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((name, tuple(sorted(labels.items()))))


def test_what_clients_did_is_counted(cluster: Cluster, port: int) -> None:
    found: Series = {}

    def lag_is_known() -> bool:
        found.update(_scraped(port))
        return _value(found, "kafka_consumergroup_lag_sum", consumergroup=GROUP, topic=TOPIC) == 7

    until(lag_is_known, lambda: f"no lag of 7 in {[each for each in found.items() if 'lag' in each[0][0]]}")
    traffic = "kafka_server_brokertopicmetrics"
    assert _value(found, f"{traffic}_messagesin_total", topic=TOPIC) == RECORDS + 7
    size = _value(found, "kafka_log_log_size", topic=TOPIC, partition="0")
    assert _value(found, f"{traffic}_bytesin_total", topic=TOPIC) == size
    assert size is not None
    assert 0 < (_value(found, f"{traffic}_bytesout_total", topic=TOPIC) or 0) <= size
    assert _value(found, f"{traffic}_failedproducerequests_total", topic=TOPIC) == 0
    assert _value(found, "kafka_topic_partition_current_offset", topic=TOPIC, partition="0") == RECORDS + 7
    assert _value(found, "kafka_topic_partition_current_offset", topic=TOPIC, partition="1") == 0
    assert _value(found, "kafka_topic_partitions", topic=TOPIC) == 2
    assert _value(found, "kafka_consumergroup_current_offset", consumergroup=GROUP, topic=TOPIC, partition="0") == 100
    requests = "kafka_network_requestmetrics"
    for protocol, request in (("kafka", "Produce"), ("kafka", "JoinGroup"), ("grpc", "CreateTopics")):
        labels = {"protocol": protocol, "request": request}
        count = _value(found, f"{requests}_requests_total", **labels) or 0
        assert count > 0, request
        # Each Produce waits for a sync, and the others for records.
        for stage in ("local", "remote", "total", *(("requestqueue", "responsesend") if protocol == "kafka" else ())):
            assert (_value(found, f"{requests}_{stage}timems_sum", **labels) or 0) > 0, (request, stage)
        assert _value(found, "kraft_request_duration_seconds_bucket", **labels, le="+Inf") == count
    assert _value(found, f"{requests}_requestqueuetimems_sum", protocol="grpc", request="CreateTopics") is None
    assert _value(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert _value(found, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert _value(found, "kafka_brokers") == 1
    (directory,) = {dict(labels)["directory"] for name, labels in found if name == "kraft_log_syncs_total"}
    assert (_value(found, "kraft_log_syncs_total", directory=directory) or 0) > 0


def test_what_the_node_did_by_itself_is_counted(cluster: Cluster, port: int) -> None:
    found: Series = {}

    def is_scrubbed() -> bool:
        found.update(_scraped(port))
        return (_value(found, "kraft_upkeep_rounds_total", task="scrub") or 0) > 0

    until(is_scrubbed, lambda: f"no scrub in {[each for each in found.items() if 'upkeep' in each[0][0]]}")
    assert _value(found, "kraft_log_scrub_corrupt_logs_total") == 0
    moved = (
        "kraft_log_scrub_segments_total",
        "kraft_log_scrub_read_bytes_total",
        "kraft_quorum_commit_seconds_count",
        "kraft_quorum_commit_seconds_sum",
        "kafka_server_raftmetrics_commit_latency_avg",
        "kraft_metadata_apply_seconds_count",
        "kraft_metadata_apply_seconds_sum",
    )
    assert [name for name in moved if not _value(found, name)] == []
    assert _value(found, "kafka_server_raftmetrics_current_vote") == 1
    assert _value(found, "kraft_metadata_lag") == 0
    assert (_value(found, "kraft_upkeep_rounds_total", task="disk_space") or 0) > 0
    (directory,) = {dict(labels)["directory"] for name, labels in found if name == "kraft_log_directory_free_bytes"}
    assert (_value(found, "kraft_log_directory_free_bytes", directory=directory) or 0) > 0
    assert (_value(found, "kraft_memory_budget_max_bytes", budget="unread_responses") or 0) > 0


def test_what_was_refused_and_held_back_is_counted_by_its_reason(cluster: Cluster, port: int) -> None:
    found = _scraped(port)
    assert _value(found, "kraft_refused_connections_total", reason="request") == 1
    assert _value(found, "kraft_refused_connections_total", reason="limit") == 0
    assert _value(found, "kraft_quota_wait_seconds_count", quota="producer_byte_rate") == 1
    held_ms = _value(found, "kafka_network_requestmetrics_throttletimems_sum", protocol="kafka", request="Produce")
    assert held_ms == 1_000 * (_value(found, "kraft_quota_wait_seconds_sum", quota="producer_byte_rate") or 0) > 0
    assert held_ms == 1_000 * (_value(found, "kraft_throttle_seconds_sum") or 0)


def test_every_metric_of_the_table_is_served_by_a_node_that_is_used(cluster: Cluster, port: int) -> None:
    served = {name for name, _ in _scraped(port)}
    metrics = [metric for section in SECTIONS for metric in section.metrics]
    # One node alone has no other voters; nobody logs in here, nothing is transactional, no move is throttled,
    # there is no audit, and nothing is asked of clients.
    elsewhere = (
        "kraft_quorum_voter_",
        "kraft_leader_",
        "successful_authentication",
        "failed_authentication",
        "kraft_transactional_ids",
        "kraft_replication_throttle_",
        "kraft_audit_",
        "kraft_client_info",
    )
    without = [metric.name for metric in metrics if not served.issuperset(metric.series)]
    assert [name for name in without if not any(part in name for part in elsewhere)] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_prometheus_own_tool_reads_the_text(cluster: Cluster, port: int) -> None:
    _, text = _get(port)
    command = ["promtool", "check", "metrics"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    # Names are those that dashboards ask for: these lines are about their style.
    styles = ("metrics should not", "metric names should not", "written in 'snake_case'")
    assert [line for line in ran.stderr.splitlines() if not any(style in line for style in styles)] == []


def test_a_hundred_scrapers_at_once_cost_nothing_else(cluster: Cluster, port: int) -> None:
    def scrape(_: int) -> int:
        try:
            return _get(port)[0]
        except (OSError, HTTPException):
            # Beyond 32 connections one that waits is closed, and its scraper tries again.
            return 0

    with ThreadPoolExecutor(100) as scrapers:
        statuses = list(scrapers.map(scrape, range(100)))
    assert set(statuses) <= {0, 200}
    assert statuses.count(200) >= 32
    assert _get(port)[0] == 200


def test_open_metrics_ends_as_it_should(cluster: Cluster, port: int) -> None:
    _, text = _get(port, accept="application/openmetrics-text;version=1.0.0")
    assert text.endswith("# EOF\n")


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with ReservedPorts(3) as (grpc, controller, taken), socket.create_server((HOST, taken)):
        plan = NodePlan(node_id=1, grpc_port=grpc, controller_port=controller)
        cluster_files.write(tmp_path, [plan], "kJ2Yk0mVT0ma0wV2Yk0mVQ")
        config = cluster_files.config_file(tmp_path, 1)
        config.write_text(f"{config.read_text()}metrics.address={HOST}:{taken}\n")
        said = the_one_line(run("server", "start", "-c", config))
    assert f"cannot listen on {HOST}:{taken} for METRICS: the port is in use: stop the process that uses it, or" in said
    assert "change metrics.address in" in said
