from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.format.compression import PIECE_BYTES, Codec
from kraft.log.format.record_batch import _assemble, build_batch, iter_records
from kraft.log.format.record_codec import Record
from kraft.log.format.record_stream import RECORD_BYTES_MAX, RECORD_HEADERS_MAX, UnpackedRecords, unpack_records
from kraft.model.errors import ErrorCode


def unpacked(batches: bytes, start: int = 0, records_max: int = 10**9, bytes_max: int = 10**9) -> UnpackedRecords:
    return counted(batches, start, records_max, bytes_max)[0]


def counted(batches: bytes, start: int, records_max: int, bytes_max: int) -> tuple[UnpackedRecords, int]:
    """Return the result, and the number of steps."""
    steps, taken = unpack_records(batches, start, records_max, bytes_max), 0
    while True:
        try:
            next(steps)
            taken += 1
        except StopIteration as end:
            result: UnpackedRecords = end.value
            return result, taken


def records_of(sizes: list[int]) -> list[Record]:
    return [
        Record(0, 1_000 + at, b"k", bytes(size), (("h", b"1"),) if size % 2 else ()) for at, size in enumerate(sizes)
    ]


SIZES = st.lists(
    st.sampled_from([0, 1, 100, PIECE_BYTES - 40, PIECE_BYTES + 3, 3 * PIECE_BYTES]), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SIZES, st.sampled_from(list(Codec))), min_size=1, max_size=4), st.data())
def test_repeated_calls_return_all_records_of_the_batches(
    shapes: list[tuple[list[int], Codec]], data: st.DataObject
) -> None:
    batches, end = b"", 0
    for sizes, codec in shapes:
        batches += build_batch(records_of(sizes), codec, base_offset=end)
        end += len(sizes)
    start = data.draw(st.integers(0, end - 1))
    expected = [record for record in iter_records(batches) if record.offset >= start]
    found: list[Record] = []
    while start < end:
        records_max, bytes_max = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4 * PIECE_BYTES))
        answer = unpacked(batches, start, records_max, bytes_max)
        assert answer.records
        assert len(answer.records) == 1 or sum(1 + len(each.headers) for each in answer.records) <= records_max
        assert len(answer.records) == 1 or sum(len(each.value or b"") for each in answer.records) <= bytes_max
        assert answer.next_offset > start
        found += answer.records
        start = answer.next_offset
    assert found == expected


def test_no_more_is_decompressed_than_up_to_the_last_returned_record() -> None:
    batch = build_batch([Record(0, 1, None, bytes(1_000)) for _ in range(20_000)], Codec.ZSTD)
    assert counted(batch, 0, 10, 1 << 20)[1] <= 2
    assert counted(batch, 19_990, 10, 1 << 20)[1] >= 100


def test_control_records_are_skipped_and_the_next_offset_is_behind_them() -> None:
    control = build_batch([Record(0, 1, b"\x00\x00\x00\x01", b"")], control=True)
    second = build_batch([Record(0, 1, None, b"a")], base_offset=1)
    assert [each.value for each in unpacked(control + second).records] == [b"a"]
    assert unpacked(control) == UnpackedRecords(records=[], next_offset=1)


def test_what_cannot_be_read_is_an_error_only_where_nothing_comes_before_it() -> None:
    broken = _assemble(
        payload=b"no gzip",
        attributes=int(Codec.GZIP),
        record_count=1,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        producer=(-1, -1, -1),
        base_offset=1,
        leader_epoch=-1,
    )
    first = build_batch([Record(0, 1, None, b"a")])
    answer = unpacked(first + broken)
    assert ([each.value for each in answer.records], answer.next_offset, answer.error) == ([b"a"], 1, None)
    error = unpacked(first + broken, start=1).error
    assert error is not None
    assert error.error_code is ErrorCode.CORRUPT_MESSAGE


def test_a_record_too_large_for_any_response_is_an_error_that_says_so() -> None:
    value = Random(1).randbytes(1 << 20) * (RECORD_BYTES_MAX >> 20)
    error = unpacked(build_batch([Record(0, 1, None, value)]), bytes_max=1).error
    assert error is not None
    assert error.error_code is ErrorCode.MESSAGE_TOO_LARGE
    answer = unpacked(build_batch([Record(0, 1, None, value[:-100])]), bytes_max=1)
    assert len(answer.records) == 1


def test_headers_count_as_records_and_a_record_with_too_many_is_not_returned() -> None:
    def with_headers(count: int) -> Record:
        return Record(0, 1, None, b"a", (("h", None),) * count)

    batch = build_batch([with_headers(3) for _ in range(9)])
    assert len(unpacked(batch, records_max=8).records) == 2
    assert len(unpacked(batch, records_max=9).records) == 2
    assert len(unpacked(batch, records_max=1).records) == 1
    many = build_batch([with_headers(0), with_headers(RECORD_HEADERS_MAX), with_headers(RECORD_HEADERS_MAX + 1)])
    assert [len(unpacked(many, start, records_max=10).records) for start in (0, 1)] == [1, 1]
    error = unpacked(many, 2).error
    assert error is not None
    assert error.error_code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", list(Codec))
def test_a_count_that_is_not_true_is_an_error(codec: Codec) -> None:
    batch = bytearray(build_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")], codec))
    batch[57:61] = (3).to_bytes(4, "big")
    batch[23:27] = (2).to_bytes(4, "big")
    answer = unpacked(bytes(batch))
    assert ([each.value for each in answer.records], answer.next_offset) == ([b"a", b"b"], 2)
    assert unpacked(bytes(batch), start=2).error is not None
