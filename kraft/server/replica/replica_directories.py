"""The partition directories in a broker's log directories: found, created, checked for their topic ids, renamed.

Each has a `partition.metadata` with the topic's id, so that the log of a deleted topic is never taken for that of a new
topic with the same name. Stray directories, and damaged ones that were replaced, are renamed and never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Final

import structlog
from msgspec import Struct
from msgspec.structs import asdict

from kraft.log.disk import Disk, is_disk_full, is_shortage
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import LogDirectory, TopicId, TopicPartition, uuid_from_text, uuid_to_text
from kraft.server.identity.storage import StorageError
from kraft.server.replica.directory_names import PARTITION_DIRECTORY, DirectoryNames
from kraft.server.replica.directory_remover import DeletedDirectory
from kraft.server.replica.log_directories import LogDirectories

log = structlog.get_logger()

METADATA_FILE: Final = "partition.metadata"
CORRUPT_FILE: Final = "corrupt-replica"
"""File in the directory of a replica that was found corrupt and is not replaced yet."""

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
QUARANTINE_SUFFIX: Final = "-quarantine"
_STEM_MAX: Final = 230
"""Bytes kept of a partition's name when it is renamed: file names have at most 255 bytes with the suffix."""
_DELETED_DIRECTORY: Final = re.compile(r"(?P<replica>.+)\.[0-9]+-delete")


class DirectoryFailed(Exception):
    """A log directory could not be read or written to."""

    def __init__(self, directory: LogDirectory, error: OSError) -> None:
        super().__init__(f"{directory}: {error}")
        self.directory = directory
        self.is_full = is_disk_full(error)
        """True if the disk only has no room: everything written before is intact."""
        self.is_shortage = is_shortage(error)


class FoundPartition(Struct, frozen=True, kw_only=True):
    """A partition directory on the disk that may or may not be assigned to this broker in the metadata."""

    directory: LogDirectory
    topic_partition: TopicPartition
    topic_id: TopicId


class DeletedReplica(Struct, frozen=True, kw_only=True):
    """A replica that is no longer served. `files_in_use` is held by a thread that makes files in its directory."""

    topic_partition: TopicPartition
    directory: LogDirectory
    files_in_use: AbstractContextManager[object]


class ReplicaDirectories:
    """Partition directories. Methods block on the disk, but `plan`, `prefer` and `moved`. All raise DirectoryFailed.

    At the start one thread calls them; after that, those that concern one partition or one log directory are called in
    the thread of that directory.

    A partition is in one log directory: where it is found, or, if it is new, in the one with the fewest partitions
    among those with room.

    Logs may be preloaded before the broker has metadata: this is the longest part of a start, and does not depend on
    the partitions' roles. A preloaded log is only recovered: if it is not opened with its topic id later, it is closed
    without a write, before its directory is renamed.
    """

    def __init__(self, disk: Disk, directories: LogDirectories, *, closed_cleanly: Collection[LogDirectory]) -> None:
        """`closed_cleanly` are the log directories in which the earlier process closed every log cleanly."""
        self._disk = disk
        self._directories = directories
        self._closed_cleanly = frozenset(closed_cleanly)
        self._names: dict[LogDirectory, DirectoryNames] = {}
        self._preloaded: dict[FoundPartition, PartitionLog] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}

    def list_directories(self) -> list[DirectoryFailed]:
        """List every log directory; return those that cannot be read. Call it first, so that each fails on its own."""
        failures = []
        for directory in self._directories.online:
            try:
                self._names_in(directory)
            except DirectoryFailed as failure:
                failures.append(failure)
        return failures

    # --- before the metadata ---------------------------------------------------------------------------------

    def found(self) -> list[FoundPartition]:
        """Return every partition that can be preloaded. Errors of others are raised when they are opened."""
        names: dict[str, LogDirectory] = {}
        twice: set[str] = set()
        for directory in self._directories.online:
            with suppress(DirectoryFailed):
                for name in self._names_in(directory):
                    twice.update([name] if names.setdefault(name, directory) != directory else [])
        found = (self._found(names[name], name) for name in sorted(names.keys() - twice))
        return [each for each in found if each is not None]

    def _found(self, directory: LogDirectory, name: str) -> FoundPartition | None:
        parsed = PARTITION_DIRECTORY.fullmatch(name)
        if parsed is None:
            return None
        topic_partition = TopicPartition(parsed["topic"], int(parsed["partition"]))
        try:
            topic_id = self._topic_id(directory, name)
        except (Corruption, DirectoryFailed):
            return None
        if topic_id is None or str(topic_partition) != name:
            return None
        return FoundPartition(directory=directory, topic_partition=topic_partition, topic_id=topic_id)

    def preload(self, found: FoundPartition, config: TopicConfig) -> bool:
        """Open the log and keep it for `open`. Return False if it is corrupt, which `open` will find as well."""
        try:
            self._check_not_marked(found.directory, str(found.topic_partition))
            is_synced = found.directory in self._closed_cleanly
            self._preloaded[found] = self._opened(found.directory, found.topic_partition, config, is_synced=is_synced)
        except Corruption:
            return False
        return True

    def close_preloaded(self) -> None:
        """Close, with a clean shutdown, the preloaded logs that were not opened. Raises Refusal."""
        while self._preloaded:
            _, opened = self._preloaded.popitem()
            opened.close()

    def release_preloaded(self) -> None:
        """Close the preloaded logs that were not opened, without a write: they are not assigned to this broker."""
        while self._preloaded:
            _, opened = self._preloaded.popitem()
            opened.release()

    def _release_one(self, directory: LogDirectory, name: str) -> None:
        for found in [one for one in self._preloaded if (one.directory, str(one.topic_partition)) == (directory, name)]:
            self._preloaded.pop(found).release()

    # --- after the metadata ----------------------------------------------------------------------------------

    def holds(self, topic_partition: TopicPartition, topic_id: TopicId) -> bool:
        """Return whether there is a directory of that partition. One of an earlier topic of that name is renamed.

        Raises Corruption if the directory's topic id cannot be read, StorageError for a partition in two directories.
        """
        return self._find(topic_partition, topic_id) is not None

    def plan(self, topic_partition: TopicPartition, planned: Mapping[LogDirectory, int]) -> LogDirectory | None:
        """Return the log directory in which that partition is, or is best created; None if none is online.

        `planned` has the new partitions that are not created yet. Call it after the directories were listed.
        """
        places = self._directories_with(str(topic_partition)) or self._places_for(topic_partition, None, planned)
        return places[0] if places else None

    def open(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, place: LogDirectory | None = None
    ) -> PartitionLog:
        """Return the recovered log of that partition, or a new empty one, in `place` if there is room.

        A new one is durable but for its name: that is when its log directory is synced, once for many new logs.
        Raises Corruption and StorageError.
        """
        directory = self._find(topic_partition, topic_id)
        if directory is None:
            return self._created(topic_partition, topic_id, config, self._places_for(topic_partition, place, {}))
        self._check_not_marked(directory, str(topic_partition))
        key = FoundPartition(directory=directory, topic_partition=topic_partition, topic_id=topic_id)
        if key in self._preloaded:
            opened = self._preloaded.pop(key)
            opened.reconfigure(config)
        else:
            opened = self._opened(directory, topic_partition, config, is_synced=directory in self._closed_cleanly)
        log.info("log opened", partition=str(topic_partition), **_facts(opened))
        if rebuilt := opened.recovery_report.indexes_rebuilt:
            event = "indexes rebuilt"
            log.warning(event, partition=str(topic_partition), directory=directory, segments=rebuilt)
        return opened

    def _opened(
        self, directory: LogDirectory, topic_partition: TopicPartition, config: TopicConfig, *, is_synced: bool
    ) -> PartitionLog:
        with failures_of(directory):
            return PartitionLog.open(
                self._disk, f"{directory}/{topic_partition}", config, topic_partition, clean_shutdown=is_synced
            )

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the log directory with a partition directory of that name, of any topic id; None without one."""
        candidates = self._directories_with(str(topic_partition))
        return candidates[0] if candidates else None

    def mark_corrupt(self, topic_partition: TopicPartition, directory: LogDirectory, reason: str) -> None:
        """Mark the replica as corrupt for the next start too, which may not read the corrupt bytes."""
        path = f"{directory}/{topic_partition}/{CORRUPT_FILE}"
        if not self._exists(directory, str(topic_partition)):
            return
        with failures_of(directory):
            if not self._disk.exists(path):
                self._disk.write_atomically(path, f"{reason}\n".encode())

    def quarantine(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Rename a damaged replica's directory, so that a new one can be created in its place."""
        name = str(topic_partition)
        if self._exists(directory, name):
            renamed_to = self._rename_durably(directory, name, QUARANTINE_SUFFIX)
            log.error("corrupt replica quarantined", directory=directory, renamed_to=renamed_to)

    def mark_deleted(self, replicas: Sequence[DeletedReplica]) -> tuple[list[DeletedDirectory], list[DirectoryFailed]]:
        """Rename the directories of deleted replicas, durably: their names are free from then on.

        Each log directory is synced once and fails on its own. Returns the directories to remove, and the failures.
        """
        found: list[DeletedDirectory] = []
        failures: list[DirectoryFailed] = []
        for directory in dict.fromkeys(replica.directory for replica in replicas):
            if not self._directories.is_online(directory):
                continue
            try:
                names = [
                    marked
                    for replica in replicas
                    if replica.directory == directory and (marked := self._mark_deleted(replica)) is not None
                ]
                with failures_of(directory):
                    self._disk.sync_dir(directory)
            except DirectoryFailed as failure:
                failures.append(failure)
            else:
                found += names
        return found, failures

    def _mark_deleted(self, replica: DeletedReplica) -> DeletedDirectory | None:
        """Rename one directory; return None if it does not exist, or no longer."""
        name, names = str(replica.topic_partition), self._names_in(replica.directory)
        if name not in names:
            return None
        try:
            with replica.files_in_use:
                renamed_to = self._rename(replica.directory, name, DELETE_SUFFIX)
        except DirectoryFailed as failure:
            if not isinstance(failure.__cause__, FileNotFoundError):
                raise
            names.discard(name)
            return None
        return DeletedDirectory(directory=replica.directory, name=renamed_to, replica=name)

    def left_to_remove(self) -> list[DeletedDirectory]:
        """Return the directories that an earlier process renamed for deletion and did not remove."""
        found = []
        for directory in self._directories.online:
            for name in sorted(self._names_in(directory)):
                marked = _DELETED_DIRECTORY.fullmatch(name)
                if marked is not None:
                    found.append(DeletedDirectory(directory=directory, name=name, replica=marked["replica"]))
        return found

    def moved(self, topic_partition: TopicPartition, source: LogDirectory, target: LogDirectory) -> None:
        """Note that the directory of that partition was moved from one log directory to another."""
        self._names_in(source).discard(str(topic_partition))
        self._names_in(target).add(str(topic_partition))

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Set the log directory in which this process creates that partition, if it ever does."""
        self._preferred[topic_partition] = directory

    def rename_strays(self, held: Collection[TopicPartition]) -> None:
        """Rename the directories of partitions that are not in `held`: their topics were deleted or reassigned."""
        for directory in self._directories.online:
            for name in sorted(self._names_in(directory)):
                found = PARTITION_DIRECTORY.fullmatch(name)
                if found is None or TopicPartition(found["topic"], int(found["partition"])) in held:
                    continue
                if self._disk.exists(f"{directory}/{name}/{METADATA_FILE}"):
                    self._rename_stray(directory, name)

    # --- locations -------------------------------------------------------------------------------------------

    def _find(self, topic_partition: TopicPartition, topic_id: TopicId) -> LogDirectory | None:
        name, found = str(topic_partition), []
        for directory in self._directories_with(name):
            if self._topic_id(directory, name) == topic_id:
                found.append(directory)
            else:
                self._rename_stray(directory, name)
        if len(found) > 1:
            raise StorageError(
                f"{topic_partition} is in both {found[0]} and {found[1]}; "
                "move the one that was copied or restored by mistake out of the log directories"
            )
        return found[0] if found else None

    def _created(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, places: Sequence[LogDirectory]
    ) -> PartitionLog:
        """Return a new empty log, in the first of these log directories with room."""
        if not places:
            # The last one failed after this was asked for.
            raise DirectoryFailed(next(iter(self._directories.offline)), OSError("no log directory is online"))
        *others, last = places
        for directory in others:
            try:
                return self._created_in(directory, topic_partition, topic_id, config)
            except DirectoryFailed as failure:
                if not failure.is_full or str(topic_partition) in self._names_in(directory):
                    raise
        return self._created_in(last, topic_partition, topic_id, config)

    def _places_for(
        self, topic_partition: TopicPartition, place: LogDirectory | None, planned: Mapping[LogDirectory, int]
    ) -> Sequence[LogDirectory]:
        """Return the log directories in which that partition may be created, the preferred one and `place` first."""
        preferred = self._preferred.get(topic_partition)

        def rank(directory: LogDirectory) -> tuple[bool, bool, int]:
            count = self._names_in(directory).partition_count + planned.get(directory, 0)
            return directory != preferred, directory != place, count

        return sorted(self._directories.online, key=rank)

    def _created_in(
        self, directory: LogDirectory, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig
    ) -> PartitionLog:
        """Return a new empty log in that log directory; without room for it, leave nothing behind."""
        path = f"{directory}/{topic_partition}"
        self._names_in(directory).add(str(topic_partition))
        try:
            with failures_of(directory):
                self._disk.make_dir(path)
                self._write_metadata(path, topic_id)
            # Its first segment syncs the new directory, with the name of the metadata.
            opened = self._opened(directory, topic_partition, config, is_synced=True)
        except DirectoryFailed as failure:
            if failure.is_full:
                self.undo_creation(topic_partition, directory)
            raise
        self._preferred.pop(topic_partition, None)
        return opened

    def _write_metadata(self, path: str, topic_id: TopicId) -> None:
        """Write the file whole or not at all. Its name is durable when the directory is synced."""
        temporary = f"{path}/{METADATA_FILE}.tmp"
        with closing(self._disk.open(temporary, create=True)) as file:
            file.append([encode_metadata(topic_id)])
            file.sync()
        self._disk.rename(temporary, f"{path}/{METADATA_FILE}")

    def undo_creation(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Remove the directory of a new replica that lacks room and has no records.

        The next attempt may choose another log directory, and a partition must be in one only.
        """
        with failures_of(directory):
            with suppress(FileNotFoundError):
                self._disk.remove_tree(f"{directory}/{topic_partition}")
            self._disk.sync_dir(directory)
        self._names_in(directory).discard(str(topic_partition))

    def _directories_with(self, name: str) -> list[LogDirectory]:
        return [directory for directory in self._directories.online if name in self._names_in(directory)]

    def _names_in(self, directory: LogDirectory) -> DirectoryNames:
        # Listed once, instead of a check per name: a failing disk must not look empty.
        if directory not in self._names:
            with failures_of(directory):
                self._names[directory] = DirectoryNames(self._disk.list(directory))
        return self._names[directory]

    def _exists(self, directory: LogDirectory, name: str) -> bool:
        """Return whether a damaged replica still has its directory: it may be the directory that is missing."""
        names = self._names_in(directory)
        with failures_of(directory):
            if name not in self._disk.list(directory):
                names.discard(name)
        return name in names

    # --- one partition's directory ---------------------------------------------------------------------------

    def _topic_id(self, directory: LogDirectory, name: str) -> TopicId | None:
        """Return the directory's topic id; None if its creation was interrupted."""
        with failures_of(directory):
            return read_topic_id(self._disk, f"{directory}/{name}/{METADATA_FILE}")

    def _check_not_marked(self, directory: LogDirectory, name: str) -> None:
        file = f"{directory}/{name}/{CORRUPT_FILE}"
        data = self._read_if_there(directory, file)
        if data is not None:
            reason = data.decode("utf-8", "replace").strip()
            raise Corruption(file, 0, f"this replica was found corrupt earlier: {reason}")

    def _read_if_there(self, directory: LogDirectory, file: str) -> bytes | None:
        with failures_of(directory):
            try:
                return self._disk.read_file(file)
            except FileNotFoundError:
                return None

    def _rename_stray(self, directory: LogDirectory, name: str) -> None:
        # It is not deleted: an operator may need it.
        renamed_to = self._rename_durably(directory, name, STRAY_SUFFIX)
        log.warning("stray partition directory renamed", directory=directory, partition=name, renamed_to=renamed_to)

    def _rename_durably(self, directory: LogDirectory, name: str, suffix: str) -> str:
        """Rename a partition directory, durably. Return the new name."""
        renamed_to = self._rename(directory, name, suffix)
        with failures_of(directory):
            self._disk.sync_dir(directory)
        return renamed_to

    def _rename(self, directory: LogDirectory, name: str, suffix: str) -> str:
        """Rename a partition directory, not durably yet. Return the new name."""
        self._release_one(directory, name)
        names, number, stem = self._names_in(directory), 0, name[:_STEM_MAX]
        while f"{stem}.{number}{suffix}" in names:
            number += 1
        renamed_to = f"{stem}.{number}{suffix}"
        with failures_of(directory):
            self._disk.rename(f"{directory}/{name}", f"{directory}/{renamed_to}")
        names.discard(name)
        names.add(renamed_to)
        return renamed_to


def encode_metadata(topic_id: TopicId) -> bytes:
    """Return the content of METADATA_FILE."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode("ascii")


def read_topic_id(disk: Disk, file: str) -> TopicId | None:
    """Return the topic id in `file`; None without such a file. Raises Corruption and OSError."""
    try:
        data = disk.read_file(file)
    except FileNotFoundError:
        return None
    try:
        lines = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines())
        return TopicId(uuid_from_text(lines["topic_id"]))
    except (ValueError, KeyError) as error:
        raise Corruption(file, 0, f"no readable topic id: {error}") from error


@contextmanager
def failures_of(directory: LogDirectory) -> Iterator[None]:
    """Raise an OSError inside the block as DirectoryFailed of `directory`."""
    try:
        yield
    except OSError as error:
        raise DirectoryFailed(directory, error) from error


def _facts(opened: PartitionLog) -> dict[str, object]:
    """Return the ends of the log, and what recovery did: the fields of its report that say more than nothing."""
    report = asdict(opened.recovery_report)
    return {
        "log_start": opened.log_start_offset,
        "log_end": opened.log_end_offset,
        # A log that was cut to its start was torn at offset 0.
        **{name: value for name, value in report.items() if value or (name == "torn_at" and value is not None)},
    }
