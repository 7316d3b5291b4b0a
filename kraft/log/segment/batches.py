"""Scans and checks of the batches in a `.log` file, which stand back to back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.log.disk import ReadableFile
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    check_frame,
    read_frame,
    read_header,
)
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import NO_LEADER_EPOCH

READ_BATCHES_MAX: Final = 1_000
"""Batches in one read: checking a small batch costs as much as checking a kilobyte."""

_HEADER_WINDOW_BYTES: Final = 4 << 10
_CRC_WINDOW_BYTES: Final = 1 << 20


def scan_batches(
    file: ReadableFile, path: str, start: int = 0, with_crc: bool = False, size: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every batch, from the one that begins at `start` to `size`, or the end of the file.

    Raises Corruption where a batch is corrupt or cut; everything yielded before was whole.
    """
    position = window_start = start
    window = b""
    window_bytes = _CRC_WINDOW_BYTES if with_crc else _HEADER_WINDOW_BYTES
    while position < (file_size := file.size if size is None else size):
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = file.read_at(position, min(window_bytes, file_size - position)), position
        try:
            header = read_header(window, position - window_start)
            end = position + header.size_bytes
            if end > file_size:
                raise InvalidBatch(f"a batch of {header.size_bytes} bytes reaches beyond the end of the file")
            if with_crc:
                if end > window_start + len(window):
                    window_size = min(max(window_bytes, header.size_bytes), file_size - position)
                    window, window_start = file.read_at(position, window_size), position
                check_crc(header, memoryview(window)[position - window_start : end - window_start])
        except InvalidBatch as error:
            raise Corruption(path, position, error.message) from None
        yield position, header
        position = end


def read_batch(file: ReadableFile, path: str, position: int, header: BatchHeader) -> bytes:
    """Return the whole batch. Raises Corruption if its checksum is wrong."""
    batch = file.read_at(position, header.size_bytes)
    try:
        check_crc(header, batch)
    except InvalidBatch as error:
        raise Corruption(path, position, error.message) from None
    return batch


class Continuity:
    """Check that each batch of a log follows the one before it: the checksum covers neither offset nor epoch."""

    def __init__(self, path: str, epochs: LeaderEpochCache, is_sparse: bool, next_offset: int) -> None:
        self.path = path
        self._epochs = epochs
        self._is_sparse = is_sparse
        self.next_offset = next_offset
        self._epoch, self._epoch_end = NO_LEADER_EPOCH, next_offset

    def learn(self, epochs: LeaderEpochCache) -> None:
        """Use this cache, which has more epochs than before."""
        self._epochs = epochs
        self._epoch_end = self.next_offset

    def check(self, position: int, base_offset: int, last_offset: int, leader_epoch: int) -> None:
        """Raise Corruption unless the batch at `position` comes next. In a sparse log offsets may be missing."""
        if base_offset != self.next_offset and not (self._is_sparse and base_offset > self.next_offset):
            reason = f"a batch has base offset {base_offset}, expected {self.next_offset}"
            raise Corruption(self.path, position, reason)
        if last_offset >= self._epoch_end:
            self._epoch, self._epoch_end = self._epochs.span_of(last_offset)
        # The cache does not have the epochs of records below the log start.
        if leader_epoch != self._epoch != NO_LEADER_EPOCH:
            reason = f"the batch at offset {base_offset} has leader epoch {leader_epoch}, expected {self._epoch}"
            raise Corruption(self.path, position, reason)
        self.next_offset = last_offset + 1


def checked_bytes(data: bytes, begin: int, upper: int, continuity: Continuity) -> int:
    """Return how many bytes of `data`, read at `begin`, are whole batches below `upper`; at most `READ_BATCHES_MAX`.

    Raises Corruption.
    """
    view = memoryview(data)
    size = len(data)
    end = 0
    for _ in range(READ_BATCHES_MAX):
        if end + HEADER_BYTES > size:
            break
        try:
            base_offset, size_bytes, leader_epoch, crc, last_offset = read_frame(data, end)
            next_end = end + size_bytes
            if next_end > size or last_offset >= upper:
                break
            check_frame(view[end:next_end], crc)
        except InvalidBatch as error:
            raise Corruption(continuity.path, begin + end, error.message) from None
        continuity.check(begin + end, base_offset, last_offset, leader_epoch)
        end = next_end
    return end
