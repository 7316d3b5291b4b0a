"""Compaction: that exactly the right records stay."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.cleaned_segments import discard
from kraft.log.compaction import CleaningAborted, OffsetMapTooSmall, clean, group_segments
from kraft.log.compression import Codec
from kraft.log.log_config import NEVER, LogConfig
from kraft.log.record_batch import (
    DELETE_HORIZON_BIT,
    BatchHeader,
    TimestampType,
    build_batch,
    check_crc,
    decode_batch,
    placed,
    read_header,
    rebuild_batch,
)
from kraft.log.record_codec import Record, RecordColumns
from kraft.log.segment_swap import complete_swaps
from kraft.model.errors import Corruption
from kraft.model.ids import LeaderEpoch, Offset
from tests.simulation.sim_disk import CrashMode, PowerFailure, SimDisk
from tests.unit.log.compacted_log import CODECS, COMPACT, MAP_BYTES, CompactedLog, Pair, batch_at, facts
from tests.unit.log.memory_disk import MemoryDisk

DAY_MS = 86_400_000
NOW_MS = 10 * DAY_MS


def new_log() -> CompactedLog:
    return CompactedLog(MemoryDisk())


# --- which records stay --------------------------------------------------------------------------------------


def test_of_each_key_the_newest_record_stays_where_it_was() -> None:
    log = new_log()
    log.segment([("a", "1"), ("b", "1"), ("a", "2")], [("c", "1"), ("b", "2")])
    log.compact()
    assert log.pairs() == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]


def test_a_key_in_the_clean_part_is_outdated_by_the_dirty_part() -> None:
    log = new_log()
    log.segment([("a", "1"), ("b", "1")])
    log.compact()
    log.segment([("a", "2"), ("c", "1")])
    log.compact()
    assert log.pairs() == [(1, "b", "1"), (2, "a", "2"), (3, "c", "1")]


def test_the_active_segment_outdates_nothing() -> None:
    log = new_log()
    log.segment([("a", "1")])
    log.append(("a", "2"))
    log.compact()
    assert log.pairs() == [(0, "a", "1"), (1, "a", "2")]


def test_records_without_a_key_go() -> None:
    log = new_log()
    log.segment([(None, "x"), ("a", "1"), (None, None)])
    log.compact()
    assert log.pairs() == [(1, "a", "1")]


def test_an_empty_value_is_no_tombstone_and_an_empty_key_is_a_key() -> None:
    log = new_log()
    log.segment([("", "x"), ("", ""), ("a", "")])
    for _ in range(2):
        log.compact(now_ms=NOW_MS)
        log.cleaned_end = Offset(0)
    assert log.pairs() == [(1, "", ""), (2, "a", "")]


def test_timestamps_and_headers_of_what_stays_are_unchanged() -> None:
    log = new_log()
    records = [
        Record(0, 5_000, b"a", b"1"),
        Record(1, 3_000, b"b", None, (("h", b"v"), ("h", None))),
        Record(2, 9_000, b"a", b"2", (("x", b""),)),
    ]
    log.append_batch(build_batch(records))
    log.roll()
    log.compact(now_ms=NOW_MS)
    assert log.records() == records[1:]
    [(header, _)] = log.batches()
    assert header.max_timestamp_ms == 9_000


# --- tombstones ----------------------------------------------------------------------------------------------


def test_a_tombstone_stays_until_its_horizon_and_goes_with_the_first_cleaning_after_it() -> None:
    log = new_log()
    log.segment([("a", "1"), ("b", "1")], [("a", None), ("c", "1")])
    log.compact(now_ms=NOW_MS)
    tombstone = (2, "a", None)
    assert log.pairs() == [(1, "b", "1"), tombstone, (3, "c", "1")]
    assert [horizon_of(header) for header, _ in log.batches()] == [None, NOW_MS + 1_000]
    assert [record.timestamp_ms for record in log.records()] == [1_001, 1_000, 1_001]

    log.segment([("d", "1")])
    log.compact(now_ms=NOW_MS + 999)
    assert tombstone in log.pairs()
    log.segment([("e", "1")])
    log.compact(now_ms=NOW_MS + 1_000)
    assert log.pairs() == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1"), (5, "e", "1")]


def horizon_of(header: BatchHeader) -> int | None:
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON_BIT else None


def test_the_horizon_is_set_once() -> None:
    log = new_log()
    log.segment([("a", None), ("b", "1")])
    log.compact(now_ms=NOW_MS)
    log.segment([("b", "2")])
    log.compact(now_ms=NOW_MS + 500)
    assert [horizon_of(header) for header, _ in log.batches()] == [NOW_MS + 1_000, None]
    assert log.pairs() == [(0, "a", None), (2, "b", "2")]
    assert log.records()[0].timestamp_ms == 1_000


def test_a_tombstone_that_is_outdated_goes_at_once() -> None:
    log = new_log()
    log.segment([("a", None), ("a", "1")])
    log.compact(now_ms=NOW_MS)
    assert log.pairs() == [(1, "a", "1")]
    assert horizon_of(log.batches()[0][0]) is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("append_time_ms", [None, 777_000])
def test_a_horizon_changes_no_timestamp_in_any_codec(codec: Codec, append_time_ms: int | None) -> None:
    log = new_log()
    batch = batch_at(0, ("a", None), ("b", "1"), codec=codec)
    log.append_batch(b"".join(placed(memoryview(batch), Offset(0), LeaderEpoch(3), append_time_ms)))
    log.roll()
    before = log.records()
    log.compact(now_ms=NOW_MS)
    [(header, stamped)] = log.batches()
    check_crc(header, stamped)
    assert horizon_of(header) == NOW_MS + 1_000
    assert header.codec is codec
    assert (header.timestamp_type is TimestampType.LOG_APPEND_TIME) is (append_time_ms is not None)
    assert log.records() == before


def test_delete_retention_without_end_is_a_horizon_at_the_end_of_time() -> None:
    log = new_log()
    log.segment([("a", None)])
    log.compact(replace(COMPACT, delete_retention_ms=NEVER), now_ms=NOW_MS)
    assert horizon_of(log.batches()[0][0]) == NEVER
    assert log.records() == [Record(0, 1_000, b"a", None)]


@pytest.mark.parametrize("timestamp_ms", [-NEVER - 1, -1, 0, NEVER])
def test_no_timestamp_a_producer_sends_is_changed_or_breaks_the_batch(timestamp_ms: int) -> None:
    log = new_log()
    log.segment([("a", "1"), ("a", None)], timestamp_ms=min(timestamp_ms, NEVER - 1))
    before = log.records()
    log.compact(now_ms=NOW_MS)
    assert log.records() == before[1:]


# --- what a kept batch keeps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_rewritten_batch_keeps_everything_but_the_records_that_went(codec: Codec) -> None:
    log = new_log()
    details: dict[str, Any] = {"codec": codec, "producer_id": 7, "producer_epoch": 2, "base_sequence": 11}
    log.append(("z", "0"))
    log.append(("a", "1"), ("b", "1"), ("c", "1"), ("b", "2"), ("a", "2"), ("d", "1"), ("d", "2"), **details)
    log.append(("d", "3"))
    log.roll()
    before = log.batches()[1][0]
    log.compact()
    header, batch = log.batches()[1]
    check_crc(header, batch)
    # Neither the first nor the last record is left, and still first and last offset and sequence are the same.
    assert [record.offset for record in decode_batch(batch)] == [3, 4, 5]
    assert (header.base_offset, header.last_offset, header.last_sequence) == (1, 7, 17)
    changing = {"batch_length": 0, "crc": 0, "record_count": 0, "max_timestamp_ms": 0}
    assert header._replace(**changing) == before._replace(**changing)
    assert (header.record_count, header.max_timestamp_ms) == (3, 1_004)


def test_append_time_is_kept() -> None:
    log = new_log()
    batch = batch_at(0, ("a", "1"), ("a", "2"), ("b", "1"))
    log.append_batch(b"".join(placed(memoryview(batch), Offset(0), LeaderEpoch(3), 5_000_000)))
    log.roll()
    log.compact()
    [(header, _)] = log.batches()
    assert (header.timestamp_type, header.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, 5_000_000)
    assert [record.timestamp_ms for record in log.records()] == [5_000_000, 5_000_000]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(codec: Codec) -> None:
    log = new_log()
    whole = log.append(("a", "1"), ("b", "x" * 1_000), codec=codec)
    log.append(("c", "1"), ("c", "2"), codec=codec)
    log.roll()
    log.compact()
    assert log.batches()[0][1] == whole


def test_a_segment_that_loses_nothing_is_not_replaced() -> None:
    log = new_log()
    log.segment([("a", "1"), ("b", "1")])
    before = log.files()
    result = log.compact()
    assert result.groups == ()
    assert (result.end_offset, result.bytes_read, result.bytes_kept) == (
        2,
        len(before[f"{0:020d}.log"]),
    ) * 1 + (len(before[f"{0:020d}.log"]),)
    assert log.files() == before


def test_control_and_transactional_batches_are_kept_as_they_are_and_outdate_nothing() -> None:
    log = new_log()
    log.append(("a", "1"), ("a", "2"))
    inside = log.append(("a", "3"), ("a", "4"), transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    marker = log.append_batch(control_batch(log.next_offset))
    log.roll()
    log.compact()
    assert [batch for _, batch in log.batches()[1:]] == [inside, marker]
    assert log.pairs()[:3] == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]


def control_batch(offset: int) -> bytes:
    """A commit marker."""
    header = read_header(batch_at(offset, ("", "")))
    columns = RecordColumns([offset], [1_000], [b"\x00\x00\x00\x01"], [b"\x00" * 6], [()])
    return rebuild_batch(header._replace(attributes=0x30, producer_id=1, producer_epoch=0), columns)


def test_the_last_batch_of_an_active_producer_stays_even_without_records() -> None:
    log = new_log()
    for sequence, producer_id in ((0, 7), (2, 7), (0, 8)):
        log.append(
            ("a", "1"),
            ("b", "1"),
            producer_id=producer_id,
            producer_epoch=5,
            base_sequence=sequence,
            codec=Codec.ZSTD,
        )
    log.append(("a", "2"), ("b", "2"))
    log.roll()
    log.compact(active_producers={7: 3})
    (empty, batch), (rest, _) = log.batches()
    check_crc(empty, batch)
    assert (empty.base_offset, empty.last_offset, empty.record_count, empty.size_bytes) == (2, 3, 0, 61)
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence, empty.last_sequence) == (7, 5, 2, 3)
    assert (empty.leader_epoch, empty.max_timestamp_ms, empty.base_timestamp_ms) == (3, 1_001, -1)
    assert decode_batch(batch) == []
    assert rest.base_offset == 6

    # A cleaning later it stays as it is, and goes when the producer is forgotten.
    log.segment([("x", "1")])
    log.compact(active_producers={7: 3})
    assert log.batches()[0][1] == batch
    log.segment([("x", "2")])
    log.compact()
    assert [header.base_offset for header, _ in log.batches()] == [6, 9]


def test_the_last_batch_of_a_cleaning_stays_even_without_records_so_that_followers_can_reach_the_end() -> None:
    log = new_log()
    log.segment([("a", "1")], [(None, "x"), (None, "y")])
    log.compact()
    assert [(header.base_offset, header.last_offset, header.record_count) for header, _ in log.batches()] == [
        (0, 0, 1),
        (1, 2, 0),
    ]
    log.segment([("b", "1")])
    log.compact()
    assert [header.base_offset for header, _ in log.batches()] == [0, 3]


def test_a_batch_that_cannot_be_decoded_though_its_checksum_is_right_is_kept() -> None:
    log = new_log()
    log.append(("a", "1"))
    header = read_header(batch_at(1, ("a", "2"), codec=Codec.GZIP))
    nonsense = rebuild_batch(header._replace(attributes=0), RecordColumns([1], [0], [b"a"], [b"2"], [()]))
    poison = bytearray(nonsense)
    poison[22] |= Codec.GZIP
    poison[17:21] = crc_of(poison)
    log.append_batch(bytes(poison))
    log.append(("a", "3"))
    log.roll()
    result = log.compact()
    assert result.batches_unreadable == 1
    assert log.batches()[0][1] == bytes(poison)
    assert [header.base_offset for header, _ in log.batches()] == [1, 2]


def crc_of(batch: bytearray) -> bytes:
    from crc32c import crc32c

    return crc32c(memoryview(batch)[21:]).to_bytes(4, "big")


# --- segments ------------------------------------------------------------------------------------------------


def test_small_segments_are_merged_into_one_and_their_files_go() -> None:
    log = new_log()
    for number in range(5):
        log.segment([("a", str(number)), (f"k{number}", "1")])
    log.compact()
    assert log.pairs() == [
        (1, "k0", "1"),
        (3, "k1", "1"),
        (5, "k2", "1"),
        (7, "k3", "1"),
        (8, "a", "4"),
        (9, "k4", "1"),
    ]
    assert sorted(log.files()) == [
        f"{0:020d}.log",
        f"{10:020d}.index",
        f"{10:020d}.log",
        f"{10:020d}.timeindex",
    ]


def test_a_group_without_any_record_left_keeps_its_base_offset() -> None:
    log = new_log()
    log.segment([("a", "1")])
    log.segment([("b", "1"), ("a", "2")])
    log.segment([("b", "2")])
    sizes = [facts.size_bytes for facts in log.facts()]
    result = log.compact(replace(COMPACT, segment_bytes=sizes[0] + 1))
    assert [(facts.base_offset, facts.end_offset) for facts in log.facts()] == [(0, 1), (1, 3), (3, 4), (4, 4)]
    assert [(group.base_offset, group.size_bytes > 0) for group in result.groups] == [(0, False), (1, True)]
    assert log.files()[f"{0:020d}.log"] == b""
    assert log.pairs() == [(2, "a", "2"), (3, "b", "2")]


@pytest.mark.parametrize(
    ("config", "sizes", "expected"),
    [
        (LogConfig(segment_bytes=300), [100, 100, 100, 100], [3, 1]),
        (LogConfig(segment_bytes=300), [301, 100, 0, 200, 1], [1, 3, 1]),
        (LogConfig(segment_index_bytes=24, index_interval_bytes=100), [99, 99, 99], [2, 1]),
        (LogConfig(segment_index_bytes=12), [0, 0], [1, 1]),
        (LogConfig(), [], []),
    ],
)
def test_segments_are_grouped_as_far_as_log_and_index_fit(
    config: LogConfig, sizes: list[int], expected: list[int]
) -> None:
    segments = [facts(number, number + 1, size) for number, size in enumerate(sizes)]
    assert list(map(len, group_segments(segments, config))) == expected


def test_segments_are_grouped_as_far_as_offsets_fit_an_index() -> None:
    far = 0x7FFFFFFF
    segments = [facts(5, 6), facts(6, far + 6), facts(far + 6, far + 7)]
    assert list(map(len, group_segments(segments, LogConfig()))) == [2, 1]


# --- memory --------------------------------------------------------------------------------------------------

FEW_KEYS = 300
"""Bytes for an offset map of six keys."""


def test_what_does_not_fit_the_map_is_cleaned_next_time() -> None:
    log, whole = new_log(), new_log()
    for either in (log, whole):
        for number in range(30):
            either.append((f"k{number % 10}", str(number)), ("always", str(number)))
            if number % 4 == 3:
                either.roll()
    ends = []
    while log.plan() is not None:
        ends.append(log.compact(map_bytes_max=FEW_KEYS).end_offset)
        assert ends == sorted(set(ends))
    assert len(ends) > 3
    assert ends[0] % 8 == 2, "the first one ended inside a segment"
    whole.compact()
    assert log.pairs() == whole.pairs()


def test_a_batch_with_more_keys_than_the_map_holds_is_a_clear_error() -> None:
    log = new_log()
    log.segment([(f"k{number}", "1") for number in range(10)])
    before = log.files()
    with pytest.raises(OffsetMapTooSmall, match=r"offset 0 in data/orders-0 .* log\.cleaner\.dedupe\.buffer\.size"):
        log.clean(map_bytes_max=FEW_KEYS)
    assert log.files() == before


def test_progress_is_told_of_all_bytes_in_small_portions() -> None:
    log = new_log()
    for number in range(40):
        log.append((f"k{number % 30}", "x" * 50_000))
    log.roll()
    told: list[int] = []
    result = log.clean(on_progress=told.append)
    assert sum(told) >= 2 * result.bytes_read + result.bytes_kept
    assert max(told) <= (256 << 10) + 51_000


def test_a_batch_larger_than_the_buffer_is_read_whole() -> None:
    log = new_log()
    log.append(("a", "x" * 700_000), ("b", "1"))
    log.append(("a", "1"))
    log.append(("c", "y" * 300_000))
    log.roll()
    log.compact()
    assert [offset for offset, _, _ in log.pairs()] == [1, 2, 3]


# --- what goes wrong -----------------------------------------------------------------------------------------


def two_segments() -> CompactedLog:
    """The first is clean, the second dirty; the cleaning rewrites both."""
    log = new_log()
    log.segment([("a", "1"), ("b", "1")], [("c", "1")])
    log.compact()
    log.segment([("a", "2"), ("b", "2")], [("d", "1")])
    return log


@pytest.mark.parametrize("base", [0, 3])
def test_any_flipped_bit_is_corruption_and_nothing_is_replaced(base: int) -> None:
    path = f"data/orders-0/{base:020d}.log"
    size = len(two_segments().disk.read_file(path))
    unnoticed = []
    named = set()
    for bit in range(size * 8):
        log = two_segments()
        assert isinstance(log.disk, MemoryDisk)
        data = bytearray(log.disk.read_file(path))
        data[bit // 8] ^= 1 << bit % 8
        plan = log.plan()
        assert plan is not None
        log.disk.write_file(path, bytes(data))
        before = log.files()
        try:
            clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None)
            unnoticed.append(bit)
        except Corruption as error:
            named.add(error.file)
            assert log.files() == before
    assert named == {path}
    # Neither the leader epoch nor a base offset that still is in order is covered by the checksum: readers compare
    # both with what the log knows of itself.
    header_bits = {bit // 8 for bit in unnoticed}
    epochs = {start + byte for start in starts_of(path) for byte in range(12, 16)}
    offsets = {start + byte for start in starts_of(path) for byte in range(8)}
    assert header_bits <= epochs | offsets


def starts_of(path: str) -> list[int]:
    data = two_segments().disk.read_file(path)
    starts = [0]
    while (end := starts[-1] + read_header(data, starts[-1]).size_bytes) < len(data):
        starts.append(end)
    return starts


def test_a_file_that_is_too_short_is_corruption() -> None:
    log = two_segments()
    plan = log.plan()
    assert plan is not None
    log.disk.open(plan.segments[1].path, create=False).truncate(100)
    with pytest.raises(Corruption, match="bytes are missing"):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None)


@pytest.mark.parametrize("cut_bytes", [1, 30, 65])
def test_a_segment_that_ends_inside_a_batch_is_corruption(cut_bytes: int) -> None:
    log = two_segments()
    assert isinstance(log.disk, MemoryDisk)
    plan = log.plan()
    assert plan is not None
    torn = plan.segments[1]
    log.disk.write_file(torn.path, log.disk.read_file(torn.path)[:-cut_bytes])
    before = log.files()
    plan = replace(plan, segments=(plan.segments[0], replace(torn, size_bytes=torn.size_bytes - cut_bytes)))
    with pytest.raises(Corruption):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None)
    assert log.files() == before


def test_a_segment_that_was_deleted_meanwhile_aborts_the_cleaning() -> None:
    log = two_segments()
    plan = log.plan()
    assert plan is not None
    log.disk.remove(plan.segments[1].path)
    with pytest.raises(CleaningAborted, match="is not there any more"):
        clean(log.disk, log.directory, plan, COMPACT, 0, MAP_BYTES, {}, lambda _: None)


def test_the_caller_may_abort_at_any_moment_and_no_file_is_left() -> None:
    calls = 0
    counting = Counting()
    two_segments().clean(on_progress=counting)
    for stop_at in range(1, counting.calls + 1):
        log = two_segments()
        before = log.files()
        with pytest.raises(CleaningAborted, match="enough"):
            log.clean(on_progress=Counting(stop_at))
        assert log.files() == before
        calls += 1
    assert calls >= 4


@dataclass
class Counting:
    stop_at: int = 0
    calls: int = field(default=0, init=False)

    def __call__(self, _: int) -> None:
        self.calls += 1
        if self.calls == self.stop_at:
            raise CleaningAborted("enough")


@pytest.mark.parametrize("fails", ["fails_writes", "fails_next_sync"])
def test_a_disk_that_fails_leaves_the_log_as_it_was(fails: str) -> None:
    log = two_segments()
    before = log.files()
    setattr(log.disk, fails, True)
    with pytest.raises(OSError, match=r"device|error"):
        log.clean()
    assert log.files() == before


def test_a_file_of_an_earlier_cleaning_is_overwritten() -> None:
    log = two_segments()
    assert isinstance(log.disk, MemoryDisk)
    log.disk.write_file(f"data/orders-0/{0:020d}.log.cleaned", b"left behind" * 1_000)
    log.compact()
    assert log.pairs() == [(2, "c", "1"), (3, "a", "2"), (4, "b", "2"), (5, "d", "1")]


def test_a_result_fits_only_the_log_it_was_made_of() -> None:
    log = two_segments()
    result = log.clean()
    segments = log.facts()
    assert result.fits(segments)
    assert not result.fits(segments[1:]), "retention has dropped the first segment"
    assert not result.fits(segments[:1])
    assert not result.fits(segments[:2]), "a truncation has made a replaced segment the active one"
    assert not result.fits([segments[0], replace(segments[1], size_bytes=1), segments[2]])
    before = set(log.files())
    discard(log.disk, result)
    assert before - set(log.files()) == {f"{0:020d}.log.cleaned"}


# --- crashes -------------------------------------------------------------------------------------------------


def log_whose_second_group_drops_a_tombstone(disk: SimDisk) -> CompactedLog:
    """The first group loses the old value of a key, the second the tombstone above it, whose time is over."""
    log = CompactedLog(disk)
    log.segment([("a", "1"), ("b", "1"), ("c", "1")])
    log.segment([("b", "2"), ("d", "1")])
    log.segment([("a", None), ("e", "1")], [("d", "2")])
    log.compact(TWO_GROUPS, now_ms=NOW_MS)
    # The checkpoint that says how far the log is clean was lost, and the first segment restored: all is dirty again.
    log.cleaned_end = Offset(0)
    disk.write_file(log.facts()[0].path, batch_at(0, ("a", "1"), ("b", "1"), ("c", "1")))
    log.append(("f", "1"))
    return log


TWO_GROUPS = replace(COMPACT, segment_bytes=200)


def test_a_crash_anywhere_in_a_cleaning_of_several_groups_loses_nothing_and_brings_nothing_back() -> None:
    disk = SimDisk()
    rehearsal = log_whose_second_group_drops_a_tombstone(disk)
    begun_at = disk.points
    expected = view(rehearsal.pairs())
    result = rehearsal.compact(TWO_GROUPS, now_ms=2 * NOW_MS)
    assert len(result.groups) >= 2
    assert (5, "a", None) not in rehearsal.pairs()
    assert view(rehearsal.pairs()) == expected
    outcomes, crashes = set(), 0
    for point in range(begun_at + 1, disk.points + 1):
        disk = SimDisk()
        log = log_whose_second_group_drops_a_tombstone(disk)
        disk.stop_at = point
        with pytest.raises(PowerFailure):
            log.compact(TWO_GROUPS, now_ms=2 * NOW_MS)
        for mode in CrashMode:
            for seed in range(10):
                log.disk = crashed = disk.clone()
                crashed.crash(mode, Random(seed))
                complete_swaps(crashed, log.directory)
                assert view(log.pairs()) == expected
                outcomes.add(tuple(log.pairs()))
                crashes += 1
    print(f"{crashes} crashes of a cleaning: {len(outcomes)} different logs after them, all of them right")
    assert crashes >= 500
    assert len(outcomes) >= 3, "nothing, the first group, and both"


# --- against a plain model -----------------------------------------------------------------------------------


@dataclass
class ModelBatch:
    records: list[tuple[int, str | None, str | None]]
    end_offset: int
    horizon_ms: int | None = None


@dataclass
class Model:
    """The rules again, over lists, and what a reader of the whole log has to end up with."""

    batches: list[ModelBatch] = field(default_factory=list)
    everything: list[tuple[int, str | None, str | None]] = field(default_factory=list)
    first_met_ms: dict[int, int] = field(default_factory=dict)
    """By offset of a tombstone: when a cleaning first kept it."""

    def append(self, offset: int, pairs: list[Pair]) -> None:
        records = [(offset + index, key, value) for index, (key, value) in enumerate(pairs)]
        self.batches.append(ModelBatch(records, offset + len(pairs)))
        self.everything += records

    def clean(self, end: int, now_ms: int, retention_ms: int, went: set[int]) -> None:
        """`went` are the offsets that the real cleaning dropped.

        When the map was full in the midst of a batch, some keys of that batch have outdated records all the same.
        """
        below = [batch for batch in self.batches if batch.end_offset <= end]
        partly = next((batch for batch in self.batches if batch.end_offset > end), ModelBatch([], 0))
        partly_known = {key for _, key, _ in partly.records}
        newest = {key: offset for batch in below for offset, key, _ in batch.records}
        for batch in below:
            kept: list[tuple[int, str | None, str | None]] = [
                (offset, key, value)
                for offset, key, value in batch.records
                if key is not None and newest[key] == offset and not (key in partly_known and offset in went)
            ]
            if any(value is None for _, _, value in kept):
                if batch.horizon_ms is None:
                    batch.horizon_ms = now_ms + retention_ms
                elif batch.horizon_ms <= now_ms:
                    kept = [record for record in kept if record[2] is not None]
            batch.records = kept
            for offset, _, value in kept:
                if value is None:
                    self.first_met_ms.setdefault(offset, now_ms)

    @property
    def records(self) -> list[tuple[int, str | None, str | None]]:
        return [record for batch in self.batches for record in batch.records]


def view(records: list[tuple[int, str | None, str | None]]) -> dict[str, tuple[int, str]]:
    """What somebody who reads all of it knows in the end: of each key that was not deleted, offset and value."""
    known: dict[str, tuple[int, str]] = {}
    for offset, key, value in records:
        if key is not None and value is not None:
            known[key] = offset, value
        elif key is not None:
            known.pop(key, None)
    return known


keys = st.sampled_from(["a", "b", "c", "d", "e", "long key " * 20, "", None])
values = st.sampled_from(["1", "2", "", None, None])
appends = st.tuples(
    st.just("append"), st.lists(st.tuples(keys, values), min_size=1, max_size=6), st.sampled_from(CODECS)
)
rolls = st.just(("roll",))
cleanings = st.tuples(
    st.just("clean"), st.sampled_from([0, 1, 600, 1_000, 5_000]), st.sampled_from([100, 250, 400, 1_200, MAP_BYTES])
)


@settings(max_examples=400, deadline=None)
@given(
    steps=st.lists(st.one_of(appends, appends, rolls, cleanings), max_size=40),
    segment_bytes=st.sampled_from([200, 500, 1 << 20]),
)
def test_whatever_is_written_and_cleaned_when_the_log_equals_a_plain_model(
    steps: list[tuple[Any, ...]], segment_bytes: int
) -> None:
    config = replace(COMPACT, segment_bytes=segment_bytes)
    log, model, now_ms = new_log(), Model(), NOW_MS
    for step in steps:
        match step:
            case ("append", pairs, codec):
                model.append(log.next_offset, pairs)
                log.append(*pairs, codec=codec)
            case ("roll",):
                log.roll()
            case _:
                _, passed_ms, map_bytes_max = step
                now_ms += passed_ms
                model_cleans(model, log, config, now_ms, map_bytes_max)
    assert log.pairs() == model.records
    assert view(log.pairs()) == view(model.everything)


def model_cleans(model: Model, log: CompactedLog, config: LogConfig, now_ms: int, map_bytes_max: int) -> None:
    plan = log.plan(config, now_ms)
    if plan is None:
        return
    before = log.pairs()
    try:
        result = log.compact(config, now_ms, map_bytes_max)
    except OffsetMapTooSmall:
        assert log.pairs() == before
        return
    assert plan.dirty_offset < result.end_offset <= plan.end_offset
    after = log.pairs()
    went = {offset for offset, _, _ in before} - {offset for offset, _, _ in after}
    is_partial = result.end_offset < plan.end_offset
    model.clean(result.end_offset, now_ms, config.delete_retention_ms, went if is_partial else set())
    assert after == model.records
    assert set(after) <= set(before)
    assert all(earlier < later for (earlier, _, _), (later, _, _) in pairwise(after))
    below = [key for offset, key, _ in after if offset < result.end_offset]
    assert len(below) == len(set(below)), "a key stands twice in the clean part"
    keys_by_offset = {offset: key for offset, key, _ in before}
    for offset, _, value in set(before) - set(after):
        # A tombstone that went was either outdated or had been kept for its time.
        newer = any(key == keys_by_offset[offset] for later, key, _ in before if later > offset)
        met_ms = model.first_met_ms.get(offset)
        assert value is not None or newer or met_ms is None or met_ms + config.delete_retention_ms <= now_ms
    for header, batch in log.batches():
        check_crc(header, batch)
