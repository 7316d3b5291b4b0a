"""The codecs of a record batch, framed as Kafka's own clients frame them.

Whatever comes in, the output is bounded: a payload that would unpack to more than `bytes_max` ends in InvalidBatch
before more than that is allocated. Only this module knows the compression libraries.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Final

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

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_OUTPUT_STEP_BYTES_MIN: Final = 64 << 10
_GZIP_WINDOW_BITS: Final = 31
_ZSTD_LEVEL: Final = 3
_ZSTD_BLOCK_IS_RLE: Final = 1


def compress(codec: Codec, data: bytes) -> bytes:
    """The payload as it stands in a batch of that codec."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # Kafka's Java client reads only frames of independent blocks.
            frame: bytes = lz4.frame.compress(data, block_linked=False, content_checksum=False, store_size=False)
            return frame
        case Codec.ZSTD:
            # A compressor per call: the object is not safe to share between threads, and costs little to make.
            return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def decompress(codec: Codec, data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The records inside a payload. Raises InvalidBatch for bytes of no such codec and for more than `bytes_max`."""
    output = _BoundedOutput(len(data), bytes_max)
    match codec:
        case Codec.NONE:
            output.add(bytes(data))
        case Codec.GZIP:
            _decompress_gzip(data, output)
        case Codec.SNAPPY:
            _decompress_snappy(data, output)
        case Codec.LZ4:
            _decompress_lz4(data, output)
        case Codec.ZSTD:
            _decompress_zstd(data, output)
    return output.joined()


class _BoundedOutput:
    """Collects unpacked pieces and refuses the first byte above the bound.

    A library is asked for `room` bytes at a time: that doubles, and ends one byte above the bound.
    """

    def __init__(self, compressed_size: int, bytes_max: int) -> None:
        self._pieces: list[bytes] = []
        self._left = bytes_max
        self._bytes_max = bytes_max
        self._step = max(_OUTPUT_STEP_BYTES_MIN, 4 * compressed_size)

    @property
    def room(self) -> int:
        return min(self._step, self._left + 1)

    def check_fits(self, size: int) -> None:
        if size > self._left:
            raise InvalidBatch(f"a batch unpacks to more than {self._bytes_max} bytes", ErrorCode.INVALID_RECORD)

    def add(self, piece: bytes) -> None:
        self.check_fits(len(piece))
        self._left -= len(piece)
        self._step *= 2
        self._pieces.append(piece)

    def joined(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def _broken(codec: Codec, reason: object) -> InvalidBatch:
    return InvalidBatch(f"the {codec.config_name} payload of a batch is broken: {reason}")


# --- gzip ----------------------------------------------------------------------------------------------------


def _decompress_gzip(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> None:
    rest: bytes | bytearray | memoryview = data
    member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    while True:
        try:
            piece = member.decompress(rest, output.room)
        except zlib.error as error:
            raise _broken(Codec.GZIP, error) from None
        output.add(piece)
        if member.eof:
            if not member.unused_data:
                return
            rest, member = member.unused_data, zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        elif not piece:
            raise _broken(Codec.GZIP, "it ends in the middle")
        else:
            rest = member.unconsumed_tail


# --- snappy --------------------------------------------------------------------------------------------------


def _compress_xerial(data: bytes) -> bytes:
    framed = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(data[start : start + _XERIAL_BLOCK_BYTES])
        framed.append(len(block).to_bytes(4, "big"))
        framed.append(block)
    return b"".join(framed)


def _decompress_snappy(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> None:
    """Java frames blocks as the xerial library does; librdkafka writes one raw block. Both are read."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        output.add(_decompress_snappy_block(data, output))
        return
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise _broken(Codec.SNAPPY, "it ends in the header")
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise _broken(Codec.SNAPPY, f"a block of {size} bytes reaches beyond the end")
        output.add(_decompress_snappy_block(data[position : position + size], output))
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


def _decompress_lz4(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> None:
    rest: bytes | bytearray | memoryview = data
    frame = lz4.frame.LZ4FrameDecompressor()
    while True:
        try:
            piece: bytes = frame.decompress(rest, max_length=output.room)
        except RuntimeError as error:
            raise _broken(Codec.LZ4, error) from None
        output.add(piece)
        if frame.eof:
            if not frame.unused_data:
                return
            rest, frame = frame.unused_data, lz4.frame.LZ4FrameDecompressor()
        elif not piece:
            raise _broken(Codec.LZ4, "it ends in the middle")
        else:
            rest = b""


# --- zstd ----------------------------------------------------------------------------------------------------


def _decompress_zstd(data: bytes | bytearray | memoryview, output: _BoundedOutput) -> None:
    try:
        _check_zstd_frames(memoryview(data))
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        while piece := reader.read(output.room):
            output.add(piece)
    except (zstandard.ZstdError, MemoryError) as error:
        raise _broken(Codec.ZSTD, error) from None


def _check_zstd_frames(data: memoryview) -> None:
    """Refuses a cut payload, which the library's bounded reader would take for the end of the stream.

    A frame is its header, blocks of a three-byte header (last, type, size) each, and an optional checksum. Source:
    RFC 8878.
    """
    position = 0
    while position < len(data) or position == 0:
        frame = data[position:]
        has_checksum = zstandard.get_frame_parameters(frame).has_checksum
        position += zstandard.frame_header_size(frame)
        is_last = False
        while not is_last:
            if position + 3 > len(data):
                raise _broken(Codec.ZSTD, "it ends in the middle")
            block = int.from_bytes(data[position : position + 3], "little")
            is_last = bool(block & 1)
            position += 3 + (1 if (block >> 1) & 3 == _ZSTD_BLOCK_IS_RLE else block >> 3)
        position += 4 if has_checksum else 0
        if position > len(data):
            raise _broken(Codec.ZSTD, "it ends in the middle")
