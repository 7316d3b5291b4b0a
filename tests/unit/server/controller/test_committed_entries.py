from __future__ import annotations

from kraft.server.controller.committed_entries import KEPT_BELOW_SNAPSHOT, CommittedEntries, CommittedEntry


def entries_at(*indexes: int) -> CommittedEntries:
    entries = CommittedEntries()
    for index in indexes:
        entries.append(CommittedEntry(index=index, term=1, payload=b"x"))
    return entries


def after(entries: CommittedEntries, index: int) -> list[int] | None:
    found = entries.after(index)
    return None if found is None else [entry.index for entry in found]


def test_what_comes_after_an_index_is_found_also_where_the_log_has_gaps() -> None:
    entries = entries_at(3, 4, 9)
    assert [after(entries, index) for index in (0, 3, 5, 9, 50)] == [[3, 4, 9], [4, 9], [9], [], []]


def test_a_snapshot_drops_what_is_long_before_it_and_nothing_behind_it() -> None:
    entries = entries_at(*range(2, 2 * KEPT_BELOW_SNAPSHOT + 2, 2), 5_000, 5_001)
    entries.snapshot_taken(20)
    assert after(entries, 0) is not None, "nothing is long before it"
    entries.snapshot_taken(5_000)
    assert len(entries) == KEPT_BELOW_SNAPSHOT + 1
    assert after(entries, 0) is None
    assert after(entries, 1) is None, "entry 2 is gone"
    assert after(entries, 2) is not None, "the first that is gone is held by whoever asks"
    assert after(entries, 5_000) == [5_001]


def test_after_a_snapshot_was_loaded_only_what_came_later_is_here() -> None:
    entries = entries_at(1, 2)
    entries.begin_after(100)
    assert (after(entries, 99), after(entries, 100)) == (None, [])
    entries.append(CommittedEntry(index=105, term=2, payload=b"x"))
    assert after(entries, 100) == [105]
