"""The swap of one cleaned file for several segments: all or nothing, even if a crash interrupts it.

A group covers the offsets [base, end); its file is `<base>.log.cleaned`, synced. Its segments are replaced in steps:

1. The file is renamed to `<base>.<end>.swap`, and the directory synced. From here on the swap will be completed.
2. The files of segments that begin inside (base, end) are renamed to `.deleted`, and the indexes of the segment at base
   removed: they do not fit the new content, and can be rebuilt. The directory is synced, because a disk may keep later
   renames and lose earlier ones, and a new file with an old index would be a log with wrong positions.
3. The swap file is renamed to `<base>.log`, and the directory synced.

Before 1 a crash leaves the old segments; after it, recovery finds the `.swap` and does 2 and 3, which can be repeated.
Groups have to be swapped in the order of their offsets, one after the other: a group may have dropped a tombstone whose
older records only the groups before it have dropped, and they must not reappear. So there is at most one `.swap`.

A group keeps the base offset of its first segment, even if it keeps no record: the file is then empty. So neither the
log start nor the end of the segment before it changes. Kafka does the same in UnifiedLog.replaceSegments.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kraft.log.disk import Disk
from kraft.log.segment.paths import DELETED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, file_name
from kraft.model.errors import Corruption
from kraft.model.ids import Offset

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

_OFFSET_DIGITS: Final = 20
_SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)


def cleaned_path(directory: str, base_offset: Offset) -> str:
    """Return the path of the cleaned file of the group that begins at `base_offset`."""
    return f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{CLEANED_SUFFIX}"


def swap_in(disk: Disk, directory: str, base_offset: Offset, end_offset: Offset) -> list[str]:
    """Replace the segments of the group by its cleaned file, durably.

    Returns the paths of the replaced files, renamed to `.deleted`, for the caller to remove later. Open handles of old
    segments go on reading the old content.
    """
    swap = f"{directory}/{base_offset:020d}.{end_offset:020d}{SWAP_SUFFIX}"
    disk.rename(cleaned_path(directory, base_offset), swap)
    disk.sync_dir(directory)
    return _finish(disk, directory, swap, base_offset, end_offset)


def complete_swaps(disk: Disk, directory: str) -> list[Offset]:
    """Complete swaps that a crash interrupted, and discard those not begun. Returns the base offsets of completed ones.

    Recovery calls it before it looks for segments. It may be interrupted and repeated. Leaves `.deleted` files, which
    recovery removes. Raises Corruption for a `.swap` file that `swap_in` did not leave.
    """
    names = disk.list(directory)
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{directory}/{name}")
    swaps = sorted(_parse(directory, name) for name in names if name.endswith(SWAP_SUFFIX))
    for (_, end_offset, _), (base_offset, _, path) in pairwise(swaps):
        if base_offset < end_offset:
            raise Corruption(path, 0, f"the swap overlaps another one that ends at offset {end_offset}")
    for base_offset, end_offset, path in swaps:
        _finish(disk, directory, path, base_offset, end_offset)
    return [base_offset for base_offset, _, _ in swaps]


def _finish(disk: Disk, directory: str, swap: str, base_offset: Offset, end_offset: Offset) -> list[str]:
    deleted: list[str] = []
    for name in disk.list(directory):
        offset, suffix = _segment_file(name)
        path = f"{directory}/{name}"
        if offset is None:
            continue
        if base_offset < offset < end_offset:
            deleted.append(path + DELETED_SUFFIX)
            disk.rename(path, path + DELETED_SUFFIX)
        elif offset == base_offset and suffix in INDEX_SUFFIXES:
            disk.remove(path)
    disk.sync_dir(directory)
    disk.rename(swap, f"{directory}/{file_name(base_offset, LOG_SUFFIX)}")
    disk.sync_dir(directory)
    return deleted


def _segment_file(name: str) -> tuple[int | None, str]:
    """Return base offset and suffix of a segment's file; no offset for any other file."""
    stem, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    return (int(stem) if suffix in _SEGMENT_SUFFIXES and _is_offset(stem) else None), suffix


def _parse(directory: str, name: str) -> tuple[Offset, Offset, str]:
    base, _, end = name.removesuffix(SWAP_SUFFIX).partition(".")
    path = f"{directory}/{name}"
    if not (_is_offset(base) and _is_offset(end) and base < end):
        raise Corruption(path, 0, "the file name is not <base offset>.<end offset>.swap")
    return Offset(int(base)), Offset(int(end)), path


def _is_offset(text: str) -> bool:
    return len(text) == _OFFSET_DIGITS and text.isascii() and text.isdigit()
