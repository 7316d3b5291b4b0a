"""Three nodes whose groups rebalance without waiting for more members, for clients of Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.testing import Cluster
from tests.support.kafka.group_members.observer import Observer
from tests.support.kafka.group_members.options import Servers

SETTINGS = {
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    # librdkafka gives a heartbeat no more time than the interval; after a second attempt the member is fenced.
    "group.consumer.heartbeat.interval.ms": "1500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    # By default each change of a group's members is followed by a second in which there is no assignment.
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides=SETTINGS) as running:
        yield running


@pytest.fixture(scope="package")
def observer(cluster: Cluster) -> Observer:
    return Observer(Servers(kafka=cluster.kafka_bootstrap_servers, grpc=cluster.bootstrap_servers))


@pytest.fixture(scope="package")
def servers(cluster: Cluster) -> str:
    return cluster.kafka_bootstrap_servers


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A name for the test's own group, and for its topic."""
    name: str = request.node.name
    return name[-200:].replace("[", "-").replace("]", "")
