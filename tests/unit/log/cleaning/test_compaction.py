"""Compaction keeps exactly the right records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraft.log.cleaning.compaction import OffsetMapTooSmall, group_segments
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import (
    DELETE_HORIZON_BIT,
    BatchHeader,
    TimestampType,
    build_batch,
    check_crc,
    decode_batch,
    read_header,
    rebuild_batch,
    with_assigned_offsets,
)
from kraft.log.format.record_codec import Record, RecordColumns
from kraft.log.topic_config import NEVER, TopicConfig
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.log.compacted_log import (
    CODECS,
    COMPACT,
    NOW_MS,
    batch_at,
    facts,
    new_log,
)

# --- which records stay --------------------------------------------------------------------------------------


def test_the_newest_record_of_each_key_stays_where_it_was() -> None:
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
    log.append_batch(b"".join(with_assigned_offsets(memoryview(batch), Offset(0), LeaderEpoch(3), append_time_ms)))
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
    log.append_batch(b"".join(with_assigned_offsets(memoryview(batch), Offset(0), LeaderEpoch(3), 5_000_000)))
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
        (TopicConfig(segment_bytes=300), [100, 100, 100, 100], [3, 1]),
        (TopicConfig(segment_bytes=300), [301, 100, 0, 200, 1], [1, 3, 1]),
        (TopicConfig(segment_index_bytes=24, index_interval_bytes=100), [99, 99, 99], [2, 1]),
        (TopicConfig(segment_index_bytes=12), [0, 0], [1, 1]),
        (TopicConfig(), [], []),
    ],
)
def test_segments_are_grouped_as_far_as_log_and_index_fit(
    config: TopicConfig, sizes: list[int], expected: list[int]
) -> None:
    segments = [facts(number, number + 1, size) for number, size in enumerate(sizes)]
    assert list(map(len, group_segments(segments, config))) == expected


def test_segments_are_grouped_as_far_as_offsets_fit_an_index() -> None:
    far = 0x7FFFFFFF
    segments = [facts(5, 6), facts(6, far + 6), facts(far + 6, far + 7)]
    assert list(map(len, group_segments(segments, TopicConfig()))) == [2, 1]


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


def test_progress_is_reported_for_all_bytes_in_small_portions() -> None:
    log = new_log()
    for number in range(40):
        log.append((f"k{number % 30}", "x" * 50_000))
    log.roll()
    reported: list[int] = []
    result = log.clean(on_progress=reported.append)
    assert sum(reported) >= 2 * result.bytes_read + result.bytes_kept
    assert max(reported) <= (256 << 10) + 51_000


def test_a_batch_larger_than_the_buffer_is_read_whole() -> None:
    log = new_log()
    log.append(("a", "x" * 700_000), ("b", "1"))
    log.append(("a", "1"))
    log.append(("c", "y" * 300_000))
    log.roll()
    log.compact()
    assert [offset for offset, _, _ in log.pairs()] == [1, 2, 3]
