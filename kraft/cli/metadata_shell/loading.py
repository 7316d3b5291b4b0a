"""Metadata from the files of a node, which may be running: nothing is written, nor locked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.replayed_image import ReplayedImage, replay_snapshot
from kraft.model.errors import Corruption, KraftError
from kraft.quorum import command, journal_format, journal_segments
from kraft.quorum.journal_format import EntryRecord, TruncationRecord
from kraft.quorum.snapshots import Snapshot, SnapshotStore
from kraft.rpc.metadata_codec import decode_records
from kraft.runtime.disk import RealDisk

ATTEMPTS_MAX: Final = 5
"""A node that runs removes old files; then the files are looked up again."""


class NoMetadata(KraftError):
    """A directory has no file of a metadata log."""


class LoadedMetadata(Struct, frozen=True, kw_only=True):
    """Metadata as of one entry of the log."""

    image: MetadataImage
    index: int
    has_journal: bool
    """True: the last entries may not be committed yet. False: a broker's snapshot, which may be older."""


def load(directory: Path) -> LoadedMetadata:
    """Load from a log directory, or from the directory `__cluster_metadata` in it.

    Raises NoMetadata, Corruption, ContradictoryEntry and OSError.
    """
    is_inner = directory.name == journal_segments.DIRECTORY_NAME
    if str(directory).startswith("--bootstrap-server"):
        raise NoMetadata("the shell reads files, not a cluster: give a log directory of a node on this machine")
    folder = directory if is_inner else directory / journal_segments.DIRECTORY_NAME
    if not folder.is_dir():
        raise NoMetadata(f"{directory} is no log directory with metadata: it has no {journal_segments.DIRECTORY_NAME}")
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return _load(folder)
        except FileNotFoundError:
            continue
    return _load(folder)


def _load(folder: Path) -> LoadedMetadata:
    # Those of the controller, and the snapshots that a broker writes for its own next start.
    disk, folders = RealDisk(), [folder, *(each for each in sorted(folder.rglob("*")) if each.is_dir())]
    # The journal first: if a segment of it is removed for a newer snapshot, it is missed, and all is looked up again.
    paths = [
        path
        for each in folders
        if each.name == journal_segments.DIRECTORY_NAME
        for path in journal_segments.segment_paths(each.parent, disk)
    ]
    snapshot = _latest_snapshot(disk, folders)
    if snapshot is None and not paths:
        raise NoMetadata(f"{folder} has neither a journal nor a snapshot")
    replayed, index = ReplayedImage(), 0
    if snapshot is not None:
        index = snapshot.id.index
        image = EMPTY_IMAGE
        for chunk in snapshot.chunks:
            image = replay_snapshot(image, decode_records(chunk, index))
        replayed = ReplayedImage(image=image)
    for entry in _entries(disk, paths):
        if entry.index <= index:
            continue
        if entry.index != index + 1:
            raise Corruption(str(folder), 0, f"entry {index + 1} is missing, the next one is {entry.index}")
        replayed, index = _replayed(replayed, entry), entry.index
    return LoadedMetadata(image=replayed.image, index=index, has_journal=bool(paths))


def _latest_snapshot(disk: RealDisk, folders: Iterable[Path]) -> Snapshot | None:
    stores = (SnapshotStore(disk, str(each)) for each in folders)
    found = sorted(((each, store) for store in stores for each in store.generations()), key=lambda each: each[0])
    while found:
        snapshot_id, store = found.pop()
        try:
            return store.read(snapshot_id)
        except Corruption:
            if not found:
                raise
    return None


def _entries(disk: RealDisk, paths: list[str]) -> Iterator[EntryRecord]:
    """Yield the entries that the journal has, in order."""
    entries: dict[int, EntryRecord] = {}
    for path in paths:
        for record in journal_format.scan(path, disk.read_file(path)).records:
            if isinstance(record, EntryRecord):
                entries[record.index] = record
            elif isinstance(record, TruncationRecord):
                for index in [each for each in entries if each >= record.from_index]:
                    del entries[index]
    yield from (entries[index] for index in sorted(entries))


def _replayed(before: ReplayedImage, entry: EntryRecord) -> ReplayedImage:
    try:
        decoded = command.decode(entry.command)
    except ValueError as error:
        raise Corruption("metadata log", entry.index, f"entry {entry.index}: {error}") from error
    # An entry stored in another term than it was decided in changes nothing.
    if decoded is None or decoded.decided_term != entry.term:
        return before
    return before.replay(decode_records(decoded.payload, entry.index))
