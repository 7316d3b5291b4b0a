"""Directories of replicas that move from one log directory of a broker to another, in every state after a crash.

A copy is made in `<topic>-<partition>.<id>-future` of the log directory that the replica moves to. When it is whole and
synced, it takes the place of the original in two steps:

1. `<topic>-<partition>` of the original is renamed to `<topic>-<partition>.<id>-moved`, and its log directory synced.
   From then on the copy is the replica.
2. The copy is renamed to `<topic>-<partition>`, and its log directory synced.

Then the original is removed. Before step 1 a crash leaves the original, and a copy that is discarded; after it, the
`-moved` directory shows that the copy with the same id is whole, and the next start does step 2. Two directories never
have the replica's own name at the same time, and each step is durable before the next one.

If a log directory cannot be used, the copies in the others stay as they are: it may hold the original. See
docs/adr/0021-moves-between-log-directories.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.disk import Disk, OpenDirectory
from kraft.model.errors import Corruption
from kraft.model.ids import LogDirectory, TopicId, TopicPartition
from kraft.server.replica.replica_directories import (
    METADATA_FILE,
    DirectoryFailed,
    encode_metadata,
    failures_of,
    read_topic_id,
)

log = structlog.get_logger()

COPY_SUFFIX: Final = "-future"
MOVED_SUFFIX: Final = "-moved"
NAME_BYTES_MAX: Final = 255
"""Longest file name on common file systems."""

_NAME: Final = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,9})\.(?P<id>[0-9a-f]{32})(?P<suffix>-future|-moved)"
)


class LeftCopy(Struct, frozen=True, kw_only=True):
    """A copy left by an earlier process. `topic_id` is None if it cannot be read."""

    directory: LogDirectory
    """The log directory."""
    topic_partition: TopicPartition
    move_id: str
    topic_id: TopicId | None


def copy_name(topic_partition: TopicPartition, move_id: str) -> str:
    """Return the directory name of a copy. `move_id` has 32 random hexadecimal digits."""
    return f"{topic_partition}.{move_id}{COPY_SUFFIX}"


def moved_name(topic_partition: TopicPartition, move_id: str) -> str:
    return f"{topic_partition}.{move_id}{MOVED_SUFFIX}"


# --- during a move ---------------------------------------------------------------------------------------------------


def begin_copy(
    disk: Disk, directory: LogDirectory, topic_partition: TopicPartition, topic_id: TopicId, move_id: str
) -> None:
    """Create an empty directory for a copy, durably: after a restart it stands for the requested move.

    Raises DirectoryFailed.
    """
    path = f"{directory}/{copy_name(topic_partition, move_id)}"
    with failures_of(directory):
        try:
            disk.make_dir(path)
            disk.write_atomically(f"{path}/{METADATA_FILE}", encode_metadata(topic_id))
            disk.sync_dir(directory)
        except OSError:
            with suppress(OSError):
                disk.remove_tree(path)
            raise


@contextmanager
def opened(disk: Disk, directory: LogDirectory) -> Iterator[OpenDirectory]:
    """Hold a log directory open for a step: one that is half done must not lack a file. Raises DirectoryFailed."""
    with failures_of(directory):
        held = disk.open_dir(directory)
    with closing(held):
        yield held


def rename_original(
    disk: Disk, directory: LogDirectory, topic_partition: TopicPartition, move_id: str, held: OpenDirectory
) -> None:
    """Do step 1 in the directory that is `held` open. The copy must be whole and durable.

    Raises DirectoryFailed, after which it may be done or not.
    """
    with failures_of(directory):
        disk.rename(f"{directory}/{topic_partition}", f"{directory}/{moved_name(topic_partition, move_id)}")
        held.sync()


def put_copy_in_place(
    disk: Disk, directory: LogDirectory, topic_partition: TopicPartition, move_id: str, held: OpenDirectory
) -> None:
    """Do step 2 in the directory that is `held` open. Raises DirectoryFailed."""
    with failures_of(directory):
        disk.rename(f"{directory}/{copy_name(topic_partition, move_id)}", f"{directory}/{topic_partition}")
        held.sync()


def remove_copy(disk: Disk, directory: LogDirectory, topic_partition: TopicPartition, move_id: str) -> None:
    """Remove the copy of a move that ended before step 1. Raises DirectoryFailed."""
    _remove(disk, directory, copy_name(topic_partition, move_id))


def remove_original(disk: Disk, directory: LogDirectory, topic_partition: TopicPartition, move_id: str) -> None:
    """Remove the original after step 2. Raises DirectoryFailed."""
    _remove(disk, directory, moved_name(topic_partition, move_id))


def _remove(disk: Disk, directory: LogDirectory, name: str) -> None:
    with failures_of(directory):
        if disk.exists(f"{directory}/{name}"):
            disk.remove_tree(f"{directory}/{name}")
            disk.sync_dir(directory)


# --- at the start ----------------------------------------------------------------------------------------------------


def finish_moves(disk: Disk, directories: Sequence[LogDirectory]) -> list[DirectoryFailed]:
    """Finish the moves that a crash interrupted after step 1.

    Call it before `ReplicaDirectories` looks for replicas in these log directories. Returns the failures, without
    those of directories that cannot be listed, which `ReplicaDirectories` finds too.
    """
    failures: list[DirectoryFailed] = []
    names: dict[LogDirectory, set[str]] = {}
    for directory in directories:
        with suppress(OSError):
            names[directory] = set(disk.list(directory))
    for directory, held in names.items():
        for name in sorted(held):
            found = _NAME.fullmatch(name)
            if found is None or found["suffix"] != MOVED_SUFFIX:
                continue
            try:
                _finish(disk, directory, _replica(found), found["id"], names)
            except DirectoryFailed as failure:
                failures.append(failure)
    return failures


def _finish(
    disk: Disk,
    original: LogDirectory,
    topic_partition: TopicPartition,
    move_id: str,
    names: dict[LogDirectory, set[str]],
) -> None:
    name, copy = str(topic_partition), copy_name(topic_partition, move_id)
    places = [directory for directory, held in names.items() if name in held]
    copies = [directory for directory, held in names.items() if copy in held]
    facts = {"partition": name, "moved_from": original}
    if places and not copies:
        # A killed process may not have synced its last rename.
        for directory in places:
            with failures_of(directory):
                disk.sync_dir(directory)
    elif len(copies) == 1 and not places:
        with failures_of(original):
            disk.sync_dir(original)
        with opened(disk, copies[0]) as held:
            put_copy_in_place(disk, copies[0], topic_partition, move_id, held)
        names[copies[0]] = names[copies[0]] - {copy} | {name}
        log.info("interrupted replica move completed", moved_to=copies[0], **facts)
    else:
        log.error(
            "interrupted replica move ambiguous, original kept",
            kept=f"{original}/{moved_name(topic_partition, move_id)}",
            in_place=places,
            copies=copies,
            **facts,
        )
        return
    remove_original(disk, original, topic_partition, move_id)


def copies_left(disk: Disk, directories: Sequence[LogDirectory]) -> list[LeftCopy]:
    """Return the copies that earlier processes left and that are not the replica itself. Raises DirectoryFailed."""
    names: dict[LogDirectory, Sequence[str]] = {}
    for directory in directories:
        with failures_of(directory):
            names[directory] = disk.list(directory)
    moved = {name for held in names.values() for name in held if name.endswith(MOVED_SUFFIX)}
    left = []
    for directory, held in names.items():
        for name in held:
            found = _NAME.fullmatch(name)
            if found is None or found["suffix"] != COPY_SUFFIX or moved_name(_replica(found), found["id"]) in moved:
                continue
            with failures_of(directory):
                left.append(_left_copy(disk, directory, name, found))
    return left


def _left_copy(disk: Disk, directory: LogDirectory, name: str, found: re.Match[str]) -> LeftCopy:
    try:
        topic_id = read_topic_id(disk, f"{directory}/{name}/{METADATA_FILE}")
    except Corruption:
        topic_id = None
    return LeftCopy(directory=directory, topic_partition=_replica(found), move_id=found["id"], topic_id=topic_id)


def _replica(found: re.Match[str]) -> TopicPartition:
    return TopicPartition(found["topic"], int(found["partition"]))
