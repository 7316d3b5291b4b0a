from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from kraft.metadata.decision import RecordsOnDemand, decided_in_slices
from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import changes_when_gone
from kraft.metadata.records import ClusterInitialised, MetadataRecord, PartitionChanged
from kraft.model.ids import BrokerId, TopicId
from tests.support.cluster_images import cluster, with_topic

RECORDS = [ClusterInitialised(cluster_id=str(number)) for number in range(5)]


def test_records_on_demand_are_decided_one_by_one_and_once() -> None:
    decided: list[MetadataRecord] = []

    def decide() -> Iterator[MetadataRecord]:
        for record in RECORDS:
            decided.append(record)
            yield record

    records = RecordsOnDemand(decide())
    assert decided == []
    assert records
    assert decided == RECORDS[:1]
    first, second, *_ = iter(records)
    assert [first, second] == RECORDS[:2]
    assert list(records) == RECORDS
    assert (len(records), records[1], records[3:]) == (5, RECORDS[1], RECORDS[3:])
    assert records == RECORDS
    assert records != RECORDS[1:]
    assert list(records.consumed()) == RECORDS
    assert records == [], "they are forgotten"
    assert decided == RECORDS


def test_no_records_on_demand_are_none() -> None:
    assert not RecordsOnDemand([])
    assert RecordsOnDemand([]) == []


def test_what_is_decided_slice_by_slice_is_what_is_decided_at_once() -> None:
    image = cluster(1, 2)
    for number in range(600):
        image = with_topic(image, [1, 2], topic=f"t-{number}", topic_id=TopicId(UUID(int=1_000 + number)))
    at_once = changes_when_gone(image, BrokerId(1))
    asked: list[int] = []

    def decide(part: MetadataImage) -> list[PartitionChanged]:
        asked.append(len(part.topics))
        return changes_when_gone(part, BrokerId(1))

    records = decided_in_slices(image, decide)
    assert next(records) == at_once[0]
    assert sum(asked) < len(image.topics), "the rest is decided when it is asked for"
    assert list(records) == at_once[1:]
