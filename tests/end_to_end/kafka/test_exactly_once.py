"""Copies and transfers in transactions of librdkafka and our own client, while what they need is killed.

`python -m tests.soak.transaction_runs` does the same for longer, with Kafka's Java client, pauses, and seeds.
"""

from __future__ import annotations

import pytest

from kraft.testing import Cluster
from tests.soak.transaction_runs import NODES, SETTINGS, Fault, check_copies, run

SEED = 17

FAULTS = (Fault.KILL_CLIENT_AND_COORDINATOR, Fault.KILL_LEADER)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_record_is_copied_once_while_coordinators_leaders_and_clients_are_killed() -> None:
    with Cluster(NODES, overrides=SETTINGS) as cluster:
        ended = run(cluster, SEED, FAULTS, ("confluent", "kraft"), settled_max_s=0.0)
    assert [each.fault for each in ended.happenings] == list(FAULTS)
    assert ended.copied > 0
    assert ended.transfers > 0
    assert ended.totals > 0


@pytest.mark.parametrize(
    ("copied", "problem"),
    [
        ((0, 1, 2), ""),
        ((0, 2), "missing 1, first \\[1\\]"),
        ((0, 1, 1, 2), "repeated 1, first \\[1\\]"),
        ((0, 2, 1), "in order: False"),
    ],
)
def test_a_record_that_is_missing_repeated_or_out_of_order_fails_the_run(copied: tuple[int, ...], problem: str) -> None:
    keys = [b"0:%d" % each for each in copied]
    if not problem:
        check_copies("a reader", keys, {0: 3})
        return
    with pytest.raises(AssertionError, match=problem):
        check_copies("a reader", keys, {0: 3})
