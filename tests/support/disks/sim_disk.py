"""A disk whose power fails where the test wants, and whose content then is one that a real disk might have.

Every file has two contents, the page cache that programs see and the durable image, with the operations between them
in order; so do the names. A crash chooses which of those operations survive. Every operation that changes the disk is a
numbered *point*: a run can be stopped at any of them, in the middle of the operation, which then counts as unsynced.

A crash leaves only what file systems allow: a sector of 512 bytes is written or not, sectors reach the disk in any
order, a file's new size may become durable before or after its data, and a name whose directory was not synced may be
old or new, independently of the file's content. A rename is one step.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.disks.open_by_path import OpenByPath
from tests.support.disks.sim_content import Buffer, Content, CrashMode, SyncFailure, Truncate, Write

TEMPORARY_SUFFIX: Final = ".tmp"
"""Suffix of the temporary file of `write_atomically`, as on the real disk."""


class PowerFailure(BaseException):
    """The power failed. Not an Exception, so that the program under test cannot catch it."""


# --- names ---------------------------------------------------------------------------------------------------

_Names = dict[str, Content | None]
"""None is a directory."""


@dataclass(frozen=True, slots=True)
class _Link:
    path: str
    content: Content | None

    def apply(self, names: _Names) -> None:
        names[self.path] = self.content

    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True, slots=True)
class _Unlink:
    path: str

    def apply(self, names: _Names) -> None:
        names.pop(self.path, None)

    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True, slots=True)
class _Rename:
    source: str
    target: str
    content: Content

    def apply(self, names: _Names) -> None:
        if names.get(self.source) is self.content:
            del names[self.source]
        names[self.target] = self.content

    def paths(self) -> tuple[str, ...]:
        return (self.source, self.target)


@dataclass(frozen=True, slots=True)
class _RenameTree:
    """Rename of a directory, with all known names in it."""

    source: str
    target: str

    def apply(self, names: _Names) -> None:
        if self.source in names and names[self.source] is None:
            for path in [path for path in names if _is_in(path, self.source)]:
                names[self.target + path[len(self.source) :]] = names.pop(path)

    def paths(self) -> tuple[str, ...]:
        return (self.source, self.target)


_NameOperation = _Link | _Unlink | _Rename | _RenameTree


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _renamed(operation: _NameOperation, source: str, target: str) -> _NameOperation:
    """The same operation after a rename of its directory."""

    def new(path: str) -> str:
        return target + path[len(source) :] if _is_in(path, source) else path

    match operation:
        case _Link():
            return _Link(new(operation.path), operation.content)
        case _Unlink():
            return _Unlink(new(operation.path))
        case _Rename():
            return _Rename(new(operation.source), new(operation.target), operation.content)
        case _RenameTree():
            return _RenameTree(new(operation.source), new(operation.target))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _directory(path: str) -> str:
    return "" if path == "." else path


class SimFile:
    """A handle. Implements `kraft.log.disk.File`; dead after a crash."""

    def __init__(self, disk: SimDisk, path: str, content: Content) -> None:
        self._disk = disk
        self._life = disk.life
        self._path = path
        self._content = content
        self._size = len(content.cache)
        self.is_closed = False

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        self._check_open()
        self._disk.check_read(self._path)
        return bytes(self._content.cache[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_open()
        self._disk.write(self._path, self._content, position, bytes(data))
        self._size = max(self._size, position + len(data))

    def append(self, pieces: Sequence[Buffer]) -> int:
        position = self._size
        self.write_at(position, b"".join(pieces))
        return position

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.truncate(self._path, self._content, size)
        self._size = size

    def reserve(self, size: int) -> None:
        self._check_open()
        self._disk.reserve(self._content, size)

    def sync(self) -> None:
        self._check_open()
        self._disk.sync(self._path, self._content)

    def close(self) -> None:
        self.is_closed = True

    def _check_open(self) -> None:
        if self.is_closed or self._life != self._disk.life:
            raise OSError(errno.EBADF, "the handle is closed, or its machine lost power", self._path)


class SimDisk:
    """Implements `kraft.log.disk.Disk`. Deterministic: all chance comes with the call of `crash`."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.points = 0
        """Number of operations that change the disk, begun so far."""
        self.stop_at: int | None = None
        """The power fails in the middle of the operation with this number; the first one is 1."""
        self.on_point: Callable[[], None] | None = None
        """Called in the middle of every such operation; a `clone` taken there may be crashed instead of the disk."""
        self.last_operation = ""
        self.capacity_bytes = capacity_bytes
        self.life = 0
        """Number of power failures."""
        self.is_off = False
        self.unreadable: set[str] = set()
        """Paths whose reads end in EIO."""
        self._sync_failures: list[tuple[str, SyncFailure]] = []
        self._names: _Names = {"": None}
        self._durable_names: _Names = {"": None}
        self._pending_names: list[_NameOperation] = []

    # --- power -----------------------------------------------------------------------------------------------

    def crash(self, mode: CrashMode, random: Random) -> None:
        """Lose power and get it back: all handles are dead, all injected faults are removed."""
        if mode is not CrashMode.KEEP:
            self._names = self._surviving_names(mode, random)
            for path in sorted(self._names):
                content = self._names[path]
                if content is not None:
                    content.crash(mode, random)
            self._durable_names = dict(self._names)
            self._pending_names.clear()
        self._sync_failures.clear()
        self.unreadable.clear()
        self.stop_at = self.on_point = None
        self.is_off = False
        self.life += 1

    def _surviving_names(self, mode: CrashMode, random: Random) -> _Names:
        pending = self._pending_names
        if mode is CrashMode.DROP:
            chosen = []
        elif mode is CrashMode.TEAR or random.random() < 0.5:
            chosen = pending[: random.randint(0, len(pending))]
        else:
            chosen = [operation for operation in pending if random.random() < 0.5]
        names = dict(self._durable_names)
        for operation in chosen:
            operation.apply(names)
        # The content of a directory whose own name did not survive is lost with it.
        return {path: content for path, content in names.items() if _is_reachable(path, names)}

    def clone(self) -> SimDisk:
        """Return a separate disk in the same state, unsynced operations included; no handles, hooks and faults."""
        contents: dict[int, Content] = {}

        def copied(content: Content | None) -> Content | None:
            if content is None:
                return None
            if id(content) not in contents:
                contents[id(content)] = content.copy()
            return contents[id(content)]

        clone = SimDisk(self.capacity_bytes)
        clone.points, clone.last_operation, clone.life = self.points, self.last_operation, self.life
        clone._names = {path: copied(content) for path, content in self._names.items()}
        clone._durable_names = {path: copied(content) for path, content in self._durable_names.items()}
        for operation in self._pending_names:
            match operation:
                case _Link():
                    clone._pending_names.append(_Link(operation.path, copied(operation.content)))
                case _Unlink() | _RenameTree():
                    clone._pending_names.append(operation)
                case _Rename():
                    content = copied(operation.content)
                    assert content is not None
                    clone._pending_names.append(_Rename(operation.source, operation.target, content))
        return clone

    def state(self) -> Hashable:
        """Equal for disks that read alike, now and after any further crash."""
        numbers: dict[int, int] = {}
        states: list[Hashable] = []

        def numbered(content: Content | None) -> int:
            if content is None:
                return -1
            if id(content) not in numbers:
                numbers[id(content)] = len(states)
                states.append(content.state())
            return numbers[id(content)]

        names, durable_names = (
            tuple((path, numbered(each[path])) for path in sorted(each)) for each in (self._names, self._durable_names)
        )
        pending = tuple(
            (type(each), each.paths(), numbered(getattr(each, "content", None))) for each in self._pending_names
        )
        return names, durable_names, pending, tuple(states), self.capacity_bytes

    # --- faults ----------------------------------------------------------------------------------------------

    def fail_next_sync(self, failure: SyncFailure, path_ends_with: str = "") -> None:
        """Make the next sync of such a file or directory fail with EIO; the one after it succeeds."""
        self._sync_failures.append((path_ends_with, failure))

    def flip_bit(self, path: str, bit: int) -> None:
        """Corrupt one bit on the medium; bit 0 is the lowest of the first byte."""
        content = self._file(path)
        for image in (content.cache, content.durable):
            if bit // 8 < len(image):
                image[bit // 8] ^= 1 << bit % 8

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a file's content without the log's knowledge; durable at once, and not a point."""
        content = Content(data)
        for names in (self._names, self._durable_names):
            names[path] = content

    # --- Disk ------------------------------------------------------------------------------------------------

    def open(self, path: str, create: bool) -> SimFile:
        self._check_power()
        if path not in self._names and create:
            self._check_directory(_parent(path))
            self._change_names(f"create {path}", _Link(path, Content()))
        return SimFile(self, path, self._file(path))

    def exists(self, path: str) -> bool:
        self._check_power()
        return _directory(path) in self._names

    def read_file(self, path: str) -> bytes:
        self._check_power()
        content = self._file(path)
        self.check_read(path)
        return bytes(content.cache)

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        if file.size:
            file.truncate(0)
        if data:
            file.write_at(0, data)
        file.sync()
        self.rename(temporary, path)
        self.sync_dir(_parent(path))

    def list(self, directory: str) -> Sequence[str]:
        self._check_power()
        directory = _directory(directory)
        self._check_directory(directory)
        return sorted(path.rpartition("/")[2] for path in self._names if path and _parent(path) == directory)

    def make_dir(self, path: str) -> None:
        self._check_power()
        if _directory(path) in self._names:
            return
        self.make_dir(_parent(path))
        self._change_names(f"make directory {path}", _Link(path, None))

    def remove(self, path: str) -> None:
        self._check_power()
        self._file(path)
        self._change_names(f"remove {path}", _Unlink(path))

    def remove_tree(self, path: str) -> None:
        self._check_directory(path)
        for name in self.list(path):
            inner = f"{path}/{name}"
            if self._names[inner] is None:
                self.remove_tree(inner)
            else:
                self.remove(inner)
        self._change_names(f"remove directory {path}", _Unlink(path))

    def rename(self, source: str, target: str) -> None:
        self._check_power()
        self._check_directory(_parent(target))
        if source in self._names and self._names[source] is None:
            self._rename_tree(source, target)
        else:
            self._change_names(f"rename {source} to {target}", _Rename(source, target, self._file(source)))

    def _rename_tree(self, source: str, target: str) -> None:
        if target in self._names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        # Unsynced operations in the directory itself stay with the directory, and are synced under its new name.
        inner = [each for each in self._pending_names if all(path.startswith(f"{source}/") for path in each.paths())]
        self._pending_names = [each for each in self._pending_names if each not in inner]
        _RenameTree(source, target).apply(self._names)
        self._pending_names.append(_RenameTree(source, target))
        self._pending_names += [_renamed(each, source, target) for each in inner]
        self._begin(f"rename directory {source} to {target}")

    def sync_dir(self, path: str) -> None:
        self._check_power()
        path = _directory(path)
        self._check_directory(path)
        self._begin(f"sync directory {path}")
        self._take_sync_failure(path, None)
        later: list[_NameOperation] = []
        for operation in self._pending_names:
            if path in map(_parent, operation.paths()):
                operation.apply(self._durable_names)
            else:
                later.append(operation)
        self._pending_names = later

    def open_dir(self, path: str) -> OpenByPath:
        return OpenByPath(self.sync_dir, path)

    def free_bytes(self, directory: str) -> int:
        self._check_power()
        return max(0, self.capacity_bytes - self._used_bytes())

    # --- for its files ---------------------------------------------------------------------------------------

    def check_read(self, path: str) -> None:
        self._check_power()
        if path in self.unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def write(self, path: str, content: Content, position: int, data: bytes) -> None:
        """Write; if there is too little room, write the first part before the error, as file systems do."""
        self._check_power()
        growth = max(position + len(data) - content.allocated, 0)
        missing = growth - self.free_bytes("") if growth else 0
        content.change(Write(position, data[: len(data) - max(missing, 0)]))
        self._begin(f"write {len(data)} bytes at {position} of {path}")
        if missing > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def truncate(self, path: str, content: Content, size: int) -> None:
        self._check_power()
        content.change(Truncate(size))
        content.reserved = 0
        self._begin(f"truncate {path} to {size}")

    def reserve(self, content: Content, size: int) -> None:
        self._check_power()
        if size - content.allocated > self.free_bytes(""):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        content.reserved = max(content.reserved, size)

    def sync(self, path: str, content: Content) -> None:
        self._check_power()
        self._begin(f"sync {path}")
        self._take_sync_failure(path, content)
        content.sync()

    # --- inside ----------------------------------------------------------------------------------------------

    def _begin(self, operation: str) -> None:
        """Begin an operation: a crash here may keep its change or lose it."""
        self.points += 1
        self.last_operation = operation
        if self.on_point is not None:
            self.on_point()
        if self.points == self.stop_at:
            self.is_off = True
            raise PowerFailure(f"in operation {self.points}: {operation}")

    def _check_power(self) -> None:
        if self.is_off:
            raise PowerFailure("the power is off")

    def _take_sync_failure(self, path: str, content: Content | None) -> None:
        for index, (suffix, failure) in enumerate(self._sync_failures):
            if path.endswith(suffix):
                del self._sync_failures[index]
                if content is not None:
                    content.fail_sync(failure)
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _change_names(self, words: str, operation: _NameOperation) -> None:
        operation.apply(self._names)
        self._pending_names.append(operation)
        self._begin(words)

    def _file(self, path: str) -> Content:
        content = self._names.get(path)
        if content is None:
            missing = errno.EISDIR if path in self._names else errno.ENOENT
            raise OSError(missing, os.strerror(missing), path)
        return content

    def _check_directory(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self._names[path] is not None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def _used_bytes(self) -> int:
        contents: Iterable[Content | None] = {id(content): content for content in self._names.values()}.values()
        return sum(content.allocated for content in contents if content is not None)


def _is_reachable(path: str, names: _Names) -> bool:
    while path:
        path = _parent(path)
        if path not in names:
            return False
    return True
