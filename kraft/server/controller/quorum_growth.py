"""Growing a quorum from one controller to several, while it is stopped.

The old controller leaves its quorum: its journal keeps its entries, its term and its vote, but belongs to no quorum any
more. The directory of each new controller gets a copy of it, as another incarnation. Once all of them run, they form a
quorum together, as the controllers of a new cluster do.

That is safe, whatever is interrupted, repeated or left out: a quorum is formed only by all of its voters at once, and
only with equal logs. While they belong to none, they store nothing. So a copy that was made before the old controller
went on alone forms nothing, and a copy that is made again, after a quorum was formed, is a learner there.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from kraft.model.errors import Corruption
from kraft.quorum.journal import DIRECTORY_NAME, QuorumJournal, stored_membership
from kraft.quorum.membership import INCARNATION_BYTES, Membership
from kraft.runtime.disk import RealDisk
from kraft.server.config.node_config import NodeConfig
from kraft.server.identity import storage
from kraft.server.identity.storage import DirectoryLock, InUse, StorageError, StorageMeta

_METADATA: Final = "__cluster_metadata"
_SNAPSHOTS: Final = "controller"
_COPY: Final = "copy"
"""Directory of a copy that is not complete."""


class Growth(Struct, frozen=True, kw_only=True):
    """What was done. `entries` is the index of the last entry of the metadata log; `changed` is False for nothing."""

    directory: Path
    entries: int
    voters: tuple[int, ...]
    changed: bool = True


def leave_quorum(config: NodeConfig) -> Growth:
    """Let the stopped single controller of this file leave its quorum, to form one with the voters of the file.

    Raises StorageError, with the remedy, and changes nothing then.
    """
    voters = _voters(config)
    if not config.is_controller or config.node_id not in voters or len(voters) < 2:
        raise StorageError(
            f"{config.file}: controller.quorum.voters names the controllers {list(voters)}: name this node and the new"
            " ones, in the files of all nodes"
        )
    if storage.read_meta(config.metadata_log_dir) is None:
        raise StorageError(f"{config.metadata_log_dir} is not formatted: name the file of the old controller")
    if not _has_journal(config.metadata_log_dir):
        raise _never_in_quorum(config)
    with storage.lock(config), _journal(config.metadata_log_dir) as journal:
        membership = journal.membership
        if membership is None:
            raise StorageError(
                f"the metadata log in {config.metadata_log_dir} is empty, or of an earlier version: start and stop its"
                " node once, with controller.quorum.voters as it was"
            )
        found = Growth(directory=config.metadata_log_dir, entries=journal.last_index, voters=voters)
        if membership.is_new:
            # A single controller has voted for itself. A copy has its vote, and an empty log none.
            if journal.getVotedForNodeId() != config.node_id:
                raise _never_in_quorum(config)
            return Growth(directory=found.directory, entries=found.entries, voters=voters, changed=False)
        if len(membership.founders) > 1 or config.node_id not in membership.founders:
            raise StorageError(
                f"node {config.node_id} belongs to a quorum of the nodes {sorted(membership.founders)}: only a single"
                " controller can grow; to remove or replace others is not supported yet"
            )
        journal.set_membership(_outside_of_quorums(config.node_id))
        journal.sync()
        return found


def check_source(config: NodeConfig, source: Path, cluster_id: str | None = None) -> str:
    """Check that the node of a file may get a copy from `source`; return the id of its cluster.

    `cluster_id` is the id that the node is to be formatted for, by default that of its file. Raises StorageError.
    """
    meta = _meta_of_source(config, source, cluster_id)
    with _held_source(source, meta):
        return meta.cluster_id


def copy_log(config: NodeConfig, source: Path) -> Growth:
    """Copy the metadata log of the controller that left its quorum from its directory `source`, for the node of a file.

    The node's directories are formatted already. The copy is complete or absent. Raises StorageError.
    """
    target = config.metadata_log_dir
    meta, own = _meta_of_source(config, source), storage.read_meta(target)
    if own is None or own.cluster_id != meta.cluster_id:
        raise StorageError(f"{source} belongs to cluster {meta.cluster_id}, not to that of {target}")
    with _held_source(source, meta) as entries, storage.lock(config):
        _copy(source / _METADATA, target / _METADATA, _outside_of_quorums(config.node_id))
    return Growth(directory=target, entries=entries, voters=_voters(config))


def _meta_of_source(config: NodeConfig, source: Path, cluster_id: str | None = None) -> StorageMeta:
    """Check whose directory the source is. It may be in use."""
    if not config.is_controller or len(_voters(config)) < 2:
        raise StorageError(f"{config.file}: only a controller, one of several, gets a copy of a controller's log")
    if source.resolve() in (directory.resolve() for directory in (*config.log_dirs, config.metadata_log_dir)):
        raise StorageError(f"{source} is this node's own directory: give log.dirs of the old controller")
    meta = storage.read_meta(source)
    if meta is None:
        raise StorageError(f"{source} is not the directory of a node: give log.dirs of the old controller")
    expected = cluster_id or config.cluster_id or meta.cluster_id
    if meta.cluster_id != expected:
        raise StorageError(f"{source} belongs to cluster {meta.cluster_id}, not to {expected}, that of {config.file}")
    if meta.node_id == config.node_id or meta.node_id not in _voters(config):
        raise StorageError(
            f"{source} belongs to node {meta.node_id}: controller.quorum.voters of {config.file} must name it, beside"
            f" node {config.node_id}"
        )
    # Also while the source runs: to stop it would lead nowhere.
    founders = _founders(source)
    if config.node_id in founders:
        raise StorageError(
            f"the quorum {founders} is formed: no copy is needed: format without --from-controller, and start"
        )
    return meta


def _founders(source: Path) -> list[int]:
    """Return the voters that formed the source's quorum; none if nothing says so."""
    # What cannot be read is reported when the journal is opened, which it cannot be while its node runs.
    with suppress(OSError, Corruption):
        if (membership := stored_membership(source / _METADATA, RealDisk())) is not None:
            return sorted(membership.founders)
    return []


@contextmanager
def _held_source(source: Path, meta: StorageMeta) -> Iterator[int]:
    """Keep the source from being started, and yield the index of its last entry. It must have left its quorum."""
    with DirectoryLock() as lock:
        try:
            lock.acquire(source)
        except InUse:
            raise StorageError(
                f"the source, node {meta.node_id}, is running: stop it with 'kraft server stop -c' and its file"
            ) from None
        with _journal(source) as journal:
            if journal.membership is None or not journal.membership.is_new or not journal.getCurrentTerm():
                raise StorageError(
                    f"the controller in {source} has not left its quorum: run 'kraft storage grow-quorum -c FILE' with"
                    " its file first"
                )
            entries = journal.last_index
        yield entries


def _copy(source: Path, target: Path, membership: Membership) -> None:
    """Copy snapshots, then the journal, which is renamed last: without it there is no metadata log."""
    staging, journal_directory, snapshots = target / _COPY, target / DIRECTORY_NAME, target / _SNAPSHOTS
    if journal_directory.exists():
        _check_replaceable(target, source)
    if snapshots.exists() and not journal_directory.exists() and not staging.exists():
        raise StorageError(f"{snapshots} holds metadata snapshots of a controller: move it away")
    try:
        # It marks what an interruption leaves behind as incomplete.
        RealDisk().make_dir(str(staging))
        _sync_directories(target, target.parent)
        for superfluous in (journal_directory, snapshots, staging / DIRECTORY_NAME):
            if superfluous.exists():
                shutil.rmtree(superfluous)
        _sync_directories(staging, target)
        if (source / _SNAPSHOTS).exists():
            _copy_files(source / _SNAPSHOTS, target / _SNAPSHOTS)
        _copy_files(source / DIRECTORY_NAME, staging / DIRECTORY_NAME)
        with _opened(staging) as journal:
            journal.set_membership(membership)
            journal.sync()
        _sync_directories(staging / DIRECTORY_NAME, staging, target)
        os.rename(staging / DIRECTORY_NAME, target / DIRECTORY_NAME)
        _sync_directories(staging, target)
        os.rmdir(staging)
    except OSError as error:
        raise StorageError(f"{target}: the metadata log cannot be copied: {error.strerror}: run it again") from None


def _check_replaceable(target: Path, source: Path) -> None:
    """Check that a metadata log may be replaced. Raises StorageError.

    A controller that belongs to a quorum, or may, has voted and stored entries. One that does not may be the old
    controller, which went on alone after the source was copied from it.
    """
    with _opened(target) as journal:
        end, membership = _log_end(journal), journal.membership
    if membership is None or not membership.is_new:
        raise StorageError(
            f"{target / DIRECTORY_NAME} is the metadata log of a controller that belongs to a quorum: it gets what it"
            " lacks from the others"
        )
    with _opened(source) as journal:
        source_end = _log_end(journal)
    if end > source_end:
        raise StorageError(
            f"the metadata log in {target} is newer than that in {source}: it ends at entry {end[1]} of term {end[0]},"
            f" not at entry {source_end[1]} of term {source_end[0]}: copy the newer one to the other controllers"
        )


def _log_end(journal: QuorumJournal) -> tuple[int, int]:
    """Return term and index of the last entry: the greater pair is the more up-to-date log."""
    return journal.term_at(journal.last_index) or 0, journal.last_index


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files of a directory, durable on return."""
    disk = RealDisk()
    disk.make_dir(str(target))
    for name in disk.list(str(source)):
        disk.write_atomically(str(target / name), disk.read_file(str(source / name)))
    _sync_directories(target, target.parent)


def _sync_directories(*directories: Path) -> None:
    for directory in directories:
        RealDisk().sync_dir(str(directory))


@contextmanager
def _journal(directory: Path) -> Iterator[QuorumJournal]:
    """Open the journal of a controller's directory, which is locked. Raises StorageError."""
    if not _has_journal(directory):
        raise StorageError(f"{directory} holds no metadata log: give the directory or file of the old controller")
    with _opened(directory / _METADATA) as journal:
        yield journal


def _has_journal(directory: Path) -> bool:
    return (directory / _METADATA / DIRECTORY_NAME).exists()


def _never_in_quorum(config: NodeConfig) -> StorageError:
    return StorageError(f"node {config.node_id} has never been in a quorum: name the file of the old controller")


@contextmanager
def _opened(directory: Path) -> Iterator[QuorumJournal]:
    try:
        journal = QuorumJournal(directory, RealDisk())
    except (Corruption, OSError) as error:
        raise StorageError(f"the metadata log in {directory} cannot be read: {error}") from None
    try:
        yield journal
    finally:
        journal.close()


def _outside_of_quorums(node_id: int) -> Membership:
    return Membership(node_id=node_id, incarnation=secrets.token_bytes(INCARNATION_BYTES))


def _voters(config: NodeConfig) -> tuple[int, ...]:
    return tuple(sorted(voter.node_id for voter in config.quorum.voters))
