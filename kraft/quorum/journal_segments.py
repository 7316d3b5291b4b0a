"""The files of the journal: segments, of which only the last one is written to.

`quorum.journal` is the first one, and each further one is named for its number. A segment that has become large is
followed by a new one, which begins with where the last one ends, term and vote. So the earlier ones can be removed,
each at once however large it is; the oldest goes first, and durably, so that no gap ever comes to be.
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
"""A segment ends with the frame that reaches this."""

_FURTHER_NAME = re.compile(r"quorum-([0-9]{20})\.journal")


def segment_name(number: int) -> str:
    """From 0 on."""
    return f"quorum-{number:020}.journal" if number else FILE_NAME


def segment_paths(directory: Path, disk: Disk) -> list[str]:
    """The journal's files below `directory`, the oldest first. Raises Corruption when one between them is missing."""
    folder = directory / DIRECTORY_NAME
    return [str(folder / segment_name(number)) for number in _numbers(folder, disk)]


def _numbers(folder: Path, disk: Disk) -> list[int]:
    """Ascending, without a gap. Raises Corruption."""
    names = disk.list(str(folder))
    further = sorted(int(name[1]) for name in map(_FURTHER_NAME.fullmatch, names) if name)
    numbers = [0, *further] if FILE_NAME in names else further
    for earlier, later in pairwise(numbers):
        if later != earlier + 1:
            raise Corruption(str(folder / segment_name(earlier + 1)), 0, "this segment of the journal is missing")
    return numbers


class Segments:
    """Those of one journal. Every operation may raise OSError, and is not to be tried again then."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Finds them, or creates the first. Raises Corruption when one is missing."""
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
        """Number, path and records of each. A torn tail of the last one is cut off, and what it holds is made durable;
        Corruption is raised for any other damage."""
        for number in self.numbers[:-1]:
            path = self._path(number)
            data = self._disk.read_file(path)
            found = journal_format.scan(path, data)
            if found.valid_bytes < len(data):
                raise Corruption(path, found.valid_bytes, "damaged, while what was written later, elsewhere, is intact")
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
        """Whether the last one is, once frames with these bodies are written to it."""
        frame_bytes = sum(len(body) + journal_format.FRAME_OVERHEAD_BYTES for body in bodies)
        return self._file.size + frame_bytes >= SEGMENT_BYTES

    def append(self, body: bytes) -> None:
        """A frame with these records. Durable on return."""
        self._file.append([journal_format.encode_frame(self._file.size, body)])
        self._file.sync()

    def roll(self, index: int, term: int, vote: bytes) -> None:
        """A new segment behind that entry, the last one here; `vote` is the record of the current one.

        It exists whole or not at all, and everything before it is durable.
        """
        number = self.numbers[-1] + 1
        header = journal_format.encode_header()
        start = journal_format.encode_start(number, index, term) + vote
        path = self._path(number)
        self._disk.write_atomically(path, header + journal_format.encode_frame(len(header), start))
        self._file.close()
        self._file = self._disk.open(path, create=False)
        self.numbers.append(number)

    def remove_oldest(self, count: int) -> None:
        """The last one stays."""
        assert count < len(self.numbers), "the last segment is written to"
        for _ in range(count):
            self._disk.remove(self._path(self.numbers[0]))
            # Two removals that are not durable may come to be in any order, and leave a gap.
            self._disk.sync_dir(str(self._folder))
            del self.numbers[0]

    def close(self) -> None:
        self._file.close()


def settle(file: File, data: bytes, found: Scan) -> None:
    """Cuts off a torn tail, and makes the rest durable."""
    if found.valid_bytes < file.size:
        file.truncate(found.valid_bytes)
    # The process before may have ended because its sync failed. The kernel then shows the last frame, takes it for
    # written, and would sync nothing: written anew, it is.
    file.write_at(found.last_frame, data[found.last_frame : found.valid_bytes])
    file.sync()


def _create_first(folder: Path, disk: Disk) -> None:
    """The journal never exists without a header."""
    disk.make_dir(str(folder))
    if not _numbers(folder, disk):
        disk.write_atomically(str(folder / FILE_NAME), journal_format.encode_header())
    # Also when it exists: the process that created it may have died before it synced the names.
    for directory in [folder, *folder.parents][:3]:
        disk.sync_dir(str(directory))
