"""Comparisons of both ends of a mirror, where they have deleted records each at its own time."""

from __future__ import annotations

from kraft.log.format.record_codec import RecordColumns
from kraft.mirror.verification import Difference, Records, add, compacted_difference

History = list[tuple[int, str, str | None]]
"""Timestamp, key and value of records; None is a tombstone."""

WRITTEN: History = [(1, "a", "1"), (2, "b", "1"), (3, "a", "2"), (4, "c", "1"), (5, "b", None), (6, "a", "3")]


def records_of(history: History) -> Records:
    found = Records()
    columns = RecordColumns(
        list(range(len(history))),
        [time for time, _, _ in history],
        [key.encode() for _, key, _ in history],
        [None if value is None else value.encode() for _, _, value in history],
        [() for _ in history],
    )
    add(found, columns, is_compacted=True)
    return found


def difference(here: History, there: History, *, is_deleted: bool = False) -> Difference:
    return compacted_difference(records_of(here), records_of(there), is_deleted=is_deleted)


def without(*rows: int) -> History:
    return [each for row, each in enumerate(WRITTEN) if row not in rows]


def test_what_one_end_has_compacted_is_no_difference() -> None:
    for here, there in ((WRITTEN, without(0, 2)), (without(0), without(2)), (without(0, 1, 2, 4), WRITTEN)):
        found = difference(here, there)
        assert (found.missing, found.twice, found.in_order) == (0, 0, True)
        assert found.compared + found.compacted == len({*here, *there})


def test_the_last_record_of_a_key_is_missed() -> None:
    assert difference(WRITTEN, without(5)).missing == 1
    assert difference(WRITTEN, without(3)).missing == 1
    # A tombstone is gone with its key, never before the record that it deletes.
    assert difference(WRITTEN, without(1, 4)).missing == 0
    assert difference(WRITTEN, without(4)).missing == 1


def test_a_record_that_the_target_has_more_often_is_twice() -> None:
    assert difference(WRITTEN, [*WRITTEN, WRITTEN[-1]]).twice == 1
    assert difference(WRITTEN, [*WRITTEN, (7, "d", "1")]).twice == 1


def test_another_order_is_noticed() -> None:
    assert not difference(WRITTEN, [WRITTEN[3], *without(3)]).in_order


def test_what_retention_took_at_the_beginning_is_no_difference_where_it_deletes() -> None:
    here: History = [(0, "z", "1"), *WRITTEN]
    assert difference(here, WRITTEN, is_deleted=True).missing == 0
    assert difference(here, WRITTEN).missing == 1
