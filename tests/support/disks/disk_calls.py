"""The calls of a log on a disk, to compare one disk with another."""

from __future__ import annotations

import pytest

from kraft.log.disk import Disk


def what_a_log_does(disk: Disk, root: str) -> list[object]:
    """Make every kind of call; return the results."""
    seen: list[object] = []
    directory = f"{root}/orders-0"
    disk.make_dir(f"{directory}/deeper")
    file = disk.open(f"{directory}/a.log", create=True)
    seen += [file.append([b"one", bytearray(b"two")]), file.append([memoryview(b"three")]), file.size]
    file.reserve(1000)
    seen += [file.size, file.read_at(3, 5), file.read_at(9, 100), file.read_at(50, 1)]
    file.write_at(20, b"far")
    seen += [file.size, file.read_at(0, 100)]
    file.truncate(7)
    file.sync()
    file.truncate(12)
    seen += [file.size, file.read_at(0, 100)]
    second = disk.open(f"{directory}/a.log", create=True)
    seen += [second.size, second.read_at(0, 3)]
    disk.rename(f"{directory}/a.log", f"{directory}/b.log")
    file.write_at(0, b"ONE")
    seen.append(disk.read_file(f"{directory}/b.log"))
    disk.write_atomically(f"{directory}/b.log", b"replaced")
    disk.write_atomically(f"{directory}/empty", b"")
    seen += [disk.read_file(f"{directory}/b.log"), disk.read_file(f"{directory}/empty"), file.read_at(0, 3)]
    disk.sync_dir(directory)
    seen += [list(disk.list(directory)), disk.exists(directory), disk.exists(f"{directory}/a.log")]
    disk.remove(f"{directory}/empty")
    seen += [list(disk.list(directory)), disk.free_bytes(directory) > 0]
    for missing in (
        lambda: disk.open(f"{directory}/none", create=False),
        lambda: disk.open(f"{root}/none/x", create=True),
        lambda: disk.read_file(f"{directory}/none"),
        lambda: disk.remove(f"{directory}/none"),
        lambda: disk.rename(f"{directory}/none", f"{directory}/some"),
        lambda: disk.list(f"{directory}/none"),
        lambda: disk.sync_dir(f"{directory}/none"),
        lambda: disk.remove_tree(f"{directory}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            missing()
    file.close()
    with pytest.raises(OSError, match=r".") as closed:
        file.read_at(0, 1)
    seen.append(closed.value.errno)
    disk.remove_tree(directory)
    seen += [disk.exists(directory), list(disk.list(root))]
    return seen
