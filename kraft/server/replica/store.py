"""The partition directories in a broker's log directories: found, made, checked for whose they are, set aside.

Each holds `partition.metadata` with the topic's id, so that what is left of a deleted topic is never taken for the log
of a new one with the same name. What is nobody's, and what is damaged and was replaced, is renamed and never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.log.disk import Disk, is_disk_full
from kraft.log.partition_log import PartitionLog
from kraft.metadata.configs import TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import TopicId, TopicPartition, uuid_from_text, uuid_to_text
from kraft.server.identity.storage import StorageError
from kraft.server.replica.log_configs import log_config
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.removals import DeletedDirectory

log = structlog.get_logger()

METADATA_FILE: Final = "partition.metadata"
CORRUPT_FILE: Final = "corrupt-replica"
"""Stands in the directory of a replica that was found to be damaged and could not be replaced yet."""

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
QUARANTINE_SUFFIX: Final = "-quarantine"
_ASIDE_STEM_MAX: Final = 230
"""File systems take 255 bytes, and the name of a partition alone may come near that."""
_DELETED_DIRECTORY: Final = re.compile(r"(?P<replica>.+)\.[0-9]+-delete")
_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})")


class DirectoryFailed(Exception):
    """A log directory could not be read or written to."""

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(f"{directory}: {error}")
        self.directory = directory
        self.is_full = is_disk_full(error)
        """The disk is whole and has no room: nothing that was there before is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition directory as it lies on the disk, before anybody said whether it belongs to this broker."""

    directory: str
    topic_partition: TopicPartition
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedReplica:
    """A replica that is served no more. `files_in_use` is held by whoever makes files in its directory."""

    topic_partition: TopicPartition
    directory: str
    files_in_use: AbstractContextManager[object]


class PartitionStore:
    """Methods block on the disk; the broker calls them in one thread. All raise DirectoryFailed.

    A partition lives in one log directory: where it is found, or, when it is new, in the one with fewest partitions.

    Logs may be opened ahead, while the broker does not know yet which partitions it has: that is the long part of a
    start, and it is the same work whoever leads. Nothing but recovery happens to them: a log that nobody asks for by
    its topic's id is closed as it is, before its directory is set aside.
    """

    def __init__(self, disk: Disk, directories: LogDirectories, *, closed_cleanly: Collection[str]) -> None:
        """`closed_cleanly` are the log directories in which every log was closed in order."""
        self._disk = disk
        self._directories = directories
        self._closed_cleanly = frozenset(closed_cleanly)
        self._names: dict[str, set[str]] = {}
        self._ahead: dict[FoundPartition, PartitionLog] = {}
        self._preferred: dict[TopicPartition, str] = {}

    def look_around(self) -> list[DirectoryFailed]:
        """The log directories that cannot be read. To be called first, so that each fails for itself."""
        failures = []
        for directory in self._directories.online:
            try:
                self._names_in(directory)
            except DirectoryFailed as failure:
                failures.append(failure)
        return failures

    # --- ahead of the metadata -------------------------------------------------------------------------------

    def found(self) -> list[FoundPartition]:
        """Every partition that can be opened ahead. What is wrong with others is told when they are asked for."""
        names: dict[str, str] = {}
        twice: set[str] = set()
        for directory in self._directories.online:
            with suppress(DirectoryFailed):
                for name in self._names_in(directory):
                    twice.update([name] if names.setdefault(name, directory) != directory else [])
        found = (self._found(names[name], name) for name in sorted(names.keys() - twice))
        return [each for each in found if each is not None]

    def _found(self, directory: str, name: str) -> FoundPartition | None:
        parsed = _PARTITION_DIRECTORY.fullmatch(name)
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

    def open_ahead(self, found: FoundPartition, config: TopicConfig) -> bool:
        """Opens the log and keeps it for `open`; False when it is damaged, which `open` will find as well."""
        try:
            self._check_not_marked(found.directory, str(found.topic_partition))
            self._ahead[found] = self._opened(found.directory, found.topic_partition, config)
        except Corruption:
            return False
        return True

    def close_ahead(self) -> None:
        """Closes, in order, the logs that were opened ahead and that nobody asked for. Raises Refusal."""
        while self._ahead:
            _, opened = self._ahead.popitem()
            opened.close()

    def release_ahead(self) -> None:
        """Closes them as they are: nobody is going to ask for them."""
        while self._ahead:
            _, opened = self._ahead.popitem()
            opened.release()

    def _release_ahead(self, directory: str, name: str) -> None:
        for found in [one for one in self._ahead if (one.directory, str(one.topic_partition)) == (directory, name)]:
            self._ahead.pop(found).release()

    # --- by the metadata -------------------------------------------------------------------------------------

    def holds(self, topic_partition: TopicPartition, topic_id: TopicId) -> bool:
        """Whether there is a directory of that partition. One of an earlier topic of that name is set aside.

        Raises Corruption when it cannot be told whose the directory is, StorageError for a partition in two places.
        """
        return self._find(topic_partition, topic_id) is not None

    def open(self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog:
        """The log of that partition, recovered, or a new empty one. Raises Corruption, and StorageError as `holds`."""
        found = self._find(topic_partition, topic_id)
        directory = found or self._create(topic_partition, topic_id)
        self._check_not_marked(directory, str(topic_partition))
        ahead = FoundPartition(directory=directory, topic_partition=topic_partition, topic_id=topic_id)
        if ahead in self._ahead:
            opened = self._ahead.pop(ahead)
            opened.reconfigure(log_config(config))
        else:
            opened = self._opened(directory, topic_partition, config)
        if found is not None:
            log.info("log opened", partition=str(topic_partition), **_facts(opened))
            if rebuilt := opened.recovery_report.indexes_rebuilt:
                event = "indexes rebuilt"
                log.warning(event, partition=str(topic_partition), directory=directory, segments=rebuilt)
        return opened

    def _opened(self, directory: str, topic_partition: TopicPartition, config: TopicConfig) -> PartitionLog:
        with failures_of(directory):
            return PartitionLog.open(
                self._disk,
                f"{directory}/{topic_partition}",
                log_config(config),
                topic_partition,
                directory in self._closed_cleanly,
            )

    def directory_of(self, topic_partition: TopicPartition) -> str | None:
        """The log directory with a partition directory of that name, whose ever it is; None when there is none."""
        candidates = self._directories_with(str(topic_partition))
        return candidates[0] if candidates else None

    def mark_corrupt(self, topic_partition: TopicPartition, directory: str, reason: str) -> None:
        """Has the replica taken for damaged at the next start, too, which may not read all of it."""
        path = f"{directory}/{topic_partition}/{CORRUPT_FILE}"
        if not self._is_there(directory, str(topic_partition)):
            return
        with failures_of(directory):
            if not self._disk.exists(path):
                self._disk.write_atomically(path, f"{reason}\n".encode())

    def quarantine(self, topic_partition: TopicPartition, directory: str) -> None:
        """Sets a damaged replica aside, so that a new one can be begun in its place."""
        name = str(topic_partition)
        if self._is_there(directory, name):
            aside = self._set_aside(directory, name, QUARANTINE_SUFFIX)
            log.error("damaged replica quarantined", directory=directory, renamed_to=aside)

    def mark_deleted(self, replicas: Sequence[DeletedReplica]) -> tuple[list[DeletedDirectory], list[DirectoryFailed]]:
        """Renames the directories of deleted replicas, durably: their names are free, and they are nobody's any more.

        Each log directory is synced once and fails for itself. Returns what is to be removed, and what failed.
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
        """None when there is no such directory, be it that it vanished."""
        name, names = str(replica.topic_partition), self._names_in(replica.directory)
        if name not in names:
            return None
        try:
            with replica.files_in_use:
                aside = self._rename_aside(replica.directory, name, DELETE_SUFFIX)
        except DirectoryFailed as failure:
            if not isinstance(failure.__cause__, FileNotFoundError):
                raise
            names.discard(name)
            return None
        return DeletedDirectory(directory=replica.directory, name=aside, replica=name)

    def marked_before(self) -> list[DeletedDirectory]:
        """Directories that an earlier process marked and did not remove."""
        found = []
        for directory in self._directories.online:
            for name in sorted(self._names_in(directory)):
                marked = _DELETED_DIRECTORY.fullmatch(name)
                if marked is not None:
                    found.append(DeletedDirectory(directory=directory, name=name, replica=marked["replica"]))
        return found

    def moved(self, topic_partition: TopicPartition, source: str, target: str) -> None:
        """Somebody else moved the directory of that partition from one log directory to another."""
        self._names_in(source).discard(str(topic_partition))
        self._names_in(target).add(str(topic_partition))

    def prefer(self, topic_partition: TopicPartition, directory: str) -> None:
        """If this process comes to begin that partition, it is to be in there."""
        self._preferred[topic_partition] = directory

    def set_strays_aside(self, held: Collection[TopicPartition]) -> None:
        """Renames the directories of partitions that this broker does not hold: their topics are gone."""
        for directory in self._directories.online:
            for name in sorted(self._names_in(directory)):
                found = _PARTITION_DIRECTORY.fullmatch(name)
                if found is None or TopicPartition(found["topic"], int(found["partition"])) in held:
                    continue
                if self._disk.exists(f"{directory}/{name}/{METADATA_FILE}"):
                    self._set_stray_aside(directory, name)

    # --- where partitions lie --------------------------------------------------------------------------------

    def _find(self, topic_partition: TopicPartition, topic_id: TopicId) -> str | None:
        name, found = str(topic_partition), []
        for directory in self._directories_with(name):
            if self._topic_id(directory, name) == topic_id:
                found.append(directory)
            else:
                self._set_stray_aside(directory, name)
        if len(found) > 1:
            raise StorageError(
                f"{topic_partition} is in {found[0]} and in {found[1]}: which is the right one cannot be told; "
                "move the one that was copied or restored by mistake elsewhere"
            )
        return found[0] if found else None

    def _create(self, topic_partition: TopicPartition, topic_id: TopicId) -> str:
        preferred = self._preferred.pop(topic_partition, None)
        if preferred is not None and self._directories.is_online(preferred):
            directory = preferred
        else:
            directory = min(self._directories.online, key=self._partition_count)
        path = f"{directory}/{topic_partition}"
        try:
            with failures_of(directory):
                self._disk.make_dir(path)
                self._disk.write_atomically(f"{path}/{METADATA_FILE}", encode_metadata(topic_id))
                self._disk.sync_dir(directory)
        except DirectoryFailed as failure:
            if failure.is_full:
                # The next attempt may choose another directory, and a partition is in one only.
                with suppress(OSError):
                    self._disk.remove_tree(path)
            raise
        self._names_in(directory).add(str(topic_partition))
        return directory

    def _partition_count(self, directory: str) -> int:
        return sum(_PARTITION_DIRECTORY.fullmatch(name) is not None for name in self._names_in(directory))

    def _directories_with(self, name: str) -> list[str]:
        return [directory for directory in self._directories.online if name in self._names_in(directory)]

    def _names_in(self, directory: str) -> set[str]:
        # Listed once, and not asked for name by name: a disk that fails must not seem to be an empty one.
        if directory not in self._names:
            with failures_of(directory):
                self._names[directory] = set(self._disk.list(directory))
        return self._names[directory]

    def _is_there(self, directory: str, name: str) -> bool:
        """Whether a replica that was found damaged has its directory yet: it may be the directory that vanished."""
        names = self._names_in(directory)
        with failures_of(directory):
            if name not in self._disk.list(directory):
                names.discard(name)
        return name in names

    # --- one partition's directory ---------------------------------------------------------------------------

    def _topic_id(self, directory: str, name: str) -> TopicId | None:
        """Whose directory it is; None for one that was never finished."""
        with failures_of(directory):
            return read_topic_id(self._disk, f"{directory}/{name}/{METADATA_FILE}")

    def _check_not_marked(self, directory: str, name: str) -> None:
        file = f"{directory}/{name}/{CORRUPT_FILE}"
        data = self._read_if_there(directory, file)
        if data is not None:
            reason = data.decode("utf-8", "replace").strip()
            raise Corruption(file, 0, f"this replica was found damaged before: {reason}")

    def _read_if_there(self, directory: str, file: str) -> bytes | None:
        with failures_of(directory):
            try:
                return self._disk.read_file(file)
            except FileNotFoundError:
                return None

    def _set_stray_aside(self, directory: str, name: str) -> None:
        aside = self._set_aside(directory, name, STRAY_SUFFIX)
        log.warning("stray partition directory renamed", directory=name, renamed_to=aside)

    def _set_aside(self, directory: str, name: str, suffix: str) -> str:
        """Nothing is deleted on a suspicion; the operator may. Returns the new name."""
        aside = self._rename_aside(directory, name, suffix)
        with failures_of(directory):
            self._disk.sync_dir(directory)
        return aside

    def _rename_aside(self, directory: str, name: str, suffix: str) -> str:
        """Not durable yet. Returns the new name."""
        self._release_ahead(directory, name)
        names, number, stem = self._names_in(directory), 0, name[:_ASIDE_STEM_MAX]
        while f"{stem}.{number}{suffix}" in names:
            number += 1
        aside = f"{stem}.{number}{suffix}"
        with failures_of(directory):
            self._disk.rename(f"{directory}/{name}", f"{directory}/{aside}")
        names.discard(name)
        names.add(aside)
        return aside


def encode_metadata(topic_id: TopicId) -> bytes:
    """What METADATA_FILE holds."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode("ascii")


def read_topic_id(disk: Disk, file: str) -> TopicId | None:
    """None when there is no such file. Raises Corruption, and OSError."""
    try:
        data = disk.read_file(file)
    except FileNotFoundError:
        return None
    try:
        lines = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines())
        return TopicId(uuid_from_text(lines["topic_id"]))
    except (ValueError, KeyError) as error:
        raise Corruption(file, 0, f"does not name a topic id: {error}") from error


@contextmanager
def failures_of(directory: str) -> Iterator[None]:
    """What goes wrong in here is that directory's failure."""
    try:
        yield
    except OSError as error:
        raise DirectoryFailed(directory, error) from error


def _facts(opened: PartitionLog) -> dict[str, object]:
    report = opened.recovery_report
    return {
        "log_start": opened.log_start_offset,
        "log_end": opened.log_end_offset,
        **{name: getattr(report, name) for name in report.__slots__ if getattr(report, name)},
    }
