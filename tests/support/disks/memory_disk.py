"""A disk in memory that loses unsynced data on `crash`, and fails on request."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.disks.open_by_path import OpenByPath

Buffer = bytes | bytearray | memoryview


class _Content:
    """Content of a file, and the part of it that would survive a crash."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""


class MemoryFile:
    def __init__(self, disk: MemoryDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self.is_closed = False

    @property
    def size(self) -> int:
        return len(self._content.data)

    def read_at(self, position: int, size: int) -> bytes:
        self._check_open()
        return bytes(self._content.data[position : position + size])

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_open()
        self._disk.check_write()
        self._content.data[position : position + len(data)] = data

    def append(self, pieces: Sequence[Buffer]) -> int:
        position = self.size
        self.write_at(position, b"".join(pieces))
        return position

    def truncate(self, size: int) -> None:
        self._check_open()
        del self._content.data[size:]

    def reserve(self, size: int) -> None:
        self._check_open()

    def sync(self) -> None:
        self._check_open()
        self._disk.check_sync()
        self._content.durable = bytes(self._content.data)

    def close(self) -> None:
        self.is_closed = True

    def _check_open(self) -> None:
        if self.is_closed:
            raise OSError("the file is closed")


class MemoryDisk:
    """Directories are only prefixes of paths. Files opened before a crash must not be used after it."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._durable_files: dict[str, _Content] = {}
        self.fails_writes = False
        self.fails_next_sync = False
        self.syncs = 0

    def crash(self, kept_bytes: int = 0) -> None:
        """Lose power. Of the bytes appended to a file since its last sync, the first `kept_bytes` survive."""
        self._files = dict(self._durable_files)
        for content in self._files.values():
            is_appended = bytes(content.data[: len(content.durable)]) == content.durable
            survived = content.data[: len(content.durable) + kept_bytes] if is_appended else content.durable
            content.data = bytearray(survived)
            content.durable = bytes(survived)
        self.fails_writes = self.fails_next_sync = False

    def check_write(self) -> None:
        if self.fails_writes:
            raise OSError("no space left on device")

    def check_sync(self) -> None:
        self.syncs += 1
        if self.fails_next_sync:
            self.fails_next_sync = False
            raise OSError("input/output error")

    def open(self, path: str, create: bool) -> MemoryFile:
        if path not in self._files:
            if not create:
                raise FileNotFoundError(path)
            self._files[path] = _Content()
        return MemoryFile(self, self._files[path])

    def exists(self, path: str) -> bool:
        return path in self._files or any(name.startswith(path + "/") for name in self._files)

    def read_file(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(path)
        return bytes(self._files[path].data)

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a file's content without the log's knowledge; durable at once."""
        content = self._files.setdefault(path, _Content())
        content.data = bytearray(data)
        content.durable = data
        self._durable_files[path] = content

    def write_atomically(self, path: str, data: bytes) -> None:
        self.check_write()
        self.check_sync()
        self._files.pop(path, None)
        self.write_file(path, data)

    def list(self, directory: str) -> Sequence[str]:
        prefix = directory + "/"
        return sorted(path.removeprefix(prefix) for path in self._files if path.startswith(prefix))

    def make_dir(self, path: str) -> None:
        pass

    def remove(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(path)
        del self._files[path]

    def remove_tree(self, path: str) -> None:
        for name in self.list(path):
            self.remove(f"{path}/{name}")

    def rename(self, source: str, target: str) -> None:
        self._files[target] = self._files.pop(source)

    def sync_dir(self, path: str) -> None:
        self.check_sync()
        prefix = path + "/"
        gone = [name for name in self._durable_files if name.startswith(prefix) and name not in self._files]
        for name in gone:
            del self._durable_files[name]
        self._durable_files.update({name: file for name, file in self._files.items() if name.startswith(prefix)})

    def open_dir(self, path: str) -> OpenByPath:
        return OpenByPath(self.sync_dir, path)

    def free_bytes(self, directory: str) -> int:
        return 1 << 40
