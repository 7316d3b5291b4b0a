"""A scan of records, in parts of any size, finds the same as decoding them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.log.format.record_codec import Record, RecordSkim, decode_columns, encode_records, encode_varint
from kraft.model.errors import InvalidBatch

NOW_MS = 1_700_000_000_000
FAR_MS = 2**62

RECORDS = [
    Record(0, NOW_MS, b"key", b"value", (("trace", b"1"), ("é", None))),
    Record(1, NOW_MS - 50, None, b""),
    Record(2, NOW_MS + 50, b"", None),
    Record(3, -1, None, b"x" * 200),
]
PAYLOAD = encode_records(RECORDS, NOW_MS)


def skimmed(
    payload: bytes, count: int, steps: int = 1_000, earliest_ms: int = -FAR_MS, latest_ms: int = FAR_MS, wrong: int = 99
) -> RecordSkim:
    skim = RecordSkim(payload, count, NOW_MS, earliest_ms, latest_ms, wrong)
    while not skim.go_on(steps):
        pass
    return skim


@pytest.mark.parametrize("steps", [1, 2, 3, 100])
def test_it_finds_keys_that_are_missing_and_times_out_of_bounds(steps: int) -> None:
    skim = skimmed(PAYLOAD, len(RECORDS), steps, earliest_ms=NOW_MS - 10, latest_ms=NOW_MS + 10)
    assert (skim.keyless, skim.early, skim.late) == ([1, 3], [1], [2])
    assert (skim.max_timestamp_ms, skim.earliest_found_ms) == (NOW_MS + 50, NOW_MS - 50)


def test_no_more_records_are_named_than_requested() -> None:
    payload = encode_records([Record(at, NOW_MS + at, None, None) for at in range(100)], NOW_MS)
    skim = skimmed(payload, 100, latest_ms=NOW_MS, wrong=7)
    assert (skim.keyless, skim.late) == (list(range(7)), list(range(1, 8)))
    assert skim.max_timestamp_ms == NOW_MS + 99


def test_a_record_of_many_headers_is_looked_through_in_parts() -> None:
    headers = tuple((f"name {at}", b"value") for at in range(1_000))
    payload = encode_records([Record(0, NOW_MS, b"k", b"v", headers), RECORDS[0]], NOW_MS)
    skim = RecordSkim(payload, 2, NOW_MS, -FAR_MS, FAR_MS, 1)
    turns = 1
    while not skim.go_on(10):
        turns += 1
    assert turns > 100


@pytest.mark.parametrize("letter", ["a", "é", "€", "\U0001f511"])
def test_a_long_name_of_a_header_is_looked_at_in_parts(letter: str) -> None:
    for shift in range(4):
        name = "x" * shift + letter * 200_000
        payload = encode_records([Record(0, NOW_MS, b"k", b"v", ((name, b""), (name, None)))], NOW_MS)
        skim, turns = RecordSkim(payload, 1, NOW_MS, -FAR_MS, FAR_MS, 1), 1
        while not skim.go_on(1):
            turns += 1
        assert turns >= 2 * len(name.encode()) // (1 << 16)
        broken = bytearray(payload)
        broken[len(payload) // 4 : len(payload) // 4 + 6] = b"\x80" * 6
        with pytest.raises(InvalidBatch, match="not UTF-8"):
            skimmed(bytes(broken), 1)


@pytest.mark.parametrize("cut", range(1, len(PAYLOAD)))
def test_a_payload_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(InvalidBatch):
        skimmed(PAYLOAD[:cut], len(RECORDS))


@settings(max_examples=500, deadline=None)
@given(
    change=st.tuples(st.integers(0, len(PAYLOAD) - 1), st.binary(min_size=1, max_size=3)),
    count=st.integers(0, 6),
    steps=st.integers(1, 5),
)
def test_it_takes_what_the_decoder_takes_and_nothing_else(change: tuple[int, bytes], count: int, steps: int) -> None:
    position, patch = change
    compare(PAYLOAD[:position] + patch + PAYLOAD[position + len(patch) :], count, steps)


@settings(max_examples=500, deadline=None)
@given(payload=st.binary(max_size=60), count=st.integers(0, 4), steps=st.integers(1, 5))
def test_it_agrees_with_the_decoder_on_any_bytes(payload: bytes, count: int, steps: int) -> None:
    compare(payload, count, steps)


def test_it_agrees_with_the_decoder_on_varints_of_any_length() -> None:
    for number in (2**31 - 1, 2**31, 2**63 - 1, -(2**31)):
        body = b"\0" + encode_varint(number) + encode_varint(0) + b"\1\1\0"
        compare(encode_varint(len(body)) + body, 1, 1)
        body = b"\0\0\0" + encode_varint(number) + b"\1\0"
        compare(encode_varint(len(body)) + body, 1, 1)


def compare(payload: bytes, count: int, steps: int) -> None:
    columns = skim = None
    with contextlib.suppress(InvalidBatch):
        columns = decode_columns(payload, count, 0, NOW_MS)
    with contextlib.suppress(InvalidBatch):
        skim = skimmed(payload, count, steps)
    # A producer's batch has no holes, so a scan refuses them.
    assert (skim is not None) == (columns is not None and columns.offsets == list(range(count)))
    if columns is not None and skim is not None:
        assert skim.keyless == [at for at, key in enumerate(columns.keys) if key is None]
        assert skim.max_timestamp_ms == max(columns.timestamps_ms, default=-(2**63))
