from __future__ import annotations

from kraft.model.ids import LogDirectory, TopicIdPartition
from kraft.server.replica.waiting_replicas import WaitingReplicas
from tests.support.cluster_images import ORDERS

A, B = LogDirectory("a"), LogDirectory("b")
ONE, TWO, THREE = (TopicIdPartition(ORDERS, number) for number in range(3))


def waiting() -> WaitingReplicas:
    replicas = WaitingReplicas()
    for replica, directory in ((TWO, A), (ONE, A), (THREE, B)):
        replicas.add(replica, directory)
    return replicas


def test_each_directory_has_its_own_in_the_order_in_which_they_came() -> None:
    replicas = waiting()
    assert (list(replicas.of(A)), list(replicas.of(B)), list(replicas.of(LogDirectory("c")))) == (
        [TWO, ONE],
        [THREE],
        [],
    )
    assert (replicas.counts(), len(replicas), ONE in replicas) == ({A: 2, B: 1}, 3, True)


def test_one_that_waits_already_keeps_its_place_and_moves_to_another_directory() -> None:
    replicas = waiting()
    replicas.add(TWO, A)
    assert list(replicas.of(A)) == [TWO, ONE]
    replicas.add(TWO, B)
    assert (list(replicas.of(A)), list(replicas.of(B)), len(replicas)) == ([ONE], [THREE, TWO], 3)


def test_one_that_waits_no_longer_is_nowhere() -> None:
    replicas = waiting()
    seen = replicas.of(A)
    for replica in (THREE, TWO, THREE):
        replicas.discard(replica)
    assert (replicas.counts(), TWO in replicas) == ({A: 1}, False)
    assert list(seen) == [TWO, ONE], "those that waited at the call"
