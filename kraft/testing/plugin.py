"""Fixtures for pytest: `kraft_cluster`, and `start_kraft_cluster` for a test that needs its own cluster.

    def test_orders_arrive(kraft_cluster):
        producer = Producer(kraft_cluster.bootstrap_servers)

The shared cluster is started once per test run, for the first test that uses it; the ini option `kraft_nodes` is its
number of nodes (3). Tests that kill nodes start their own: `start_kraft_cluster(nodes=3, overrides={...})`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

# Every pytest run loads this module; only runs that use a cluster should pay for its imports.
if TYPE_CHECKING:
    from kraft.testing.cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kraft_nodes", "number of nodes of the cluster that tests share through the fixture kraft_cluster", default="3"
    )


@pytest.fixture(scope="session")
def kraft_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A running cluster that all tests of the run share, topics included."""
    from kraft.testing.cluster import Cluster

    with Cluster(nodes=int(pytestconfig.getini("kraft_nodes"))) as cluster:
        yield cluster


@pytest.fixture
def start_kraft_cluster() -> Iterator[Callable[..., Cluster]]:
    """Start a cluster for one test, with the arguments of `Cluster`; it is removed after the test."""
    from kraft.testing.cluster import Cluster

    with ExitStack() as running:
        yield lambda **arguments: running.enter_context(Cluster(**arguments))
