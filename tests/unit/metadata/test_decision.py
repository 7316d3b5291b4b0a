from __future__ import annotations

from collections.abc import Iterator

from kraft.metadata.decision import RecordsOnDemand
from kraft.metadata.records import ClusterInitialised, MetadataRecord

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
