"""Fixtures of more than one file: three nodes, and their addresses and topics for clients of Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.client import Admin
from kraft.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: Cluster) -> str:
    return cluster.kafka_bootstrap_servers


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, with two partitions; it keeps records that are years old."""
    name: str = request.node.name[:200].replace("[", "-").replace("]", "")
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(name, 2, 3, {"retention.ms": "-1"})
    return name
