"""The compression codecs of a record batch, framed like those of Kafka's own clients.

The output is always bounded in bytes and in ratio: a payload that would decompress to more raises InvalidBatch before
more is allocated. Only this module uses the compression libraries.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import lz4.frame
import snappy
import zstandard

from kraft.model.errors import ErrorCode, InvalidBatch


class Codec(IntEnum):
    """Compression codec: the lowest three bits of a batch's attributes, or a value of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name in `compression.type`."""
        return self.name.lower()


CODEC_OF_NAME: Final = {codec.config_name: codec for codec in Codec}
"""Codecs by their name in `compression.type`."""

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""Default limit on the decompressed size of a batch: far above any real batch, far below a decompression bomb."""

PIECE_BYTES: Final = 64 << 10
"""Bytes decompressed at a time by a reader that may not need all of them: some thousand small records."""

_ALWAYS_ACCEPTED_BYTES: Final = 16 << 20
_RATIO_MAX: Final = 1100

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_OUTPUT_STEP_BYTES_MIN: Final = 64 << 10
_OUTPUT_STEP_BYTES_MAX: Final = 4 << 20
_STREAMS_MAX: Final = 64
_GZIP_WINDOW_BITS: Final = 31
ZSTD_LEVEL: Final = 3
LZ4_LEVEL: Final = 9
GZIP_LEVEL: Final = -1
"""Default compression levels of gzip, lz4 and zstd. Source: KIP-390."""

_LZ4_LEVEL_MAX: Final = 16
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_ZSTD_BLOCK_IS_RLE: Final = 1
_ZSTD_BLOCK_IS_PACKED: Final = 2
_ZSTD_BLOCK_IS_RESERVED: Final = 3
_ZSTD_BLOCK_BYTES_MAX: Final = 128 << 10


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """Return the compressed payload of a batch. `level` is that of `compression.<codec>.level`; None: the default."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Kafka's Java client only reads frames with independent blocks.
            frame: bytes = lz4.frame.compress(
                data,
                compression_level=_lz4_level(level),
                block_linked=False,
                content_checksum=False,
                store_size=False,
            )
            return frame
        case Codec.ZSTD:
            # A compressor per call: the object must not be shared between threads, and is cheap to create.
            return zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level).compress(data)


def _lz4_level(level: int | None) -> int:
    """Return the library's level: Kafka's default 9 means the fast compressor, 0 here; all others use the slow one."""
    return 0 if level in (None, LZ4_LEVEL) else min(level, _LZ4_LEVEL_MAX)


def decompressed_bytes_max(compressed_size: int) -> int:
    """Return how many bytes a compressed payload of this size may decompress to.

    At least 16 MiB: producers limit a batch to 1 MiB before compression by default, so any real batch passes. Above
    that, 1,100 times its size, just more than deflate can reach (1,032; lz4 255, snappy 22): only zstd, which
    compresses zeros 30,000 times, can exceed this bound.
    """
    return min(DECOMPRESSED_BYTES_MAX, max(_ALWAYS_ACCEPTED_BYTES, _RATIO_MAX * compressed_size))


def decompress(codec: Codec, data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the decompressed records of a payload.

    Raises InvalidBatch for a payload that is not of this codec, or exceeds `bytes_max` or `decompressed_bytes_max`.
    """
    if codec is not Codec.NONE:
        bytes_max = min(bytes_max, decompressed_bytes_max(len(data)))
    step = min(max(_OUTPUT_STEP_BYTES_MIN, 4 * len(data)), _OUTPUT_STEP_BYTES_MAX)
    output = _BoundedOutput(len(data), bytes_max, step, _OUTPUT_STEP_BYTES_MAX)
    pieces = list(_unpacked(codec, data, output, _unpacked_zstd_frame))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def decompressed_pieces(codec: Codec, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    """Yield the same bytes in pieces of at most `PIECE_BYTES`, each decompressed when requested.

    A reader may stop early, and holds one piece at a time. (A block of snappy is decompressed as a whole.) Raises
    InvalidBatch where the payload is invalid; the pieces before that are valid.
    """
    bytes_max = DECOMPRESSED_BYTES_MAX if codec is Codec.NONE else decompressed_bytes_max(len(data))
    output = _BoundedOutput(len(data), bytes_max, PIECE_BYTES, PIECE_BYTES)
    for unpacked in _unpacked(codec, data, output, _streamed_zstd_frame):
        for start in range(0, len(unpacked), PIECE_BYTES):
            yield unpacked[start : start + PIECE_BYTES]


def decompressed_parts(codec: Codec, data: bytes | bytearray | memoryview, part_bytes: int) -> Iterator[bytes]:
    """Yield the same bytes in parts of about `part_bytes`, a small payload as one. Raises as `decompressed_pieces`."""
    bytes_max = DECOMPRESSED_BYTES_MAX if codec is Codec.NONE else decompressed_bytes_max(len(data))
    step = min(max(_OUTPUT_STEP_BYTES_MIN, 4 * len(data)), part_bytes)
    output = _BoundedOutput(len(data), bytes_max, step, part_bytes)
    pieces: list[bytes] = []
    size = 0
    for piece in _unpacked(codec, data, output, _small_zstd_frame(part_bytes)):
        pieces.append(piece)
        size += len(piece)
        if size >= part_bytes:
            yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _unpacked(
    codec: Codec, data: bytes | bytearray | memoryview, output: _BoundedOutput, unpack_zstd_frame: _UnpackZstdFrame
) -> Iterator[bytes]:
    match codec:
        case Codec.NONE:
            yield output.counted(bytes(data))
        case Codec.GZIP:
            yield from _decompress_gzip(data, output)
        case Codec.SNAPPY:
            yield from _decompress_snappy(data, output)
        case Codec.LZ4:
            yield from _decompress_lz4(data, output)
        case Codec.ZSTD:
            yield from _decompress_zstd(data, output, unpack_zstd_frame)


class _BoundedOutput:
    """Counter of decompressed bytes that raises InvalidBatch at the first byte above the bound.

    Callers request `room` bytes at a time from a library: it doubles up to `step_bytes_max`, and ends one byte above
    the bound. Steps are small because other threads cannot run while the bytes are copied.
    """

    def __init__(self, compressed_size: int, bytes_max: int, step_bytes: int, step_bytes_max: int) -> None:
        self._compressed_size = compressed_size
        self._left = bytes_max
        self._bytes_max = bytes_max
        self._step = step_bytes
        self._step_max = min(step_bytes_max, bytes_max + 1)

    @property
    def room(self) -> int:
        return min(self._step, self._left + 1)

    @property
    def left(self) -> int:
        return self._left

    def check_fits(self, size: int) -> None:
        if size > self._left:
            raise InvalidBatch(
                f"a batch of {self._compressed_size} bytes decompresses to more than {self._bytes_max} bytes",
                ErrorCode.INVALID_RECORD,
            )

    def counted(self, piece: bytes) -> bytes:
        self.check_fits(len(piece))
        self._left -= len(piece)
        self._step = min(2 * self._step, self._step_max)
        return piece


def _invalid(codec: Codec, reason: object) -> InvalidBatch:
    return InvalidBatch(f"the {codec.config_name} payload of a batch is invalid: {reason}")


# --- gzip ----------------------------------------------------------------------------------------------------


def _decompress_gzip(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    rest: bytes | bytearray | memoryview = data
    # Clients write one stream. Java reads several, so they are read here too, but each costs a copy of the rest.
    for _ in range(_STREAMS_MAX):
        stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        while not stream.eof:
            try:
                piece = stream.decompress(rest, output.room)
            except zlib.error as error:
                raise _invalid(Codec.GZIP, error) from None
            yield output.counted(piece)
            rest = stream.unconsumed_tail
            if not piece and not stream.eof:
                raise _invalid(Codec.GZIP, "it ends in the middle")
        rest = stream.unused_data
        if not rest:
            return
    raise _invalid(Codec.GZIP, f"it holds more than {_STREAMS_MAX} streams")


# --- snappy --------------------------------------------------------------------------------------------------


def _compress_xerial(data: bytes) -> bytes:
    framed = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(data[start : start + _XERIAL_BLOCK_BYTES])
        framed.append(len(block).to_bytes(4, "big"))
        framed.append(block)
    return b"".join(framed)


def _decompress_snappy(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    """Decompress either format: Java frames blocks like the xerial library, librdkafka writes one raw block."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield output.counted(_decompress_snappy_block(data, output))
        return
    position = 0
    while position < len(data):
        # Another stream may follow. The header's first bytes, read as a size, would be too large for a block.
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise _invalid(Codec.SNAPPY, "it ends in the header")
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise _invalid(Codec.SNAPPY, f"a block of {size} bytes reaches beyond the end")
        yield output.counted(_decompress_snappy_block(data[position : position + size], output))
        position += size


def _decompress_snappy_block(block: bytes | bytearray | memoryview, output: _BoundedOutput) -> bytes:
    # The library allocates the size that the block's preamble claims, so that size is checked first.
    output.check_fits(_snappy_size(block))
    try:
        unpacked: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise _invalid(Codec.SNAPPY, error.__cause__ or error) from None
    return unpacked


def _snappy_size(block: bytes | bytearray | memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise _invalid(Codec.SNAPPY, "a block does not say how large it is")


# --- lz4 -----------------------------------------------------------------------------------------------------


def _decompress_lz4(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    rest: bytes | bytearray | memoryview = data
    for _ in range(_STREAMS_MAX):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            try:
                piece: bytes = frame.decompress(rest, max_length=output.room)
            except RuntimeError as error:
                raise _invalid(Codec.LZ4, error) from None
            yield output.counted(piece)
            # The library keeps the input that it has not decompressed yet.
            rest = b""
            if not piece and not frame.eof:
                raise _invalid(Codec.LZ4, "it ends in the middle")
        rest = frame.unused_data
        if not rest:
            return
    raise _invalid(Codec.LZ4, f"it holds more than {_STREAMS_MAX} frames")


# --- zstd ----------------------------------------------------------------------------------------------------


def _decompress_zstd(
    data: bytes | bytearray | memoryview, output: _BoundedOutput, unpack_frame: _UnpackZstdFrame
) -> Iterator[bytes]:
    """Decompress frame by frame. The end of a frame is computed from its blocks: the library's streaming reader would
    accept a payload that was cut off."""
    rest = memoryview(data)
    decompressor = zstandard.ZstdDecompressor()
    while True:
        try:
            frame = _first_zstd_frame(rest)
            if frame.claimed_bytes is not None:
                # The library allocates the size that the header claims, so that size is checked first.
                output.check_fits(frame.claimed_bytes)
            if not frame.is_skippable:
                yield from unpack_frame(decompressor, rest[: frame.size_bytes], frame.unpacked_bytes_max, output)
        except zstandard.ZstdError as error:
            raise _invalid(Codec.ZSTD, error) from None
        rest = rest[frame.size_bytes :]
        if not rest:
            return


class _ZstdFrame(NamedTuple):
    """Facts of a frame. `claimed_bytes` is the size of its content in its header; None if it has none."""

    size_bytes: int
    unpacked_bytes_max: int = 0
    claimed_bytes: int | None = None
    is_skippable: bool = False


def _first_zstd_frame(data: memoryview) -> _ZstdFrame:
    """Return the facts of the first frame.

    A frame has a header, blocks with a three-byte header each (last, type, size), and an optional checksum. Source: RFC
    8878.
    """
    if int.from_bytes(data[:4], "little") & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        size_bytes = 8 + int.from_bytes(data[4:8], "little")
        return _whole(_ZstdFrame(size_bytes=size_bytes, is_skippable=True), data)
    header = zstandard.get_frame_parameters(data)
    position = zstandard.frame_header_size(data)
    unpacked_bytes_max, is_last = 0, False
    while not is_last:
        if position + 3 > len(data):
            raise _invalid(Codec.ZSTD, "it ends in the middle")
        block = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
        if kind == _ZSTD_BLOCK_IS_RESERVED or size > _ZSTD_BLOCK_BYTES_MAX:
            raise _invalid(Codec.ZSTD, "a block has a reserved type or is too large")
        unpacked_bytes_max += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_BLOCK_IS_PACKED else size
        position += 3 + (1 if kind == _ZSTD_BLOCK_IS_RLE else size)
    claimed_bytes = None if header.content_size == zstandard.CONTENTSIZE_UNKNOWN else header.content_size
    if claimed_bytes is not None and claimed_bytes > unpacked_bytes_max:
        raise _invalid(Codec.ZSTD, f"it claims {claimed_bytes} bytes, more than its blocks can hold")
    size_bytes = position + (4 if header.has_checksum else 0)
    return _whole(_ZstdFrame(size_bytes, unpacked_bytes_max, claimed_bytes), data)


def _whole(frame: _ZstdFrame, data: memoryview) -> _ZstdFrame:
    if frame.size_bytes > len(data):
        raise _invalid(Codec.ZSTD, "it ends in the middle")
    return frame


_UnpackZstdFrame = Callable[[zstandard.ZstdDecompressor, memoryview, int, _BoundedOutput], Iterator[bytes]]


def _unpacked_zstd_frame(
    decompressor: zstandard.ZstdDecompressor, frame: memoryview, unpacked_bytes_max: int, output: _BoundedOutput
) -> Iterator[bytes]:
    """Decompress in one call, into memory of the largest size that the frame's blocks can need."""
    try:
        unpacked = decompressor.decompress(frame, max_output_size=min(unpacked_bytes_max, output.left) or 1)
    except zstandard.ZstdError:
        # The library raises the same error for an invalid frame and for one that needs more memory than it got.
        output.check_fits(unpacked_bytes_max)
        raise
    yield output.counted(unpacked)


def _streamed_zstd_frame(
    decompressor: zstandard.ZstdDecompressor, frame: memoryview, unpacked_bytes_max: int, output: _BoundedOutput
) -> Iterator[bytes]:
    """Decompress piece by piece. The library allocates the window that the frame's header requests, up to 128 MiB, but
    the system provides memory only for the part that is written: no more than is decompressed."""
    with decompressor.stream_reader(frame, closefd=False) as reader:
        while piece := reader.read(output.room):
            yield output.counted(piece)


def _small_zstd_frame(size_max: int) -> _UnpackZstdFrame:
    """Return a function that decompresses a frame in one call if it is at most so large, otherwise piece by piece."""

    def unpack(
        decompressor: zstandard.ZstdDecompressor, frame: memoryview, unpacked_bytes_max: int, output: _BoundedOutput
    ) -> Iterator[bytes]:
        is_small = unpacked_bytes_max <= size_max
        unpack_frame = _unpacked_zstd_frame if is_small else _streamed_zstd_frame
        return unpack_frame(decompressor, frame, unpacked_bytes_max, output)

    return unpack
