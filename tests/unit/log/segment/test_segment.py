from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraft.log.change import run_now
from kraft.log.format.record_batch import BatchHeader, read_header
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.log.segment import batches
from kraft.log.segment import segment as segment_module
from kraft.log.segment.segment import Segment
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import DIRECTORY, stored

BATCHES = 6


def segment_with_batches() -> Segment:
    segment = Segment(MemoryDisk(), DIRECTORY, Offset(0), index_interval_bytes=100, create=True)
    for offset in range(BATCHES):
        batch = stored(f"value {offset}", offset=offset, epoch=0, timestamp_ms=1_000 + 10 * (offset % 4))
        segment.append([batch], [read_header(batch)])
    assert segment.max_timestamp_offset == 3, "it is neither the first nor the last"
    return segment


def known_of(segment: Segment) -> tuple[object, ...]:
    return (
        segment.next_offset,
        segment.max_timestamp_ms,
        segment.max_timestamp_offset,
        segment.first_timestamp_ms,
        segment.index_bytes,
        segment.indexes_in_memory,
    )


@pytest.mark.parametrize("broken_at", range(BATCHES))
def test_a_failed_rebuild_of_indexes_changes_nothing(monkeypatch: pytest.MonkeyPatch, broken_at: int) -> None:
    segment = segment_with_batches()
    before = known_of(segment)
    scan_batches = batches.scan_batches

    def cut(*arguments: Any, **options: Any) -> Iterator[tuple[int, BatchHeader]]:
        for number, found in enumerate(scan_batches(*arguments, **options)):
            if number == broken_at:
                raise Corruption(segment.path, found[0], "corrupt")
            yield found

    with monkeypatch.context() as corrupt:
        corrupt.setattr(segment_module, "scan_batches", cut)
        with pytest.raises(Corruption, match="corrupt"):
            segment.rebuild_indexes()
    assert known_of(segment) == before
    batch = stored("next", offset=BATCHES, epoch=0)
    segment.append([batch], [read_header(batch)])
    everything = segment.read(Offset(0), 1 << 20, segment.next_offset, LeaderEpochCache(), is_sparse=False)
    assert len(everything) == segment.size_bytes


def test_batches_that_end_elsewhere_than_is_known_are_corrupt() -> None:
    segment = segment_with_batches()
    segment.next_offset = Offset(BATCHES + 1)
    before = known_of(segment)
    with pytest.raises(Corruption, match=f"the batches end at offset {BATCHES}, not {BATCHES + 1}"):
        segment.rebuild_indexes()
    assert known_of(segment) == before


def test_rebuilt_indexes_equal_the_original_ones() -> None:
    segment = segment_with_batches()
    run_now(segment.finish())
    before = known_of(segment)
    indexes = segment.indexes_in_memory
    segment.rebuild_indexes()
    assert known_of(segment)[:-1] == before[:-1]
    made_anew = segment.indexes_in_memory
    assert indexes is not None
    assert made_anew is not None
    assert [each.encode() for each in made_anew] == [each.encode() for each in indexes]
    assert made_anew[0] is not indexes[0]


@pytest.mark.parametrize("interval_bytes", [0, 100, 1_000_000])
@pytest.mark.parametrize("bytes_max", range(0, 1_200, 50))
def test_a_read_returns_most_of_the_whole_batches_that_fit_and_reads_nothing_in_vain(
    interval_bytes: int, bytes_max: int
) -> None:
    segment = Segment(MemoryDisk(), DIRECTORY, Offset(0), interval_bytes, create=True)
    batch = b""
    for offset in range(20):
        batch = stored("x" * 50, offset=offset, epoch=0)
        segment.append([batch], [read_header(batch)])
    asked: list[int] = []
    file, size = segment.file, len(batch)

    class Counting:
        size = file.size

        def read_at(self, position: int, size: int) -> bytes:
            asked.append(size)
            return file.read_at(position, size)

    segment.file = Counting()  # type: ignore[assignment]  # Only read here.
    found = segment.read(Offset(3), bytes_max, segment.next_offset, LeaderEpochCache(), is_sparse=False)
    fit = max(1, min(bytes_max // size, 17))
    assert len(found) % size == 0
    assert fit * 0.75 <= len(found) / size <= fit
    if interval_bytes == 0 and fit > 3:
        assert asked[-1] == len(found)


def test_a_read_of_the_last_batch_reads_nothing_twice_and_nothing_beyond_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment = segment_with_batches()
    reads: list[tuple[int, int]] = []
    read_at = segment.file.read_at

    def noted(position: int, size: int) -> bytes:
        reads.append((position, size))
        return read_at(position, size)

    monkeypatch.setattr(segment.file, "read_at", noted)
    found = segment.read(Offset(BATCHES - 1), 1 << 20, segment.next_offset, LeaderEpochCache(), is_sparse=False)
    assert read_header(found).base_offset == BATCHES - 1
    assert len(reads) == len(set(reads)) == 2, "the headers from the index's entry on, and the batch"
    assert all(position + size <= segment.size_bytes for position, size in reads)
