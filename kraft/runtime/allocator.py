"""Settings of the C library's allocator for a broker.

Each fetch allocates about a megabyte and frees it again. By default glibc soon returns such memory to the system and
requests it again, and each page is then cleared and mapped once more: for responses of 64 KB batches that was more than
half of the CPU time.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

MAPPED_FROM_BYTES: Final = 4 * 1024 * 1024
"""Size from which a block is mapped by itself and returned to the system when freed; such blocks are rare."""

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Free memory at the end of the heap that the process keeps."""


def keep_freed_memory() -> bool:
    """Make the process keep freed memory. Call it before there are threads.

    Returns False without glibc, which costs only speed.

    Source: mallopt(3).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES), (_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)


def release_freed_memory() -> bool:
    """Return all freed memory to the system, even between blocks in use. Takes milliseconds: for use after a peak.

    Source: malloc_trim(3).
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(trim(0))
