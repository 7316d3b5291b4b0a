from __future__ import annotations

from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.change_counts import ChangeCounts
from kraft.metadata.decision import Decision, RecordsOnDemand
from kraft.model.ids import BrokerId
from tests.support.cluster_images import cluster, epoch_of, with_topic


def test_the_partitions_of_a_fenced_broker_are_counted_by_what_happens_to_them() -> None:
    image = with_topic(cluster(1, 2), [1, 2], [1, 2], [2, 1], [1])
    counts = ChangeCounts()
    decision = counts.of(image, fence_broker(image, BrokerId(1), epoch_of(image, 1)))
    assert counts.facts() == {}, "nothing is counted before it is decided"
    assert len(decision.records) == 5
    assert list(decision.records) == list(fence_broker(image, BrokerId(1), epoch_of(image, 1)).records)
    assert counts.facts() == {"leaders_elected": 2, "leaderless": 1, "isr_shrunk": 3}


def test_records_on_demand_are_counted_as_they_are_consumed() -> None:
    image = with_topic(cluster(1, 2), [1, 2], [2, 1])
    counts = ChangeCounts()
    records = counts.of(image, fence_broker(image, BrokerId(1), epoch_of(image, 1))).records
    assert isinstance(records, RecordsOnDemand)
    assert len(list(records.consumed())) == 3
    assert counts.facts() == {"leaders_elected": 1, "isr_shrunk": 2}


def test_a_decision_that_changes_nothing_counts_nothing() -> None:
    counts = ChangeCounts()
    decision = counts.of(cluster(1), Decision(records=[], response="done"))
    assert (list(decision.records), decision.response, counts.facts()) == ([], "done", {})
