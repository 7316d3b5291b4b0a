"""The file system itself, without FUSE: what the system calls of programs do, and what the loss of power does."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event, Lock
from typing import Final

from chaos.nemesis.power_loss.content import Content
from chaos.nemesis.power_loss.loss import AtStake, Loss
from chaos.nemesis.power_loss.names import ROOT, Names, NodeId, Place

KEEP_SIZE: Final = 1
"""Mode of `fallocate`: reserve space beyond the end of the file, and leave its size."""

_HOLD_DEADLINE_S: Final = 60.0
_DIRECTORY_MODE: Final = stat.S_IFDIR | 0o755


@dataclass(slots=True)
class _Node:
    mode: int
    content: Content | None
    """None is a directory."""

    accessed_ns: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class _Handle:
    node: NodeId
    path: str
    """Path by which it was opened."""

    appends: bool
    syncs: bool


class Volume:
    """One disk. Every method may be called by any thread; what programs would be refused raises OSError.

    `medium` is a directory for the durable contents, by number; the durable names are remembered here. `wait_for_disk`
    takes as long as a disk does for a sync: what is written meanwhile is not covered by it.
    """

    def __init__(self, medium: Path, wait_for_disk: Callable[[], None] = lambda: None) -> None:
        self._medium = medium
        self._wait_for_disk = wait_for_disk
        self._guard = Lock()
        self._is_off = False
        self._failing: str | None = None
        self._failed_bytes = 0
        self._may_sync = Event()
        self._may_sync.set()
        self.slow_sync_s = 0.0
        """Time that each sync takes longer."""
        self._names = Names()
        self._nodes = {ROOT: _Node(_DIRECTORY_MODE, None, time.time_ns(), time.time_ns())}
        self._last_node = ROOT
        self._handles: dict[int, _Handle] = {}
        self._last_handle = 0

    # --- power -----------------------------------------------------------------------------------------------

    def hold_syncs(self) -> None:
        """Make every sync hang until the power is cut, as on a disk that hangs; unsynced data accumulates."""
        self._may_sync.clear()

    def fail_syncs(self, path_ends_with: str) -> None:
        """Make syncs of files opened by such a path fail with EIO and mark their pages clean."""
        with self._guard:
            self._failing = path_ends_with

    def heal_syncs(self) -> int:
        """They succeed again. Returns how many bytes are to be read that no sync has written, or will."""
        with self._guard:
            self._failing = None
            failed_bytes, self._failed_bytes = self._failed_bytes, 0
            return failed_bytes

    def cut_power(self) -> None:
        """Cut the power: nothing becomes durable any more, and every call fails with EIO, running syncs included."""
        with self._guard:
            self._is_off = True
        self._may_sync.set()

    def restore_power(self, loss: Loss, seed: int) -> AtStake:
        """Decides what survived, and works again with that. All handles from before are dead."""
        chance = Random(seed)
        with self._guard:
            contents = [node.content for _, node in sorted(self._nodes.items()) if node.content is not None]
            unsynced = [content for content in contents if not content.is_synced]
            at_stake = AtStake(
                files=len(unsynced),
                written_bytes=sum(content.unsynced_bytes for content in unsynced),
                names=self._names.unsynced,
            )
            self._names.lose_power(loss, chance)
            for content in unsynced:
                content.lose_power(loss, chance)
            self._handles.clear()
            self._forget_nameless()
            self._is_off = False
            return at_stake

    @contextmanager
    def _powered(self) -> Iterator[None]:
        with self._guard:
            if self._is_off:
                raise _error(errno.EIO)
            yield

    # --- files -----------------------------------------------------------------------------------------------

    def create(self, path: str, mode: int, flags: int) -> int:
        """A handle to a new file; to the one of that name if there is one, without O_EXCL."""
        with self._powered():
            place = self._place(path)
            node_id = self._names.find(place)
            if node_id is not None and flags & os.O_EXCL:
                raise _error(errno.EEXIST, path)
            if node_id is None:
                node_id = self._new_node(stat.S_IFREG | stat.S_IMODE(mode))
                self._names.link(place, node_id)
            return self._open(node_id, path, flags)

    def open(self, path: str, flags: int) -> int:
        with self._powered():
            return self._open(self._find(path), path, flags)

    def _open(self, node_id: NodeId, path: str, flags: int) -> int:
        content = self._nodes[node_id].content
        if content is None:
            raise _error(errno.EISDIR, path)
        if flags & os.O_TRUNC and content.size:
            content.truncate(0)
        # O_SYNC contains O_DSYNC.
        return self._new_handle(_Handle(node_id, path, bool(flags & os.O_APPEND), bool(flags & os.O_DSYNC)))

    def open_dir(self, path: str) -> int:
        with self._powered():
            node_id = self._find(path)
            if self._nodes[node_id].content is not None:
                raise _error(errno.ENOTDIR, path)
            return self._new_handle(_Handle(node_id, path, appends=False, syncs=False))

    def read(self, handle: int, position: int, size: int) -> bytes:
        with self._powered():
            return self._content(handle).read(position, size)

    def write(self, handle: int, position: int, data: bytes) -> int:
        with self._powered():
            content = self._content(handle)
            content.write(content.size if self._handles[handle].appends else position, data)
            self._touch(self._handles[handle].node)
            syncs = self._handles[handle].syncs
        if syncs:
            self.sync(handle)
        return len(data)

    def truncate(self, path: str, size: int) -> None:
        with self._powered():
            node_id = self._find(path)
            content = self._nodes[node_id].content
            if content is None:
                raise _error(errno.EISDIR, path)
            content.truncate(size)
            self._touch(node_id)

    def allocate(self, handle: int, mode: int, position: int, size: int) -> None:
        """Space is not counted here, so to reserve it does nothing; without KEEP_SIZE the file grows."""
        with self._powered():
            content = self._content(handle)
            if mode & ~KEEP_SIZE:
                raise _error(errno.EOPNOTSUPP)
            if not mode & KEEP_SIZE and position + size > content.size:
                content.truncate(position + size)

    def sync(self, handle: int) -> None:
        """Also of a directory, which makes its names durable. Those of a file are not, when the file is synced."""
        with self._powered():
            node_id = self._handle(handle).node
            content = self._nodes[node_id].content
            mark = self._names.mark if content is None else content.mark
        self._wait_for_disk()
        if not self._may_sync.wait(_HOLD_DEADLINE_S):
            raise _error(errno.EIO)
        with self._powered():
            # The power may have been lost and restored meanwhile; then there is no such handle.
            path = self._handle(handle).path
            if self._failing is not None and path.endswith(self._failing):
                # Names are in the journal of the file system, and not lost by this.
                self._failed_bytes += 0 if content is None else content.fail_sync(mark)
                raise _error(errno.EIO, path)
            if content is not None:
                content.sync(mark)
            else:
                self._names.sync(node_id, mark)
                self._forget_nameless()

    def close(self, handle: int) -> None:
        with self._guard:
            self._handles.pop(handle, None)

    # --- names -----------------------------------------------------------------------------------------------

    def make_dir(self, path: str, mode: int) -> None:
        with self._powered():
            place = self._place(path)
            if self._names.find(place) is not None:
                raise _error(errno.EEXIST, path)
            self._names.link(place, self._new_node(stat.S_IFDIR | stat.S_IMODE(mode)))

    def list(self, path: str | None, handle: int) -> Sequence[str]:
        with self._powered():
            return self._names.list(self._node_of(path, handle))

    def unlink(self, path: str) -> None:
        with self._powered():
            if self._nodes[self._find(path)].content is None:
                raise _error(errno.EISDIR, path)
            self._names.unlink(self._place(path))

    def remove_dir(self, path: str) -> None:
        with self._powered():
            node_id = self._find(path)
            if self._nodes[node_id].content is not None:
                raise _error(errno.ENOTDIR, path)
            self._check_empty(node_id, path)
            self._names.unlink(self._place(path))

    def rename(self, source: str, target: str) -> None:
        with self._powered():
            moved, replaced = self._find(source), self._names.find(self._place(target))
            if moved == replaced:
                return
            if replaced is not None:
                is_dir = self._nodes[moved].content is None
                if is_dir != (self._nodes[replaced].content is None):
                    raise _error(errno.ENOTDIR if is_dir else errno.EISDIR, target)
                self._check_empty(replaced, target)
            self._names.rename(self._place(source), self._place(target))

    def _check_empty(self, node_id: NodeId, path: str) -> None:
        if self._names.list(node_id):
            raise _error(errno.ENOTEMPTY, path)

    # --- attributes ------------------------------------------------------------------------------------------

    def attributes(self, path: str | None, handle: int | None) -> dict[str, int]:
        """Return the fields of `struct stat`; times in nanoseconds. Only the size can be lost."""
        with self._powered():
            node_id = self._node_of(path, handle)
            node = self._nodes[node_id]
            size = 0 if node.content is None else node.content.size
            return {
                "st_ino": node_id,
                "st_mode": node.mode,
                "st_nlink": 2 if node.content is None else 1,
                "st_size": size,
                "st_blocks": -(-size // 512),
                "st_uid": os.getuid(),
                "st_gid": os.getgid(),
                "st_atime": node.accessed_ns,
                "st_mtime": node.modified_ns,
                "st_ctime": node.modified_ns,
            }

    def change_mode(self, path: str, mode: int) -> None:
        with self._powered():
            node = self._nodes[self._find(path)]
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)

    def change_times(self, path: str, accessed_ns: int, modified_ns: int) -> None:
        with self._powered():
            node = self._nodes[self._find(path)]
            node.accessed_ns, node.modified_ns = accessed_ns, modified_ns

    def space(self) -> dict[str, int]:
        """Return the fields of `struct statvfs` of the medium."""
        found = os.statvfs(self._medium)
        return {name: getattr(found, name) for name in dir(found) if name.startswith("f_") and name != "f_fsid"}

    # --- inside ----------------------------------------------------------------------------------------------

    def _find(self, path: str) -> NodeId:
        node_id = self._names.walk(_parts(path))
        if node_id is None:
            raise _error(errno.ENOENT, path)
        return node_id

    def _place(self, path: str) -> Place:
        *parents, name = _parts(path)
        parent = self._names.walk(parents)
        if parent is None:
            raise _error(errno.ENOENT, path)
        if self._nodes[parent].content is not None:
            raise _error(errno.ENOTDIR, path)
        return parent, name

    def _node_of(self, path: str | None, handle: int | None) -> NodeId:
        """Find the file by its handle if there is one: it may no longer have a name."""
        if handle is not None:
            return self._handle(handle).node
        assert path is not None
        return self._find(path)

    def _handle(self, handle: int) -> _Handle:
        if handle not in self._handles:
            raise _error(errno.EBADF)
        return self._handles[handle]

    def _content(self, handle: int) -> Content:
        content = self._nodes[self._handle(handle).node].content
        if content is None:
            raise _error(errno.EISDIR)
        return content

    def _touch(self, node_id: NodeId) -> None:
        self._nodes[node_id].modified_ns = time.time_ns()

    def _new_handle(self, handle: _Handle) -> int:
        # Numbers are not used again, so that a handle from before a loss of power is known for one.
        self._last_handle += 1
        self._handles[self._last_handle] = handle
        return self._last_handle

    def _new_node(self, mode: int) -> NodeId:
        self._last_node += 1
        content = Content(self._image(self._last_node)) if stat.S_ISREG(mode) else None
        self._nodes[self._last_node] = _Node(mode, content, time.time_ns(), time.time_ns())
        return self._last_node

    def _forget_nameless(self) -> None:
        kept = self._names.forget_unreachable() | {handle.node for handle in self._handles.values()}
        for node_id in self._nodes.keys() - kept:
            if self._nodes.pop(node_id).content is not None:
                self._image(node_id).unlink()

    def _image(self, node_id: NodeId) -> Path:
        return self._medium / str(node_id)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)
