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
from tests.support.command_line import run
from tests.support.error_lines import the_one_line
from tests.support.waiting import until

RECORDS: Final = 100
TOPIC: Final = "orders"
GROUP: Final = "readers"

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
    }
    began_s = time.time()
    with Cluster(1, overrides=overrides) as cluster:
        # Nodes are forked from a process that has imported everything before, and it is not that process.
        assert (_value(_scraped(port), "process_start_time_seconds") or 0) > began_s - 1
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic=TOPIC, partitions=2)])
        # Before, a produce is refused, tried again, and counted as failed.
        until(lambda: _leads(port, "0"), f"nobody leads {TOPIC}-0")
        _produce_and_consume(cluster.kafka_bootstrap_servers)
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
    for request in ("Produce", "Fetch", "JoinGroup"):
        assert (_value(found, "kafka_network_requestmetrics_requests_total", request=request) or 0) > 0, request
    # Each waits for a sync.
    waited_ms = _value(found, "kafka_network_requestmetrics_remotetimems_sum", request="Produce")
    assert (waited_ms or 0) > 0
    assert _value(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert _value(found, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert _value(found, "kafka_brokers") == 1
    (directory,) = {dict(labels)["directory"] for name, labels in found if name == "kraft_log_syncs_total"}
    assert (_value(found, "kraft_log_syncs_total", directory=directory) or 0) > 0


def test_every_metric_of_the_table_is_served_by_a_node_that_is_used(cluster: Cluster, port: int) -> None:
    served = {name for name, _ in _scraped(port)}
    metrics = [metric for section in SECTIONS for metric in section.metrics]
    # One node alone has no other voters; nobody logs in here, nothing is transactional, and there is no audit.
    elsewhere = (
        "kraft_quorum_voter_",
        "kraft_leader_",
        "successful_authentication",
        "failed_authentication",
        "kraft_transactional_ids",
    )
    without = [metric.name for metric in metrics if not served.issuperset(metric.series)]
    # Nor is anything asked of clients.
    elsewhere_too = ("kraft_audit_", "kraft_client_info")
    assert [name for name in without if not any(part in name for part in (*elsewhere, *elsewhere_too))] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_prometheus_own_tool_reads_the_text(cluster: Cluster, port: int) -> None:
    _, text = _get(port)
    command = ["promtool", "check", "metrics"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    # Names are those that dashboards ask for: these lines are about their style.
    styles = ("metrics should not", "written in 'snake_case'")
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
