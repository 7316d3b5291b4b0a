"""Fetched record batches become chunks in Arrow's format."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.client.bulk import arrow_chunks
from kraft.client.bulk.arrow_chunks import ArrowChunk
from kraft.client.bulk.range_reader import FetchedBatches
from kraft.client.sans_io.batches import decode_columns
from kraft.log.format.arrow_columns import WantedColumns
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import assign_offsets, build_batch, split, with_assigned_offsets
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, InvalidBatch, Refusal
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition
from tests.support.arrow_columns import lists_of, offsets_of

ORDERS = TopicPartition("orders", 0)
ALL = WantedColumns()
END = 1 << 40
LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT = 23, 57
"""Positions in a batch."""
MARKER = Record(0, 0, bytes.fromhex("00000000"), bytes(6))


def records(offset: int, count: int, value: bytes = b"v") -> list[Record]:
    return [Record(offset + at, 1_000 + at, None, value) for at in range(count)]


def batch(offset: int, count: int, value: bytes = b"v", codec: Codec = Codec.NONE) -> bytes:
    return build_batch(records(offset, count, value), codec, base_offset=offset)


def fetched(
    *batches: bytes, aborted: Sequence[AbortedTransaction] = (), before: bytes = b"", more_follow: bool = True
) -> FetchedBatches:
    data, begins = before, []
    for each in batches:
        begins.append(len(data))
        data += each
    headers = [header for header, _ in split(b"".join(batches))]
    return FetchedBatches(
        data=data,
        batches=list(zip(headers, begins, strict=True)),
        aborted=tuple(aborted),
        next_offset=headers[-1].next_offset,
        more_follow=more_follow,
    )


def chunks(*responses: FetchedBatches, start: int = 0, end: int = END, wanted: WantedColumns = ALL) -> list[ArrowChunk]:
    return list(arrow_chunks.arrow_chunks(ORDERS, responses, start, end, wanted))


def offsets(found: Sequence[ArrowChunk]) -> list[int]:
    return [offset for each in found for offset in offsets_of(each)]


def test_small_batches_of_several_responses_become_one_chunk() -> None:
    [chunk] = chunks(fetched(batch(0, 2), batch(2, 3), before=b"header"), fetched(batch(5, 1, codec=Codec.LZ4)))
    assert offsets_of(chunk) == [0, 1, 2, 3, 4, 5]
    assert (chunk.partition, chunk.next_offset, chunk.columns.record_count) == (ORDERS, 6, 6)


def test_records_do_not_wait_for_a_response_that_may_take_long() -> None:
    nothing = FetchedBatches(data=b"", batches=[], aborted=(), next_offset=2)
    found = arrow_chunks.arrow_chunks(ORDERS, iter([fetched(batch(0, 2)), nothing, unexpected()]), 0, END, ALL)
    assert offsets_of(next(found)) == [0, 1]
    found = arrow_chunks.arrow_chunks(ORDERS, [fetched(batch(0, 2), more_follow=False), unexpected()], 0, END, ALL)
    assert offsets_of(next(found)) == [0, 1]


def unexpected() -> FetchedBatches:
    """A response that must not be looked at."""
    return FetchedBatches(data=b"", batches=None, aborted=(), next_offset=9)  # type: ignore[arg-type]  # It fails.


def test_exactly_the_range_is_decoded_also_where_it_cuts_batches() -> None:
    response = fetched(batch(0, 5), batch(5, 5, codec=Codec.ZSTD), batch(10, 5))
    assert offsets(chunks(response, start=3, end=7)) == [3, 4, 5, 6]
    assert [each.next_offset for each in chunks(response, start=3, end=7)] == [7]
    assert chunks(response, start=20, end=30) == []


def test_a_chunk_is_bounded_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_chunks, "CHUNK_RECORDS_MAX", 4)
    found = chunks(fetched(batch(0, 3), batch(3, 9), batch(12, 1)))
    assert [each.columns.record_count for each in found] == [4, 4, 4, 1]
    assert [each.next_offset for each in found] == [4, 8, 12, 13]
    assert offsets(found) == list(range(13))


def test_a_chunk_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_chunks, "CHUNK_BYTES_MAX", 25)
    found = chunks(fetched(batch(0, 7, b"x" * 10), batch(7, 1, b"y" * 99), batch(8, 1)))
    assert [each.columns.record_count for each in found] == [3, 3, 2, 1]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_large_compressed_batch_is_decoded_in_parts(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_chunks, "PART_BYTES", 70_000)
    large = [Record(at, 0, b"%d" % at, b"v" * (at % 7) * 1_000) for at in range(300)]
    large[100] = Record(100, 0, None, bytes(range(256)) * 2_000)
    found = chunks(fetched(build_batch(large, codec)))
    assert [value for each in found for value in lists_of(each.columns).values or ()] == [each.value for each in large]


def test_a_batch_that_decompresses_to_many_megabytes_takes_memory_for_a_part_of_it() -> None:
    bomb = fetched(batch(0, 500, bytes(100_000), codec=Codec.GZIP))
    assert len(bomb.data) < 1 << 20
    tracemalloc.start()
    try:
        found = sum(each.columns.record_count for each in arrow_chunks.arrow_chunks(ORDERS, [bomb], 0, END, ALL))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 500
    assert peak_bytes < 6 * arrow_chunks.PART_BYTES < 500 * 100_000


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_values_that_are_not_wanted_are_not_kept_in_memory(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_chunks, "PART_BYTES", 100_000)
    monkeypatch.setattr(arrow_chunks, "HELD_BYTES_MAX", 200_000)
    kept = [Record(at, 0, b"a key of some bytes", bytes(10_000)) for at in range(100)]
    batches = [fetched(build_batch(kept[at : at + 50], codec, base_offset=at)) for at in (0, 50)]
    found = chunks(*batches, wanted=WantedColumns(values=False, headers=False))
    assert [key for each in found for key in lists_of(each.columns).keys or ()] == [each.key for each in kept]
    assert [each.next_offset for each in found][-1] == 100
    held = [sum({id(data): len(data) for data in each.columns.data}.values()) for each in found]
    assert max(held) < 600_000, "a response, or a limit and a part"


def test_records_before_the_range_are_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_chunks, "PART_BYTES", 100_000)
    monkeypatch.setattr(arrow_chunks, "HELD_BYTES_MAX", 200_000)
    large = [Record(at, 0, None, bytes(10_000)) for at in range(100)]
    found = chunks(fetched(build_batch(large, Codec.GZIP)), start=99)
    assert offsets(found) == [99]
    assert sum(map(len, found[0].columns.data)) < 600_000


def test_control_batches_and_those_of_aborted_transactions_are_passed_over() -> None:
    kept = build_batch(records(0, 2), producer_id=7, transactional=True, base_offset=0)
    aborted = build_batch(records(2, 2), producer_id=8, transactional=True, base_offset=2)
    marker = build_batch([MARKER], producer_id=8, transactional=True, control=True, base_offset=4)
    response = fetched(kept, aborted, marker, aborted=[AbortedTransaction(producer_id=8, first_offset=2)])
    found = chunks(response)
    assert offsets(found) == [0, 1]
    assert found[-1].next_offset == 5
    assert chunks(response, start=2) == []


def test_an_abort_that_ends_before_the_range_does_not_hide_what_its_producer_commits_later() -> None:
    aborted = build_batch(records(0, 2), producer_id=8, transactional=True, base_offset=0)
    marker = build_batch([MARKER], producer_id=8, transactional=True, control=True, base_offset=2)
    kept = build_batch(records(3, 2), producer_id=8, transactional=True, base_offset=3)
    response = fetched(aborted, marker, kept, aborted=[AbortedTransaction(producer_id=8, first_offset=0)])
    assert offsets(chunks(response, start=3)) == [3, 4]


def test_records_of_either_timestamp_type_come_in_chunks_of_their_own() -> None:
    head, payload = with_assigned_offsets(memoryview(batch(2, 2)), Offset(2), LeaderEpoch(0), 5_000)
    found = chunks(fetched(batch(0, 2), bytes(head) + payload, batch(4, 1)))
    assert [int(each.timestamp_type) for each in found] == [0, 1, 0]
    times = [lists_of(each.columns).timestamps_us for each in found]
    assert times == [[1_000_000, 1_001_000], [5_000_000] * 2, [1_000_000]]


def test_records_before_a_corrupt_batch_come_before_the_error() -> None:
    corrupt = bytearray(batch(2, 2))
    corrupt[-1] ^= 1
    found = arrow_chunks.arrow_chunks(ORDERS, [fetched(batch(0, 2), bytes(corrupt))], 0, END, ALL)
    assert offsets_of(next(found)) == [0, 1]
    with pytest.raises(InvalidBatch, match="orders-0 at offset 2: the checksum of a batch is"):
        next(found)


def test_without_the_checksum_other_checks_still_hold() -> None:
    cut = bytearray(batch(0, 2))
    cut[61] = 0x7E
    unchecked = arrow_chunks.arrow_chunks(ORDERS, [fetched(bytes(cut))], 0, END, ALL, check_crcs=False)
    with pytest.raises(InvalidBatch, match="orders-0 at offset 0"):
        list(unchecked)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(
    ("claimed", "problem"), [(4, "end in the middle of one"), (2, "bytes follow the last record of a batch")]
)
def test_a_batch_with_fewer_or_more_records_than_it_claims_is_corrupt(codec: Codec, claimed: int, problem: str) -> None:
    whole = bytearray(build_batch(records(0, 3, b"v" * 20), codec))
    whole[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = (9).to_bytes(4)
    whole[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = claimed.to_bytes(4)
    response = [fetched(bytes(whole))]
    with pytest.raises(InvalidBatch, match=f"orders-0 at offset 0: .*{problem}"):
        list(arrow_chunks.arrow_chunks(ORDERS, response, 0, END, ALL, check_crcs=False))


def test_records_fetched_before_an_error_come_before_it() -> None:
    def responses() -> Iterator[FetchedBatches]:
        yield fetched(batch(0, 2))
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")

    found = arrow_chunks.arrow_chunks(ORDERS, responses(), 0, END, ALL)
    assert offsets_of(next(found)) == [0, 1]
    with pytest.raises(Refusal, match="gone"):
        next(found)


BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.none() | st.binary(max_size=30), st.binary(max_size=30)), min_size=1, max_size=8),
        st.sampled_from(Codec),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@given(BATCHES, st.integers(0, 60), st.integers(0, 60), st.integers(1, 9))
def test_the_records_are_those_of_the_ordinary_decoder(
    given_batches: list[tuple[list[tuple[bytes | None, bytes]], Codec, int]], start: int, end: int, records_max: int
) -> None:
    batches: list[bytes] = []
    offset = 0
    for fields, codec, gap in given_batches:
        packed = bytearray(build_batch([Record(0, 5, key, value) for key, value in fields], codec))
        assign_offsets(packed, 0, Offset(offset), LeaderEpoch(3))
        batches.append(bytes(packed))
        offset += len(fields) + gap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_chunks, "CHUNK_RECORDS_MAX", records_max)
        found = chunks(fetched(*batches), start=start, end=end)
    rows: list[tuple[object, ...]] = []
    for each in found:
        columns: list[Any] = list(lists_of(each.columns)[:4])
        rows += zip(*columns, strict=True)
    ordinary = decode_columns(ORDERS, b"".join(batches), start, end)
    assert rows == [
        (record.offset, record.timestamp_ms * 1_000, record.key, record.value)
        for part in ordinary
        for record in part.columns.to_records()
    ]
