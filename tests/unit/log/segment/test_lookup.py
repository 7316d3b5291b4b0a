from __future__ import annotations

from kraft.log.format.record_batch import split
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.segment import lookup
from kraft.log.segment.segment import Segment
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.compacted_log import batch_at

LOG_END = Offset(12)


def segments() -> list[Segment]:
    """Three segments from 0, 4 and 9 on; the last records of the second, 6 to 8, are gone."""
    disk = MemoryDisk()
    disk.make_dir("data")
    made = []
    for base, offsets in ((0, range(4)), (4, range(4, 6)), (9, range(9, 12))):
        segment = Segment(disk, "data", Offset(base), 4096, create=True)
        for offset in offsets:
            batch = batch_at(offset, ("k", f"{offset}"))
            segment.append([batch], [split(batch)[0][0]])
        made.append(segment)
    return made


def test_an_offset_is_in_the_last_segment_that_begins_at_or_below_it() -> None:
    found = segments()
    numbers = {offset: lookup.segment_number(found, Offset(offset)) for offset in (0, 3, 4, 8, 9, 11, 100)}
    assert numbers == {0: 0, 3: 0, 4: 1, 8: 1, 9: 2, 11: 2, 100: 2}


def test_below_the_first_segment_there_is_none_before_it() -> None:
    assert lookup.segment_number(segments()[1:], Offset(2)) == 0


def test_a_segment_ends_where_the_next_begins_and_the_last_with_the_log() -> None:
    facts = lookup.facts(segments(), LOG_END)
    assert [(each.base_offset, each.end_offset) for each in facts] == [(0, 4), (4, 9), (9, 12)]


def test_a_read_goes_on_in_the_next_segment_where_the_records_of_one_are_gone() -> None:
    def first(start: int, upper: int) -> int | None:
        data = lookup.read(segments(), Offset(start), 1, Offset(upper), LeaderEpochCache(), True, LOG_END)
        return split(data)[0][0].base_offset if data else None

    assert [first(start, 12) for start in (0, 5, 6, 8, 9, 12)] == [0, 5, 9, 9, 9, None]
    assert first(6, 9) is None
