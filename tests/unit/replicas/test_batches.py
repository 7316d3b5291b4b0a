from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.log.format.record_batch import CONTROL_BIT, build_batch, split
from kraft.log.format.record_codec import Record
from kraft.model.errors import InvalidBatch
from kraft.replicas.batches import SAME, Batch, Comparison, compared
from tests.unit.replicas.compacted_batch import with_only

EMPTY: list[Batch] = []


def batches(*values: Sequence[str], start: int = 0, epoch: int = 0, timestamp_ms: int = 1_000) -> list[Batch]:
    """Return a batch of each list of values, one after the other."""
    found = b""
    for each in values:
        records = [Record(offset, timestamp_ms, b"k", value.encode()) for offset, value in enumerate(each, start)]
        found += build_batch(records, base_offset=start, leader_epoch=epoch)
        start += len(each)
    return split(found)


def left_of(values: str, *offsets: int) -> list[Batch]:
    """Return the batch after a compaction that left these offsets."""
    ((_, batch),) = batches(values)
    return split(with_only(bytes(batch), offsets))


def difference(reference: Sequence[Batch], other: Sequence[Batch], **how: bool) -> Comparison:
    end = max(header.next_offset for header, _ in (*reference, *other))
    return compared(reference, other, 0, end, is_compacted=how.get("is_compacted", False))


def test_equal_batches_are_the_same() -> None:
    assert difference(batches("ab", "c"), batches("ab", "c")) == SAME


def test_a_record_with_another_value_is_named_by_its_offset() -> None:
    found = difference(batches("ab", "cd"), batches("ab", "cx"))
    assert found == Comparison(first_offset=3, differing=1)


def test_a_record_with_another_timestamp_differs() -> None:
    assert difference(batches("a"), batches("a", timestamp_ms=1_001)) == Comparison(first_offset=0, differing=1)


def test_records_that_only_one_side_has_are_missing_or_additional() -> None:
    whole, part = batches("a", "b", "c"), [*batches("a"), *batches("c", start=2)]
    assert difference(whole, part) == Comparison(first_offset=1, missing=1)
    assert difference(part, whole) == Comparison(first_offset=1, additional=1)
    assert difference(batches("a"), EMPTY) == Comparison(first_offset=0, missing=1)


def test_batches_that_differ_in_their_headers_only_are_counted() -> None:
    found = difference(batches("ab", "c"), [*batches("ab"), *batches("c", start=2, epoch=1)])
    assert found == Comparison(first_offset=2, batches=1)


def test_batches_that_are_cut_elsewhere_are_counted_where_nothing_is_compacted() -> None:
    assert difference(batches("ab"), batches("a", "b")) == Comparison(first_offset=0, batches=2)
    assert difference(batches("ab"), batches("a", "b"), is_compacted=True) == SAME


def test_compaction_may_have_removed_records_of_one_side_but_not_changed_any() -> None:
    whole, compacted = batches("abcd"), left_of("abcd", 1, 3)
    assert difference(whole, compacted, is_compacted=True) == Comparison(compacted=2)
    changed = left_of("axcd", 1, 3)
    found = difference(whole, changed, is_compacted=True)
    assert found == Comparison(first_offset=1, differing=1, compacted=2)


def test_only_the_range_is_compared() -> None:
    assert compared(batches("abcd"), batches("axxd"), 0, 1, is_compacted=True) == SAME
    assert compared(batches("abcd"), batches("axxd"), 2, 4, is_compacted=True).first_offset == 2


def test_a_wrong_checksum_is_no_batch_on_either_side() -> None:
    (header, batch) = batches("abc")[0]
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    wrong = [(header, memoryview(bytes(damaged)))]
    for sides in ((wrong, wrong), (batches("abc"), wrong)):
        with pytest.raises(InvalidBatch, match="offset 0"):
            compared(*sides, 0, 3, is_compacted=False)


def test_a_marker_differs_from_a_record() -> None:
    record = Record(0, 1_000, b"\0\0\0\0", b"\0" * 6)
    plain, marker = split(build_batch([record])), split(build_batch([record], control=True))
    assert marker[0][0].attributes & CONTROL_BIT
    assert difference(plain, marker) == Comparison(first_offset=0, differing=1)


def test_differences_add_up_and_the_first_offset_stays() -> None:
    total = SAME + Comparison(first_offset=3, missing=1) + Comparison(first_offset=9, differing=2, compacted=1)
    assert total == Comparison(first_offset=3, missing=1, differing=2, compacted=1)
