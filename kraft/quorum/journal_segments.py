"""The files of the journal: segments, of which only the last is written to.

The first is `quorum.journal`; the name of each later one holds its number. When a segment is full, a new one begins
with the position, the term, the vote and the membership at the end of the last one. So earlier segments can be removed
as whole files. The oldest is removed first, and durably, so that there is never a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from kraft.log.disk import Disk, File
from kraft.model.errors import Corruption
from kraft.quorum import journal_format
from kraft.quorum.journal_format import JournalRecord, Scan

DIRECTORY_NAME: Final = "__cluster_metadata"
FILE_NAME: Final = "quorum.journal"

SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""A segment ends with the frame that reaches this size."""

_FURTHER_NAME = re.compile(r"quorum-([0-9]{20})\.journal")


def segment_name(number: int) -> str:
    """Return the file name of a segment; numbers start at 0."""
    return f"quorum-{number:020}.journal" if number else FILE_NAME


def segment_paths(directory: Path, disk: Disk) -> list[str]:
    """Return the journal's files below `directory`, the oldest first. Raises Corruption if one between is missing."""
    folder = directory / DIRECTORY_NAME
    return [str(folder / segment_name(number)) for number in _numbers(folder, disk)]


def _numbers(folder: Path, disk: Disk) -> list[int]:
    """Return the numbers of the segments, ascending. Raises Corruption if one between is missing."""
    names = disk.list(str(folder))
    further = sorted(int(name[1]) for name in map(_FURTHER_NAME.fullmatch, names) if name)
    numbers = [0, *further] if FILE_NAME in names else further
    for earlier, later in pairwise(numbers):
        if later != earlier + 1:
            raise Corruption(str(folder / segment_name(earlier + 1)), 0, "this segment of the journal is missing")
    return numbers


class Segments:
    """The segments of one journal. Every operation may raise OSError and must not be retried then."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Find the segments or create the first. Raises Corruption if one is missing."""
        self._disk = disk
        self._folder = directory / DIRECTORY_NAME
        _create_first(self._folder, disk)
        self.numbers = _numbers(self._folder, disk)
        self._file = disk.open(self.last_path, create=False)

    @property
    def last_path(self) -> str:
        return self._path(self.numbers[-1])

    def _path(self, number: int) -> str:
        return str(self._folder / segment_name(number))

    def read(self) -> Iterator[tuple[int, str, list[JournalRecord]]]:
        """Yield number, path and records of each segment.

        Cuts off a torn tail of the last one and makes the rest of it durable. Raises Corruption if more is corrupt.
        """
        for number in self.numbers[:-1]:
            path = self._path(number)
            data = self._disk.read_file(path)
            found = journal_format.scan(path, data)
            if found.valid_bytes < len(data):
                raise Corruption(path, found.valid_bytes, "corrupt, but a later segment of the journal exists")
            yield number, path, found.records
        data = self._file.read_at(0, self._file.size)
        found = journal_format.scan(self.last_path, data)
        yield self.numbers[-1], self.last_path, found.records
        settle(self._file, data, found)

    @property
    def last_is_of_an_earlier_format(self) -> bool:
        header = self._file.read_at(0, journal_format.HEADER_BYTES)
        return journal_format.version_of(header) < journal_format.FORMAT_VERSION

    @property
    def last_is_full(self) -> bool:
        return self._file.size >= SEGMENT_BYTES

    def would_be_full(self, bodies: Sequence[bytes]) -> bool:
        """Return whether the last segment is full once frames with these bodies are written to it."""
        frame_bytes = sum(len(body) + journal_format.FRAME_OVERHEAD_BYTES for body in bodies)
        return self._file.size + frame_bytes >= SEGMENT_BYTES

    def append(self, body: bytes) -> None:
        """Append a frame with these records, durable on return."""
        self._file.append([journal_format.encode_frame(self._file.size, body)])
        self._file.sync()

    def roll(self, index: int, term: int, standing: bytes) -> None:
        """Begin a new segment after that entry, the journal's last; `standing` are the records of vote and membership.

        The file is complete or does not exist, and everything before it is durable.
        """
        number = self.numbers[-1] + 1
        header = journal_format.encode_header()
        start = journal_format.encode_start(number, index, term) + standing
        path = self._path(number)
        self._disk.write_atomically(path, header + journal_format.encode_frame(len(header), start))
        self._file.close()
        self._file = self._disk.open(path, create=False)
        self.numbers.append(number)

    def remove_oldest(self, count: int) -> None:
        """Remove the `count` oldest segments; the last one always stays."""
        assert count < len(self.numbers), "the last segment is written to"
        for _ in range(count):
            self._disk.remove(self._path(self.numbers[0]))
            # Removals that were not synced may reach the disk in any order, and a crash would leave a gap.
            self._disk.sync_dir(str(self._folder))
            del self.numbers[0]

    def close(self) -> None:
        self._file.close()


def settle(file: File, data: bytes, found: Scan) -> None:
    """Cut off a torn tail and make the rest durable."""
    if found.valid_bytes < file.size:
        file.truncate(found.valid_bytes)
    # The previous process may have ended because its sync failed. The kernel then shows the last frame, believes it
    # written, and would sync nothing. Writing it again makes the sync real.
    file.write_at(found.last_frame, data[found.last_frame : found.valid_bytes])
    file.sync()


def _create_first(folder: Path, disk: Disk) -> None:
    """Create the first segment if there is none; a segment never exists without its header."""
    disk.make_dir(str(folder))
    if not _numbers(folder, disk):
        disk.write_atomically(str(folder / FILE_NAME), journal_format.encode_header())
    # Sync existing names too: the process that created them may have died before its own sync.
    for directory in [folder, *folder.parents][:3]:
        disk.sync_dir(str(directory))
