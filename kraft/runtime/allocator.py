"""The C library's allocator, told what a broker needs of it.

A fetch allocates a megabyte and frees it again, over and over. By default glibc soon hands such memory back to the
system and asks for it anew, and each page of it is then cleared and mapped once more: for answers of 64 KB batches that
was more than half of all the work.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

MAPPED_FROM_BYTES: Final = 4 * 1024 * 1024
"""Larger blocks are rare. Each is mapped by itself, and goes back to the system when it is freed."""

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""So much that is free at the end of the heap stays with the process."""


def keep_freed_memory() -> bool:
    """For the whole process, before it has threads. False where there is no glibc: nothing is lost by that but speed.

    Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES), (_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)


def give_back_freed_memory() -> bool:
    """All of it, also what lies between blocks in use. It takes milliseconds: for after a crowd, not for every day.

    Source: malloc_trim(3).
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))
