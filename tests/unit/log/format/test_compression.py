from __future__ import annotations

import gzip
import struct
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format import compression
from kraft.log.format.compression import (
    CODEC_OF_NAME,
    PIECE_BYTES,
    Codec,
    compress,
    decompress,
    decompressed_bytes_max,
    decompressed_pieces,
)
from kraft.model.errors import ErrorCode, InvalidBatch

TEXT = b"the quick brown fox jumps over the lazy dog " * 3000
PACKED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, 100, 32 << 10, (32 << 10) + 1, len(TEXT)])
def test_what_was_compressed_comes_back(codec: Codec, size: int) -> None:
    packed = compress(codec, TEXT[:size])
    assert decompress(codec, packed) == TEXT[:size]
    assert decompress(codec, memoryview(packed), bytes_max=size) == TEXT[:size]


@given(st.sampled_from(list(Codec)), st.binary(max_size=3000))
def test_any_data_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


def test_codecs_have_the_names_of_compression_type() -> None:
    assert sorted(CODEC_OF_NAME) == ["gzip", "lz4", "none", "snappy", "zstd"]
    assert CODEC_OF_NAME["lz4"] is Codec.LZ4


def test_snappy_is_framed_as_java_reads_it() -> None:
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed[:16] == bytes.fromhex("82534e4150505900 00000001 00000001")
    (block_size,) = struct.unpack(">i", framed[16:20])
    assert snappy.uncompress(framed[20 : 20 + block_size]) == TEXT[: 32 << 10]


def test_unframed_snappy_as_librdkafka_writes_it_is_read() -> None:
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT)) == TEXT


def test_lz4_frames_have_independent_blocks_and_no_content_checksum() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not info["block_linked"]
    assert not info["content_checksum"]


def test_what_other_encoders_write_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(TEXT)) == TEXT
    assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, content_checksum=True, block_linked=True)) == TEXT
    without_size = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(TEXT)
    assert decompress(Codec.ZSTD, without_size) == TEXT


def test_streams_back_to_back_are_one_payload() -> None:
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_above_the_bound_is_refused(codec: Codec) -> None:
    with pytest.raises(InvalidBatch, match="decompresses to more than") as refused:
        decompress(codec, compress(codec, TEXT), bytes_max=len(TEXT) - 1)
    assert refused.value.error_code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_before_it_is_decompressed(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidBatch, match="decompresses to more than"):
            decompress(codec, bomb, bytes_max=4 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", PACKED)
def test_the_most_compressible_of_sane_batches_passes(codec: Codec) -> None:
    zeros = bytes(16 << 20)
    assert decompress(codec, compress(codec, zeros)) == zeros


@pytest.mark.parametrize("codec", PACKED)
def test_above_a_floor_the_ratio_is_bounded(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_ALWAYS_ACCEPTED_BYTES", 1_000)
    packed = compress(codec, TEXT)
    ratio = len(TEXT) // len(packed)
    monkeypatch.setattr(compression, "_RATIO_MAX", ratio + 1)
    assert decompress(codec, packed) == TEXT
    monkeypatch.setattr(compression, "_RATIO_MAX", ratio - 1)
    with pytest.raises(InvalidBatch, match="decompresses to more than") as refused:
        decompress(codec, packed)
    assert refused.value.error_code is ErrorCode.INVALID_RECORD
    assert decompress(codec, compress(codec, TEXT[:1_000])) == TEXT[:1_000]


def test_only_zstd_can_exceed_the_ratio() -> None:
    zeros = bytes(20 << 20)
    for codec in PACKED:
        packed = compress(codec, zeros)
        if codec is not Codec.ZSTD:
            assert decompress(codec, packed) == zeros
            continue
        with pytest.raises(InvalidBatch, match=f"a batch of {len(packed)} bytes decompresses to more than 16777216"):
            decompress(codec, packed)


def test_no_payload_decompresses_to_more_than_the_overall_bound() -> None:
    assert decompressed_bytes_max(0) == decompressed_bytes_max(15_000) == 16 << 20
    assert decompressed_bytes_max(20_000) == 22_000_000
    assert decompressed_bytes_max(1 << 30) == compression.DECOMPRESSED_BYTES_MAX


def test_zstd_streams_of_the_largest_window_are_read() -> None:
    # Java's client does not write the size, and requests a window of 128 MiB at its highest level.
    stream = zstandard.ZstdCompressor(level=22).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size == 128 << 20
    tracemalloc.start()
    try:
        assert decompress(Codec.ZSTD, packed) == TEXT
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_what_zstd_lets_a_reader_skip_is_skipped() -> None:
    skippable = bytes.fromhex("502a4d18 03000000") + b"abc"
    packed = compress(Codec.ZSTD, TEXT)
    assert decompress(Codec.ZSTD, skippable + packed + skippable) == TEXT
    with pytest.raises(InvalidBatch, match="ends in the middle"):
        decompress(Codec.ZSTD, packed + skippable[:-1])


def test_a_zstd_frame_that_promises_more_than_it_holds_is_refused() -> None:
    frame = bytearray(compress(Codec.ZSTD, bytes(100_000)))
    assert zstandard.get_frame_parameters(bytes(frame)).content_size == 100_000
    position = frame.index((100_000).to_bytes(4, "little"))
    frame[position : position + 4] = (15 << 20).to_bytes(4, "little")
    with pytest.raises(InvalidBatch, match="more than its blocks can hold"):
        decompress(Codec.ZSTD, bytes(frame))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_a_payload_of_very_many_streams_is_refused(codec: Codec) -> None:
    # Reading each costs a copy of all that follow.
    one = compress(codec, b"x")
    assert decompress(codec, one * 64) == b"x" * 64
    with pytest.raises(InvalidBatch, match="holds more than 64"):
        decompress(codec, one * 65)


def test_streams_of_snappys_framing_follow_on_each_other_as_java_reads_them() -> None:
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")) == b"one two"
    with pytest.raises(InvalidBatch, match="ends in the header"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")[:12])


def test_very_many_small_blocks_are_read_in_no_time() -> None:
    header, nothing = compress(Codec.SNAPPY, b""), b"\x00\x00\x00\x01\x00"
    assert decompress(Codec.SNAPPY, header + nothing * 100_000) == b""
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, b"x") * 20_000) == b"x" * 20_000


def test_a_snappy_block_that_promises_too_much_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="decompresses to more than"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f\x00", bytes_max=1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_payload_cut_anywhere_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:500])
    for size in range(len(packed)):
        with pytest.raises(InvalidBatch):
            decompress(codec, packed[:size])


@given(st.sampled_from(PACKED), st.binary(max_size=200), st.integers(0, 60), st.integers(0, 255))
def test_any_bytes_end_in_invalid_batch(codec: Codec, garbage: bytes, position: int, byte: int) -> None:
    damaged = bytearray(compress(codec, TEXT[:300]))
    damaged[position % len(damaged)] = byte
    for data in (garbage, bytes(damaged), compress(codec, b"x")[:8] + garbage):
        try:
            assert len(decompress(codec, data, bytes_max=10_000)) <= 10_000
        except InvalidBatch:
            continue


# --- in pieces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 7])
def test_the_pieces_of_a_payload_are_all_of_it_and_none_is_large(codec: Codec, size: int) -> None:
    data = (TEXT * 6)[:size]
    pieces = list(decompressed_pieces(codec, compress(codec, data)))
    assert b"".join(pieces) == data
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_reading_the_first_piece_uses_little_more_memory_than_that(codec: Codec) -> None:
    packed = compress(codec, bytes(16 << 20))
    tracemalloc.start()
    try:
        assert len(next(decompressed_pieces(codec, packed))) <= PIECE_BYTES
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("codec", PACKED)
def test_pieces_end_with_an_error_where_the_payload_is_cut(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    with pytest.raises(InvalidBatch):
        list(decompressed_pieces(codec, packed[:-3]))


def test_pieces_are_bounded_as_the_whole_is() -> None:
    packed = compress(Codec.ZSTD, bytes(17 << 20))
    assert len(packed) < 16 << 10
    with pytest.raises(InvalidBatch, match="more than 16777216"):
        list(decompressed_pieces(Codec.ZSTD, packed))
