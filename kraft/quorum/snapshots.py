"""Snapshot files of a replicated log; the owner decides on their content.

    header   magic (8), format version (4), index (8) and term (8) of its last entry, CRC-32C of these (4)
    chunk    length (4), CRC-32C of position, length and content (4), content
    end      a chunk without content; nothing follows

All numbers are big-endian. A file is named for its last entry, `<index, 20 digits>-<term, 10 digits>.checkpoint`, as
Kafka's are. It is written atomically. The snapshot before it is kept too, in case the new one becomes corrupt. The
position inside the CRC detects a chunk that was lost, repeated or swapped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from threading import Lock
from typing import Final

import structlog
from crc32c import crc32c
from msgspec import Struct

from kraft.log.disk import Disk
from kraft.model.errors import Corruption

log = structlog.get_logger()

FORMAT_VERSION: Final = 1
GENERATIONS_KEPT: Final = 2
SUFFIX: Final = ".checkpoint"
DAMAGED_SUFFIX: Final = ".damaged"

CHUNK_BYTES_MAX: Final = 8 * 1024 * 1024
"""Maximum size of a chunk; a greater length is corruption."""

_NEW_DIRECTORIES_MAX = 2
"""The directory itself and its parent may both be new."""

_MAGIC = b"KRAFTSN\0"
_HEADER = struct.Struct(">8sIQQ")
_CRC = struct.Struct(">I")
_CHUNK = struct.Struct(">II")
_CRC_SEED = struct.Struct(">QI")
_NAME = re.compile(r"([0-9]{20})-([0-9]{10,20})" + re.escape(SUFFIX))
_TEMPORARY_NAME = re.compile(_NAME.pattern + r"\.tmp")

HEADER_BYTES: Final = _HEADER.size + _CRC.size


class SnapshotId(Struct, frozen=True, kw_only=True, order=True):
    """Index and term of the last entry that a snapshot contains; a later snapshot's id is greater."""

    index: int
    term: int

    @property
    def file_name(self) -> str:
        return f"{self.index:020}-{self.term:010}{SUFFIX}"


class Snapshot(Struct, frozen=True, kw_only=True):
    """State after the entries up to `id`, in chunks that are not empty."""

    id: SnapshotId
    chunks: tuple[bytes, ...]


class PlacedChunk(Struct, frozen=True, kw_only=True):
    """Chunk and the byte of the file at which its content begins."""

    position: int
    content: bytes


def encode(snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> bytes:
    """Return the bytes of a snapshot's file."""
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, snapshot_id.index, snapshot_id.term)
    data = bytearray(header + _CRC.pack(crc32c(header)))
    for chunk in chunks:
        assert 0 < len(chunk) <= CHUNK_BYTES_MAX, f"a chunk of {len(chunk)} bytes"
        data += _CHUNK.pack(len(chunk), _chunk_crc(len(data), chunk))
        data += chunk
    data += _CHUNK.pack(0, _chunk_crc(len(data), b""))
    return bytes(data)


def decode(file: str, data: bytes) -> Snapshot:
    """Return the snapshot in a file's bytes. Raises Corruption unless they are complete and intact."""
    snapshot_id = decode_header(file, data)
    return Snapshot(id=snapshot_id, chunks=tuple(chunk.content for chunk in decode_chunks(file, data)))


def is_snapshot(data: bytes) -> bool:
    """Return whether the bytes begin like a snapshot's."""
    return data.startswith(_MAGIC)


def decode_header(file: str, data: bytes) -> SnapshotId:
    """Return the id in a file's header. Raises Corruption."""
    if len(data) < HEADER_BYTES or not is_snapshot(data):
        raise Corruption(file, 0, "not a snapshot")
    if _CRC.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        raise Corruption(file, 0, "the CRC of the header does not match")
    _, version, index, term = _HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        raise Corruption(file, len(_MAGIC), f"format version {version}; this version of Kraft reads {FORMAT_VERSION}")
    return SnapshotId(index=index, term=term)


def decode_chunks(file: str, data: bytes) -> Iterator[PlacedChunk]:
    """Yield the chunks after the header. Raises Corruption at the first corrupt one, or for bytes after the end."""
    position = HEADER_BYTES
    while True:
        if position + _CHUNK.size > len(data):
            raise Corruption(file, position, "the snapshot ends early")
        length, checksum = _CHUNK.unpack_from(data, position)
        start = position + _CHUNK.size
        if length > CHUNK_BYTES_MAX or start + length > len(data):
            raise Corruption(file, position, f"a chunk has {length} bytes, but only {len(data) - start} bytes are left")
        content = data[start : start + length]
        if _chunk_crc(position, content) != checksum:
            raise Corruption(file, position, "the CRC of a chunk does not match")
        position = start + length
        if not length:
            break
        yield PlacedChunk(position=start, content=content)
    if position < len(data):
        raise Corruption(file, position, f"{len(data) - position} bytes follow the end of the snapshot")


def _chunk_crc(position: int, content: bytes) -> int:
    return crc32c(content, crc32c(_CRC_SEED.pack(position, len(content))))


class SnapshotStore:
    """The snapshots in one directory. Every operation blocks on the disk and may raise OSError.

    Any thread may call; calls that read or write a snapshot wait for each other.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._lock = Lock()
        self._directory_is_durable = False

    @property
    def directory(self) -> str:
        return self._directory

    def path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{snapshot_id.file_name}"

    def generations(self) -> list[SnapshotId]:
        """Return the ids in the directory's file names, the latest first."""
        if not self._disk.exists(self._directory):
            return []
        names = (_NAME.fullmatch(name) for name in self._disk.list(self._directory))
        return sorted((SnapshotId(index=int(name[1]), term=int(name[2])) for name in names if name), reverse=True)

    def read(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read one snapshot. Raises Corruption."""
        path = self.path(snapshot_id)
        snapshot = decode(path, self._disk.read_file(path))
        if snapshot.id != snapshot_id:
            raise Corruption(path, 0, f"the header is that of the snapshot at entry {snapshot.id.index}")
        return snapshot

    def load(self) -> Snapshot | None:
        """Return the latest intact snapshot; None if there is no snapshot at all.

        A corrupt one is renamed, and the one before it is used. If all are corrupt, raises the Corruption of the latest
        and leaves every file as it is.
        """
        with self._lock:
            return self._load()

    def _load(self) -> Snapshot | None:
        damaged: dict[SnapshotId, Corruption] = {}
        for snapshot_id in self.generations():
            try:
                snapshot = self.read(snapshot_id)
            except Corruption as corruption:
                damaged[snapshot_id] = corruption
                continue
            for other, damage in damaged.items():
                log.error("snapshot corrupt, previous snapshot used", reason=str(damage))
                self._mark_damaged(other)
            return snapshot
        if damaged:
            raise next(iter(damaged.values()))
        return None

    def mark_all_damaged(self) -> None:
        """Rename every snapshot, so that none is read again."""
        for snapshot_id in self.generations():
            self._mark_damaged(snapshot_id)

    def write(self, snapshot_id: SnapshotId, chunks: Iterable[bytes]) -> int:
        """Write a snapshot, durable on return, and then remove old ones; return its size in bytes.

        Does nothing and returns 0 if there is already a snapshot with this id or a later one.
        """
        self._make_directory()
        if self._is_superfluous(snapshot_id):
            return 0
        data = encode(snapshot_id, chunks)
        with self._lock:
            if self._is_superfluous(snapshot_id):
                return 0
            self._disk.write_atomically(self.path(snapshot_id), data)
            self._remove_old()
        return len(data)

    def _make_directory(self) -> None:
        """Create and sync the directory, once in a process: the one that created it may have died before its sync."""
        if not self._directory_is_durable:
            self._disk.make_dir(self._directory)
            for directory in list(PurePosixPath(self._directory).parents)[:_NEW_DIRECTORIES_MAX]:
                self._disk.sync_dir(str(directory))
            self._directory_is_durable = True

    def _is_superfluous(self, snapshot_id: SnapshotId) -> bool:
        found = self.generations()
        return bool(found) and found[0] >= snapshot_id

    def _mark_damaged(self, snapshot_id: SnapshotId) -> None:
        path = self.path(snapshot_id)
        self._disk.rename(path, path + DAMAGED_SUFFIX)
        self._disk.sync_dir(self._directory)

    def _remove_old(self) -> None:
        superfluous = [one.file_name for one in self.generations()[GENERATIONS_KEPT:]]
        # A crash during a write leaves a file under its temporary name.
        superfluous += [name for name in self._disk.list(self._directory) if _TEMPORARY_NAME.fullmatch(name)]
        for name in superfluous:
            self._disk.remove(f"{self._directory}/{name}")
