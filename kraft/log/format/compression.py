"""The codecs of a record batch, framed as Kafka's own clients frame them.

Whatever comes in, the output is bounded in bytes and in ratio: a payload that would unpack to more ends in InvalidBatch
before more is allocated. Only this module knows the compression libraries.
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
    """The lowest three bits of a batch's attributes; the names are the values of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """As `compression.type` spells it."""
        return self.name.lower()


CODEC_OF_NAME: Final = {codec.config_name: codec for codec in Codec}
"""Codecs by the name that `compression.type` gives them."""

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""What a reader accepts from one batch unless it says otherwise: far above any sane batch, far below a bomb."""

PIECE_BYTES: Final = 64 << 10
"""What is unpacked at a time by one who does not want all of it: some thousand small records."""

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
"""The levels that a codec has unless one is set. Source: KIP-390."""

_LZ4_LEVEL_MAX: Final = 16
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_ZSTD_BLOCK_IS_RLE: Final = 1
_ZSTD_BLOCK_IS_PACKED: Final = 2
_ZSTD_BLOCK_IS_RESERVED: Final = 3
_ZSTD_BLOCK_BYTES_MAX: Final = 128 << 10


def compress(codec: Codec, data: bytes, level: int | None = None) -> bytes:
    """The payload as it stands in a batch of that codec. The level is that of `compression.<codec>.level`."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Kafka's Java client reads only frames of independent blocks.
            frame: bytes = lz4.frame.compress(
                data,
                compression_level=_lz4_level(level),
                block_linked=False,
                content_checksum=False,
                store_size=False,
            )
            return frame
        case Codec.ZSTD:
            # A compressor per call: the object is not safe to share between threads, and costs little to make.
            return zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level).compress(data)


def _lz4_level(level: int | None) -> int:
    """Kafka's default, 9, stands for the fast compressor, which is 0 to this library; all others are the slow one."""
    return 0 if level in (None, LZ4_LEVEL) else min(level, _LZ4_LEVEL_MAX)


def decompressed_bytes_max(compressed_size: int) -> int:
    """How many bytes a compressed payload of that size may unpack to.

    16 MiB always: producers cap a batch at 1 MiB before compression unless they are told otherwise, so the most
    compressible of sane batches passes. Above that 1,100 times its size, just more than deflate can reach (1,032; lz4
    255, snappy 22): only zstd, which shrinks zeros 30,000 times, ever meets this bound.
    """
    return min(DECOMPRESSED_BYTES_MAX, max(_ALWAYS_ACCEPTED_BYTES, _RATIO_MAX * compressed_size))


def decompress(codec: Codec, data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records inside a payload.

    Raises InvalidBatch for bytes of no such codec, and for more than `bytes_max` or `decompressed_bytes_max` allow.
    """
    if codec is not Codec.NONE:
        bytes_max = min(bytes_max, decompressed_bytes_max(len(data)))
    step = min(max(_OUTPUT_STEP_BYTES_MIN, 4 * len(data)), _OUTPUT_STEP_BYTES_MAX)
    output = _BoundedOutput(len(data), bytes_max, step, _OUTPUT_STEP_BYTES_MAX)
    pieces = list(_unpacked(codec, data, output, _unpacked_zstd_frame))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def unpacked_pieces(codec: Codec, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
    """The same bytes in pieces of at most `PIECE_BYTES`, each unpacked when it is asked for.

    One who finds what it looks for stops early, and holds one piece at a time. (A block of snappy is unpacked as a
    whole.) Raises InvalidBatch where the payload is broken; the pieces before that were whole.
    """
    bytes_max = DECOMPRESSED_BYTES_MAX if codec is Codec.NONE else decompressed_bytes_max(len(data))
    output = _BoundedOutput(len(data), bytes_max, PIECE_BYTES, PIECE_BYTES)
    for unpacked in _unpacked(codec, data, output, _streamed_zstd_frame):
        for start in range(0, len(unpacked), PIECE_BYTES):
            yield unpacked[start : start + PIECE_BYTES]


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
    """Counts unpacked bytes and refuses the first above the bound.

    A library is asked for `room` bytes at a time: that doubles up to `step_bytes_max`, and ends one byte above the
    bound. That much is copied quickly: meanwhile other threads stand still.
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
                f"a batch of {self._compressed_size} bytes unpacks to more than {self._bytes_max} bytes",
                ErrorCode.INVALID_RECORD,
            )

    def counted(self, piece: bytes) -> bytes:
        self.check_fits(len(piece))
        self._left -= len(piece)
        self._step = min(2 * self._step, self._step_max)
        return piece


def _broken(codec: Codec, reason: object) -> InvalidBatch:
    return InvalidBatch(f"the {codec.config_name} payload of a batch is broken: {reason}")


# --- gzip ----------------------------------------------------------------------------------------------------


def _decompress_gzip(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    rest: bytes | bytearray | memoryview = data
    # Clients write one stream; several are read because Java reads them, but each costs a copy of all that follow.
    for _ in range(_STREAMS_MAX):
        stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        while not stream.eof:
            try:
                piece = stream.decompress(rest, output.room)
            except zlib.error as error:
                raise _broken(Codec.GZIP, error) from None
            yield output.counted(piece)
            rest = stream.unconsumed_tail
            if not piece and not stream.eof:
                raise _broken(Codec.GZIP, "it ends in the middle")
        rest = stream.unused_data
        if not rest:
            return
    raise _broken(Codec.GZIP, f"it holds more than {_STREAMS_MAX} streams")


# --- snappy --------------------------------------------------------------------------------------------------


def _compress_xerial(data: bytes) -> bytes:
    framed = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(data[start : start + _XERIAL_BLOCK_BYTES])
        framed.append(len(block).to_bytes(4, "big"))
        framed.append(block)
    return b"".join(framed)


def _decompress_snappy(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    """Java frames blocks as the xerial library does; librdkafka writes one raw block. Both are read."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield output.counted(_decompress_snappy_block(data, output))
        return
    position = 0
    while position < len(data):
        # A stream may follow on a stream. No block can be as large as the first bytes of a header would say.
        if bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise _broken(Codec.SNAPPY, "it ends in the header")
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise _broken(Codec.SNAPPY, f"a block of {size} bytes reaches beyond the end")
        yield output.counted(_decompress_snappy_block(data[position : position + size], output))
        position += size


def _decompress_snappy_block(block: bytes | bytearray | memoryview, output: _BoundedOutput) -> bytes:
    # The library allocates what the block's preamble promises, so the promise is checked first.
    output.check_fits(_snappy_size(block))
    try:
        unpacked: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise _broken(Codec.SNAPPY, error.__cause__ or error) from None
    return unpacked


def _snappy_size(block: bytes | bytearray | memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise _broken(Codec.SNAPPY, "a block does not say how large it is")


# --- lz4 -----------------------------------------------------------------------------------------------------


def _decompress_lz4(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> Iterator[bytes]:
    rest: bytes | bytearray | memoryview = data
    for _ in range(_STREAMS_MAX):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            try:
                piece: bytes = frame.decompress(rest, max_length=output.room)
            except RuntimeError as error:
                raise _broken(Codec.LZ4, error) from None
            yield output.counted(piece)
            # What was not unpacked yet, the library keeps.
            rest = b""
            if not piece and not frame.eof:
                raise _broken(Codec.LZ4, "it ends in the middle")
        rest = frame.unused_data
        if not rest:
            return
    raise _broken(Codec.LZ4, f"it holds more than {_STREAMS_MAX} frames")


# --- zstd ----------------------------------------------------------------------------------------------------


def _decompress_zstd(
    data: bytes | bytearray | memoryview, output: _BoundedOutput, unpack_frame: _UnpackZstdFrame
) -> Iterator[bytes]:
    """Frame by frame. Where a frame ends is read off its blocks: the library's streaming reader would take a payload
    that was cut for the end of the stream."""
    rest = memoryview(data)
    decompressor = zstandard.ZstdDecompressor()
    while True:
        try:
            frame = _first_zstd_frame(rest)
            if frame.promised_bytes is not None:
                # The library allocates what the header promises, so the promise is checked first.
                output.check_fits(frame.promised_bytes)
            if not frame.is_skippable:
                yield from unpack_frame(decompressor, rest[: frame.size_bytes], frame.unpacked_bytes_max, output)
        except zstandard.ZstdError as error:
            raise _broken(Codec.ZSTD, error) from None
        rest = rest[frame.size_bytes :]
        if not rest:
            return


class _ZstdFrame(NamedTuple):
    """`promised_bytes` is the size that the header gives for the content, when it does."""

    size_bytes: int
    unpacked_bytes_max: int = 0
    promised_bytes: int | None = None
    is_skippable: bool = False


def _first_zstd_frame(data: memoryview) -> _ZstdFrame:
    """A header, blocks of a three-byte header (last, type, size) each, and an optional checksum. Source: RFC 8878."""
    if int.from_bytes(data[:4], "little") & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        size_bytes = 8 + int.from_bytes(data[4:8], "little")
        return _whole(_ZstdFrame(size_bytes=size_bytes, is_skippable=True), data)
    header = zstandard.get_frame_parameters(data)
    position = zstandard.frame_header_size(data)
    unpacked_bytes_max, is_last = 0, False
    while not is_last:
        if position + 3 > len(data):
            raise _broken(Codec.ZSTD, "it ends in the middle")
        block = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
        if kind == _ZSTD_BLOCK_IS_RESERVED or size > _ZSTD_BLOCK_BYTES_MAX:
            raise _broken(Codec.ZSTD, "a block is of no known kind or too large")
        unpacked_bytes_max += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_BLOCK_IS_PACKED else size
        position += 3 + (1 if kind == _ZSTD_BLOCK_IS_RLE else size)
    promised_bytes = None if header.content_size == zstandard.CONTENTSIZE_UNKNOWN else header.content_size
    if promised_bytes is not None and promised_bytes > unpacked_bytes_max:
        raise _broken(Codec.ZSTD, f"it promises {promised_bytes} bytes, more than its blocks can hold")
    size_bytes = position + (4 if header.has_checksum else 0)
    return _whole(_ZstdFrame(size_bytes, unpacked_bytes_max, promised_bytes), data)


def _whole(frame: _ZstdFrame, data: memoryview) -> _ZstdFrame:
    if frame.size_bytes > len(data):
        raise _broken(Codec.ZSTD, "it ends in the middle")
    return frame


_UnpackZstdFrame = Callable[[zstandard.ZstdDecompressor, memoryview, int, _BoundedOutput], Iterator[bytes]]


def _unpacked_zstd_frame(
    decompressor: zstandard.ZstdDecompressor, frame: memoryview, unpacked_bytes_max: int, output: _BoundedOutput
) -> Iterator[bytes]:
    """In one call, into memory of the size that the frame's blocks can need."""
    try:
        unpacked = decompressor.decompress(frame, max_output_size=min(unpacked_bytes_max, output.left) or 1)
    except zstandard.ZstdError:
        # The library says the same of a frame that is broken and of one that needs more memory than it was given.
        output.check_fits(unpacked_bytes_max)
        raise
    yield output.counted(unpacked)


def _streamed_zstd_frame(
    decompressor: zstandard.ZstdDecompressor, frame: memoryview, unpacked_bytes_max: int, output: _BoundedOutput
) -> Iterator[bytes]:
    """Piece by piece. The library sets aside the window that the frame's header asks for, up to 128 MiB, but the
    system gives memory only for what is written there: no more than is unpacked."""
    with decompressor.stream_reader(frame, closefd=False) as reader:
        while piece := reader.read(output.room):
            yield output.counted(piece)
