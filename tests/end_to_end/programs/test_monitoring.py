"""Three nodes as Debian's Prometheus and Alertmanager see them, with the samples of docs/monitoring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isnan
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer

from kraft.client import Admin, NewTopic
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.server.metrics.exceptions import NOT_SERVED
from kraft.testing import Cluster
from tests.end_to_end.programs.dashboard_variables import NoChoice, chosen, filled
from tests.end_to_end.programs.kafka_exporter_series import Series, kafka_exporter_series, series
from tests.end_to_end.programs.monitoring_programs import SAMPLES, Mails, Prometheus, are_missing, monitoring
from tests.support.command_line import run
from tests.support.dashboards import Dashboard, dashboards, series_in
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(are_missing(), reason="needs Debian's packages prometheus and prometheus-alertmanager")

TOPIC: Final = "orders"
READERS: Final = "readers"
GONE: Final = "gone"
NODES: Final = 3
RECORDS: Final = 30
LEFT: Final = 12
"""Records that the group of readers has not read."""


@pytest.fixture(scope="module")
def ports() -> Iterator[list[int]]:
    with ReservedPorts(NODES + 3) as ports:
        yield ports


@pytest.fixture(scope="module")
def cluster(ports: list[int]) -> Iterator[Cluster]:
    overrides = {
        "metrics.per.partition": "true",
        "group.lag.look.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "broker.session.timeout.ms": "3000",
        "offsets.topic.num.partitions": "3",
    }
    addresses = {number: {"metrics.address": f"{HOST}:{ports[number - 1]}"} for number in range(1, NODES + 1)}
    with Cluster(NODES, overrides=overrides, node_overrides=addresses) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def _used(cluster: Cluster) -> Iterator[None]:
    """Records of which a group has not read all, and another group, which has no members any more."""
    with Admin(cluster.bootstrap_servers) as admin:
        every = {"min.insync.replicas": str(NODES)}
        admin.create_topics([NewTopic(topic=TOPIC, partitions=3, replication_factor=NODES, configs=every)])
    address = cluster.kafka_bootstrap_servers
    _produce(address, RECORDS)
    _read(address, GONE).close()
    reader = _read(address, READERS)
    _produce(address, LEFT)
    yield
    reader.close()


def _read(address: str, group: str) -> Consumer:
    """Return a member of the group, which has read what there is."""
    member = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([TOPIC])
    left = RECORDS
    while left:
        left -= len(member.consume(left, timeout=60))
    member.commit(asynchronous=False)
    return member


def _produce(address: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(count):
        producer.produce(TOPIC, str(number).encode(), partition=number % 3)
    assert not producer.flush(60)


@pytest.fixture(scope="module")
def programs(
    cluster: Cluster, ports: list[int], _used: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Prometheus, Mails]]:
    with monitoring(tmp_path_factory.mktemp("monitoring"), ports[:NODES], ports[NODES:]) as programs:
        yield programs


@pytest.fixture(scope="module")
def prometheus(programs: tuple[Prometheus, Mails]) -> Prometheus:
    return programs[0]


@pytest.mark.slow
def test_every_expression_of_dashboards_has_data_or_is_a_named_exception(prometheus: Prometheus) -> None:
    recorded = re.findall(r"- record: (\w+)", (SAMPLES / "dashboards.yml").read_text())
    assert set(recorded) < NOT_SERVED.keys()
    without = NOT_SERVED.keys() - set(recorded)
    wrong: list[str] = []

    def all_as_expected() -> bool:
        wrong[:] = [each for dashboard in dashboards() for each in _unexpected(dashboard, without, prometheus)]
        return not wrong

    until(all_as_expected, lambda: "\n".join(["no data, or data for an exception:", *wrong]))


def _unexpected(dashboard: Dashboard, without: set[str], prometheus: Prometheus) -> list[str]:
    """Return expressions that have no data, and exceptions that have."""
    try:
        values = chosen(dashboard.variables, prometheus.query)
    except NoChoice as error:
        return [f"{dashboard.name}: the variable {error} has no values"]
    found = []
    for expression in (*dashboard.expressions, *dashboard.series):
        samples = prometheus.query(filled(expression, values))
        has_data = bool(samples) and not any(isnan(sample.value) for sample in samples)
        if has_data == bool(series_in(expression) & without):
            found.append(f"{dashboard.name}: {filled(expression, values)}")
    return found


def test_series_have_the_values_that_kafka_exporter_makes_of_what_brokers_answer(
    cluster: Cluster, prometheus: Prometheus
) -> None:
    expected: dict[Series, float] = {}
    found: dict[Series, float] = {}

    def are_equal() -> bool:
        expected.clear()
        expected.update(kafka_exporter_series(cluster.kafka_bootstrap_servers))
        names = "|".join({each.name for each in expected})
        labels = {label for each in expected for label, _ in each.labels}
        found.clear()
        for sample in prometheus.query(f'{{__name__=~"{names}"}}'):
            # Prometheus adds where it has them from.
            own = {name: value for name, value in sample.labels.items() if name in labels}
            found[series(sample.labels["__name__"], **own)] = sample.value
        return found == expected

    until(are_equal, lambda: sorted(found.items() ^ expected.items()))
    assert found[series("kafka_consumergroup_lag_sum", consumergroup=READERS, topic=TOPIC)] == LEFT
    assert found[series("kafka_consumergroup_members", consumergroup=READERS)] == 1
    assert found[series("kafka_consumergroup_members", consumergroup=GONE)] == 0


def _port_of_a_standby(prometheus: Prometheus) -> int:
    """Return where a node has its metrics whose controller is not the active one."""
    found: list[str] = []

    def are_known() -> bool:
        states = prometheus.query("kafka_controller_kafkacontroller_activecontrollercount")
        found[:] = [each.labels["instance"] for each in states if not each.value]
        return len(found) == NODES - 1

    until(are_known, lambda: f"not active are {found}")
    return int(found[0].rpartition(":")[2])


@pytest.mark.slow
def test_a_broker_that_is_killed_becomes_mails_that_say_what_is_wrong_and_what_to_type(
    cluster: Cluster, ports: list[int], programs: tuple[Prometheus, Mails]
) -> None:
    prometheus, mails = programs
    killed = 1 + ports.index(_port_of_a_standby(prometheus))
    cluster.node(killed).kill()

    def body_of(subject: str, to: str) -> str:
        found: list[str] = []

        def has_come() -> bool:
            found[:] = [mail.body for mail in mails.read() if mail.subject.startswith(subject) and mail.to == to]
            return bool(found)

        until(has_come, lambda: f"{subject} is not among {mails.read()}")
        return found[0]

    down = body_of(
        f"[firing] KraftNodeDown of kraft: {HOST}:{ports[killed - 1]} does not answer", "operators@example.org"
    )
    assert "Type: kraft health; on the machine: systemctl status kraft" in down
    assert "Type: kraft cluster health" in body_of("[firing] KraftUnderReplicated of kraft: ", "operators@example.org")
    page = body_of("[firing] KraftBelowMinIsr of kraft: ", "on-call@example.org")
    assert re.search(r"^\d partitions refuse acks=all", page) is not None, page
    command = re.search(r"^Type: kraft ([\w -]+), then start the brokers that are missing$", page, re.MULTILINE)
    assert command is not None, page
    listed = run(*command[1].split(), "--bootstrap-server", cluster.bootstrap_servers)
    assert listed.returncode == 0, listed.stderr
    assert f"Topic: {TOPIC}" in listed.stdout

    cluster.node(killed).start()
    # How many there were at the end says nothing.
    over = body_of("[resolved] KraftBelowMinIsr of kraft", "on-call@example.org")
    assert over.startswith("Over: KraftBelowMinIsr\nFrom ")
