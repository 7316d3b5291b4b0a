"""Readers of records: everything once, in both directions, from wherever an earlier page ended, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.console.records.raw import Item, RawRecord, Unreadable
from kraft.console.records.reading import Limits, Range
from kraft.console.records.tailing import shares_of
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record
from tests.unit.console.records.readers import FakeConsumer, log_of, reader_of


def end_of(log: list[bytes]) -> int:
    return split(log[-1])[-1][0].next_offset if log else 0


def places(items: list[Item]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in items]


LOGS = st.lists(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 50)), max_size=6).map(
        lambda each: log_of([size for size, _ in each], [gap for _, gap in each])
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40)
@given(LOGS, st.booleans(), st.integers(1, 40), st.data())
def test_pages_hold_each_record_once_however_they_are_cut(
    logs: list[list[bytes]], newest_first: bool, rows: int, data: st.DataObject
) -> None:
    consumer = FakeConsumer(dict(enumerate(logs)))
    ranges = {number: Range(0, end_of(log)) for number, log in consumer.logs.items()}
    wanted = {(number, record.offset) for number, log in consumer.logs.items() for record in _records(log)}
    found: list[Item] = []
    for _ in range(1_000):
        reader = reader_of(consumer)
        items = reader.backward(ranges) if newest_first else reader.forward(ranges)
        page = list(islice(items, data.draw(st.integers(1, rows))))
        found += page
        at = reader.positions
        ranges = {
            number: Range(each.start, at[number]) if newest_first else Range(at[number], each.end)
            for number, each in ranges.items()
        }
        if not page:
            break
    assert len(found) == len(wanted)
    assert set(places(found)) == wanted
    for number in consumer.logs:
        offsets = [each.offset for each in found if each.partition == number]
        assert offsets == sorted(offsets, reverse=newest_first)


def _records(log: list[bytes]) -> Iterator[RawRecord]:
    reader = reader_of(FakeConsumer({0: log}))
    for each in reader.forward({0: Range(0, end_of(log))}):
        assert isinstance(each, RawRecord)
        yield each


def test_partitions_are_merged_by_time() -> None:
    logs = {0: log_of([5], [0], begin_ms=1_000), 1: log_of([5], [0], begin_ms=1_005)}
    ranges = {0: Range(0, 5), 1: Range(0, 5)}
    forward = list(reader_of(FakeConsumer(logs)).forward(ranges))
    assert places(forward)[:4] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert list(reader_of(FakeConsumer(logs)).backward(ranges)) == forward[::-1]
    assert {each.leader_epoch for each in forward if isinstance(each, RawRecord)} == {3}


def test_bytes_and_time_end_a_page() -> None:
    logs = {0: log_of([1] * 100, [0] * 100)}
    few = reader_of(FakeConsumer(logs), Limits(bytes_max=500, deadline_s=1e9))
    found = list(few.forward({0: Range(0, 100)}))
    assert (few.stopped, few.positions) == ("bytes", {0: len(found)})
    assert 0 < len(found) < 20
    ticks = iter(range(1_000))
    late = reader_of(FakeConsumer(logs), Limits(bytes_max=1 << 40, deadline_s=50), clock=lambda: float(next(ticks)))
    found = list(late.backward({0: Range(0, 100)}))
    assert (late.stopped, late.positions) == ("time", {0: 100 - len(found)})
    assert len(found) < 100


def test_a_silent_partition_is_left_out_and_the_others_are_read() -> None:
    consumer = FakeConsumer({0: log_of([3], [0]), 1: log_of([3], [0])})
    consumer.silent = frozenset({1})
    reader = reader_of(consumer)
    assert places(list(reader.forward({0: Range(0, 3), 1: Range(0, 3)}))) == [(0, 0), (0, 1), (0, 2)]
    assert reader.problems == ["nothing came from partition 1 within 0.7 s"]
    assert reader.positions == {0: 3, 1: 0}


@pytest.mark.parametrize("newest_first", [True, False])
def test_aborted_records_are_counted_and_bombs_are_a_sentence(newest_first: bool) -> None:
    bomb = build_batch([Record(0, 5, None, bytes(60 << 20))], Codec.ZSTD, base_offset=4)
    consumer = FakeConsumer({0: [*log_of([2, 2], [0, 0]), bomb]}, frozenset({(0, 2)}))
    reader = reader_of(consumer)
    ranges = {0: Range(0, 5)}
    found = list(reader.backward(ranges) if newest_first else reader.forward(ranges))
    assert sorted(places(found)) == [(0, 0), (0, 1), (0, 4)]
    (unread,) = [each for each in found if isinstance(each, Unreadable)]
    assert "decompresses to more than" in unread.why
    assert reader.hidden == 2


def test_broken_batches_are_a_sentence_and_reading_goes_on() -> None:
    good, broken, after = log_of([2, 2, 2], [0, 0, 0])
    consumer = FakeConsumer({0: [good, broken[:-1] + bytes([broken[-1] ^ 1]), after]})
    found = list(reader_of(consumer).forward({0: Range(0, 6)}))
    assert places(found) == [(0, 0), (0, 1), (0, 2), (0, 4), (0, 5)]
    assert isinstance(found[2], Unreadable)
    assert "checksum" in found[2].why


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 40), max_size=6), st.integers(1, 50))
def test_what_a_tail_reads_is_shared_by_its_partitions(come: dict[int, int], most: int) -> None:
    shares = shares_of(come, most)
    assert sum(shares.values()) == min(most, sum(come.values()))
    assert all(shares[number] <= count for number, count in come.items())
    for number, share in shares.items():
        assert share == come[number] or share >= max(shares.values()) - 1
