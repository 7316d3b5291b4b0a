"""An application of Kafka Streams counts exactly once while a transaction coordinator and an instance are killed.

`python -m tests.soak.streams_runs` does the same for longer, with more faults, and seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraft.testing import Cluster
from tests.soak.loads.words import Counts
from tests.soak.streams_runs import NODES, SETTINGS, Fault, Run, run
from tests.support.kafka.streams.instances import instances_of
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(600)

SEED = 17
FAULTS = (Fault.KILL_TRANSACTION_COORDINATOR, Fault.KILL_INSTANCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(NODES, overrides=SETTINGS) as running:
        yield running


@pytest.mark.slow
def test_kafka_streams_counts_exactly_once_while_a_broker_and_an_instance_are_killed(cluster: Cluster) -> None:
    ended = run(cluster, SEED, FAULTS, period_s=0.1, down_max_s=1.0)
    assert [each.fault for each in ended.happenings] == list(FAULTS)
    assert ended.happenings[0].node_id > 0
    assert ended.words > 0


def test_an_application_that_asks_for_streams_groups_is_told_that_there_are_none(cluster: Cluster) -> None:
    one = Run(cluster, SEED + 1, protocol="streams")
    one.create_topics()
    with instances_of(one.application, 1) as (instance,):
        until(lambda: instance.errors() != [], instance.process.errors_tail)
        assert "The cluster does not support the STREAMS group protocol" in instance.errors()[0]


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([(0, 1), (0, 2), (0, 3)], ""),
        ([(0, 1), (0, 3)], "count 3 of word after 1"),
        ([(0, 1), (0, 2), (0, 2)], "count 2 of word after 2"),
        ([(0, 2)], "count 2 of word after 0"),
        ([(0, 1), (1, 2)], "in partitions 0 and 1"),
    ],
)
def test_a_count_that_is_missing_repeated_or_elsewhere_fails_the_run(
    counts: list[tuple[int, int]], problem: str
) -> None:
    seen = Counts()

    def add_all() -> None:
        for partition, count in counts:
            seen.add(partition, b"word", count.to_bytes(8, "big"))

    if not problem:
        add_all()
        assert seen.last == {b"word": 3}
        return
    with pytest.raises(AssertionError, match=problem):
        add_all()
