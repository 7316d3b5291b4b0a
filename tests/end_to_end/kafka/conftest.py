"""Three nodes that the tests of this folder share, with their addresses and topics for clients of Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.kafka.known_topics import until_known


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """Nodes with the default settings, for tests that change neither nodes nor settings; each test has its own topics.

    Only the first member of a group waits for no others: whoever reads in a group would wait for three seconds.
    A file whose tests do not, or that needs other settings, has a fixture of this name of its own.
    """
    with Cluster(3, overrides={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: Cluster) -> str:
    return cluster.kafka_bootstrap_servers


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Name of the test's own topic, with two partitions; it keeps records that are years old."""
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(name, 2, 3, {"retention.ms": "-1"})
    until_known(cluster, name, 2)
    return name
