"""Owner of the log directories: `meta.properties`, the lock, and the clean shutdown marker, in each of them.

A directory is formatted once, for one node of one cluster, and no node starts with another's: its offsets would be
taken for acknowledged ones of this cluster. The file has Kafka's format, so that Kafka's tools read it.

A node starts without a directory that it cannot use, as long as it has another one, and, as a controller, the one with
the metadata log. A directory that is not formatted while others are is unusable, too: its disk may not be mounted, and
the empty mount point must not be used instead.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.model.ids import BrokerId, DirectoryId, uuid_from_text, uuid_to_text
from kraft.runtime.disk import FILE_MODE, RealDisk
from kraft.server.config import properties
from kraft.server.config.loading import ConfigError
from kraft.server.config.node_config import NodeConfig
from kraft.server.config.readers import cluster_id as read_cluster_id
from kraft.server.identity.metadata_directory import close_to_others

META_FILE = "meta.properties"
LOCK_FILE = ".lock"
SUPERVISOR_LOCK_FILE = ".supervisor.lock"
"""Held beside the lock of process 0, by the supervisor of the processes of one file."""

CLEAN_SHUTDOWN_FILE = ".kraft_cleanshutdown"

BOOTSTRAP_FILE = "bootstrap.checkpoint"
"""Kafka's name of the file with what a new cluster's metadata begins with."""

_FORMATTED_WITH = (META_FILE, BOOTSTRAP_FILE)

_META_VERSION = "1"
_DATA_DIRECTORY = re.compile(r"(.+-[0-9]+|__cluster_metadata.*)")


class StorageError(ConfigError):
    """The node must not, or cannot, use a log directory; one line, with the remedy."""


class InUse(StorageError):
    """Another process uses the directory."""


class StorageMeta(Struct, frozen=True, kw_only=True):
    """Content of the `meta.properties` of a directory."""

    cluster_id: str
    node_id: BrokerId
    directory_id: DirectoryId


class UsableLogDirectory(Struct, frozen=True, kw_only=True):
    """A usable log directory. `closed_cleanly`: the last stop closed every log in it in order.

    `has_been_used` is False before the first start.
    """

    path: Path
    directory_id: DirectoryId
    closed_cleanly: bool = False
    has_been_used: bool = True


class NodeStorage(Struct, frozen=True, kw_only=True):
    """Identity of the node, and its usable directories: at least one, in the order of log.dirs.

    `unusable` are the directories that it starts without, each with the reason in one line.
    """

    cluster_id: str
    node_id: BrokerId
    directories: tuple[UsableLogDirectory, ...]
    unusable: Mapping[Path, str] = field(default_factory=dict)


class Formatted(Struct, frozen=True, kw_only=True):
    """Result of formatting a directory. `created` is False if it already had the same ids."""

    directory: Path
    meta: StorageMeta
    created: bool


def random_cluster_id() -> str:
    """Return a new id in Kafka's text form, without a leading dash, which would look like an option."""
    while (text := uuid_to_text(uuid4())).startswith("-"):
        pass
    return text


def format(config: NodeConfig, cluster_id: str | None) -> list[Formatted]:
    """Format the node's directories for `cluster_id` or else the file's `cluster.id`; the first log directory is first.

    Raises StorageError without a cluster id, if the two differ, and if a directory belongs to another node.
    """
    chosen = _choose_cluster_id(config, cluster_id)
    found = [(directory, read_meta(directory)) for directory in _directories(config)]
    for directory, meta in found:
        _check_free_for(config, chosen, directory, meta)
    return [_format_one(directory, meta, chosen, config.node_id) for directory, meta in found]


def load(config: NodeConfig, unusable: Mapping[Path, str] | None = None) -> NodeStorage:
    """Read the node's directories, except those that are known to be `unusable`.

    Raises StorageError if one belongs to another node or cluster, and if too few are usable. A combined node that is
    the only voter formats its directories at its first start.
    """
    metas: dict[Path, StorageMeta | None] = {}
    problems = dict(unusable or {})
    for directory in _directories(config):
        if directory not in problems:
            try:
                metas[directory] = read_meta(directory)
            except StorageError as error:
                problems[directory] = str(error)
    if config.is_whole_cluster and not problems and not any(metas.values()):
        format(config, config.cluster_id or random_cluster_id())
        metas = {directory: read_meta(directory) for directory in metas}
    formatted = {directory: meta for directory, meta in metas.items() if meta is not None}
    for directory in metas.keys() - formatted.keys():
        problems[directory] = f"{directory} is not formatted: run 'kraft storage format -c {config.file}'"
    _check_enough_left(config, problems)
    first = next(iter(formatted.values()))
    for directory, meta in formatted.items():
        _check_owner(config, config.cluster_id or first.cluster_id, directory, meta)
    _check_no_copies(formatted)
    return NodeStorage(
        cluster_id=first.cluster_id,
        node_id=config.node_id,
        directories=tuple(
            UsableLogDirectory(
                path=directory,
                directory_id=formatted[directory].directory_id,
                closed_cleanly=(directory / CLEAN_SHUTDOWN_FILE).exists(),
                has_been_used=any(
                    each.name not in _FORMATTED_WITH and each.name[0] != "." for each in directory.iterdir()
                ),
            )
            for directory in config.log_dirs
            if directory in formatted
        ),
        unusable={directory: problems[directory] for directory in _directories(config) if directory in problems},
    )


class DirectoryLock:
    """Lock that keeps other processes out of a node's directories. The kernel releases it with the process.

    `unusable` are directories that could not be locked, with the reason; the node can run without them.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self.unusable: dict[Path, str] = {}

    def acquire(self, directory: Path, name: str = LOCK_FILE) -> None:
        """Lock a directory. Raises StorageError."""
        self._descriptors.append(_lock_one(directory, name))

    def release(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock(config: NodeConfig, name: str = LOCK_FILE) -> DirectoryLock:
    """Create the directories if necessary, lock them, and close the metadata log to other users.

    Raises StorageError if one is in use, and if too few are writable.
    """
    held = DirectoryLock()
    try:
        for directory in _directories(config):
            try:
                held.acquire(directory, name)
            except InUse:
                raise
            except StorageError as error:
                held.unusable[directory] = str(error)
        _check_enough_left(config, held.unusable)
        close_to_others(config.metadata_log_dir)
    except BaseException:
        held.release()
        raise
    return held


def leave_clean_shutdown_markers(directories: Iterable[Path]) -> None:
    """Mark each directory as closed in order; the last step of a clean shutdown.

    Raises StorageError after all were tried.
    """
    failures = []
    for directory in directories:
        try:
            with _writing_to(directory):
                RealDisk().write_atomically(str(directory / CLEAN_SHUTDOWN_FILE), b"version=1\n")
        except StorageError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def take_clean_shutdown_markers(config: NodeConfig, storage: NodeStorage) -> NodeStorage:
    """Read and remove the clean shutdown markers.

    The removal is durable before anything is appended again. A directory that cannot be written to is unusable.
    """
    taken, problems = [], dict(storage.unusable)
    for directory in storage.directories:
        try:
            taken.append(replace(directory, closed_cleanly=_take_marker(directory.path)))
        except StorageError as error:
            problems[directory.path] = str(error)
    _check_enough_left(config, problems)
    return replace(storage, directories=tuple(taken), unusable=problems)


def _take_marker(directory: Path) -> bool:
    with _writing_to(directory):
        try:
            os.remove(directory / CLEAN_SHUTDOWN_FILE)
        except FileNotFoundError:
            return False
        RealDisk().sync_dir(str(directory))
    return True


def _directories(config: NodeConfig) -> list[Path]:
    return list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))


def _check_enough_left(config: NodeConfig, unusable: Mapping[Path, str]) -> None:
    """Raise StorageError without a usable log directory, or, as a controller, without that of the metadata log."""
    if config.is_controller and config.metadata_log_dir in unusable:
        raise StorageError(unusable[config.metadata_log_dir])
    if all(directory in unusable for directory in config.log_dirs):
        raise StorageError(unusable[config.log_dir])


def _check_no_copies(formatted: Mapping[Path, StorageMeta]) -> None:
    owners: dict[DirectoryId, Path] = {}
    for directory, meta in formatted.items():
        other = owners.setdefault(meta.directory_id, directory)
        if other != directory:
            raise StorageError(
                f"{other} and {directory} have the same directory.id: one is a copy of the other: remove the copy"
            )


def _choose_cluster_id(config: NodeConfig, given: str | None) -> str:
    if given is None and config.cluster_id is None:
        raise StorageError(
            f"{config.file} has no cluster.id: add the id of the cluster, or use --cluster-id"
            " ('kraft storage random-uuid' prints one)"
        )
    if given is not None and config.cluster_id not in (None, given):
        raise StorageError(
            f"--cluster-id {given} contradicts cluster.id={config.cluster_id} of {config.file}: remove one of them"
        )
    try:
        return read_cluster_id(given or config.cluster_id or "")
    except ValueError as error:
        raise StorageError(f"--cluster-id {given}: {error}") from None


def cluster_id_of(config: NodeConfig) -> str | None:
    """Return the cluster's id as the file or the first formatted directory says; None if neither does."""
    for directory in () if config.cluster_id is not None else _directories(config):
        with suppress(StorageError):
            meta = read_meta(directory)
            if meta is not None:
                return meta.cluster_id
    return config.cluster_id


def read_meta(directory: Path) -> StorageMeta | None:
    """Read the `meta.properties` of a directory; None if it is not formatted. Raises StorageError."""
    file = directory / META_FILE
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        values = {found.key: found.value for found in properties.parse(data, str(file))}
        if values["version"] != _META_VERSION:
            raise StorageError(f"{file}: version {values['version']} is not supported: use a newer version of Kraft")
        return StorageMeta(
            cluster_id=uuid_to_text(uuid_from_text(values["cluster.id"])),
            node_id=BrokerId(int(values["node.id"])),
            directory_id=DirectoryId(uuid_from_text(values["directory.id"])),
        )
    except KeyError as missing:
        reason = f"{missing.args[0]} is missing"
    except ValueError as error:
        reason = str(error)
    raise StorageError(f"{file} is damaged ({reason}): restore it from a backup, or replace the whole directory")


def _check_free_for(config: NodeConfig, cluster_id: str, directory: Path, meta: StorageMeta | None) -> None:
    if meta is not None:
        _check_owner(config, cluster_id, directory, meta)
    elif data := _data_in(directory):
        # Formatting would adopt data of unknown origin.
        raise StorageError(
            f"{directory} holds data ({data}) but no {META_FILE}: restore the file, or move the data elsewhere"
        )


def _check_owner(config: NodeConfig, cluster_id: str, directory: Path, meta: StorageMeta) -> None:
    if meta.cluster_id != cluster_id:
        raise StorageError(
            f"{directory} belongs to cluster {meta.cluster_id}, not to {cluster_id}: "
            f"correct cluster.id or log.dirs in {config.file}"
        )
    if meta.node_id != config.node_id:
        raise StorageError(
            f"{directory} belongs to node {meta.node_id}, not to node {config.node_id}: "
            f"correct node.id or log.dirs in {config.file}"
        )


def _data_in(directory: Path) -> str | None:
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{directory}: cannot be read: {error.strerror}") from None
    return next((name for name in names if _DATA_DIRECTORY.fullmatch(name)), None)


def _format_one(directory: Path, meta: StorageMeta | None, cluster_id: str, node_id: BrokerId) -> Formatted:
    if meta is not None:
        return Formatted(directory=directory, meta=meta, created=False)
    meta = StorageMeta(cluster_id=cluster_id, node_id=node_id, directory_id=DirectoryId(_random_directory_id()))
    values = {
        "version": _META_VERSION,
        "cluster.id": meta.cluster_id,
        "node.id": str(meta.node_id),
        "directory.id": uuid_to_text(meta.directory_id),
    }
    with _writing_to(directory):
        RealDisk().make_dir(str(directory))
        RealDisk().write_atomically(str(directory / META_FILE), properties.serialize(values))
    return Formatted(directory=directory, meta=meta, created=True)


def _random_directory_id() -> UUID:
    return uuid_from_text(random_cluster_id())


def _lock_one(directory: Path, name: str) -> int:
    with _writing_to(directory):
        RealDisk().make_dir(str(directory))
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with _writing_to(directory):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise in_use(directory, holder) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def in_use(directory: Path, holder: int | str) -> InUse:
    """Return the error for a directory that the process with this pid has locked."""
    return InUse(
        f"{directory} is in use by another process (pid {holder}): stop it, or give this node its own log.dirs"
    )


@contextmanager
def _writing_to(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{directory}: cannot be written to: {error.strerror}: check log.dirs, the directory's permissions and its"
            " disk"
        ) from None
