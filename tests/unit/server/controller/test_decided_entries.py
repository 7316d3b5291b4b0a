from __future__ import annotations

from itertools import chain

from kraft.metadata.records import (
    ClusterInitialised,
    MetadataRecord,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
)
from kraft.rpc.metadata_codec import decode_records
from kraft.server.controller.decided_entries import ENTRY_BYTES_MAX, transaction


def named(count: int, length: int = 100) -> list[MetadataRecord]:
    return [ClusterInitialised(cluster_id=f"{number:0{length}}") for number in range(count)]


def entries(records: list[MetadataRecord]) -> list[list[MetadataRecord]]:
    return [decode_records(payload, 1) for payload in transaction(records)]


def test_what_fits_into_one_entry_needs_no_markers() -> None:
    assert entries(named(1)) == [named(1)]
    assert entries(named(200)) == [named(200)]
    assert entries([]) == []


def test_what_does_not_is_a_transaction_of_full_entries() -> None:
    payloads = list(transaction(named(1_000)))
    first, *middle, last = (decode_records(payload, 1) for payload in payloads)
    assert (first[0], last[-1]) == (MetadataTransactionBegun(), MetadataTransactionEnded())
    assert [*first[1:], *chain(*middle), *last[:-1]] == named(1_000)
    assert all(ENTRY_BYTES_MAX * 0.9 < len(payload) <= ENTRY_BYTES_MAX + 16 for payload in payloads[:-1])


def test_a_record_that_is_larger_than_an_entry_has_one_of_its_own() -> None:
    large = named(1, length=2 * ENTRY_BYTES_MAX)
    assert entries(large) == [large]
    assert entries([*named(1), *large]) == [
        [MetadataTransactionBegun(), *named(1)],
        [*large, MetadataTransactionEnded()],
    ]
