"""Loss of power: which unsynced operations survive it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

SECTOR_BYTES: Final = 512
"""A sector reaches the medium as a whole or not at all."""

PAGE_BYTES: Final = 4096
"""Bytes that a kernel writes back in one piece."""


class Loss(Enum):
    """Choice of the unsynced operations that survive."""

    ALL = "all"
    """No unsynced operation survives."""

    TAIL = "tail"
    """The first operations survive, up to a random moment for each file and for the names. A write at that moment is
    torn at a sector boundary."""

    PAGES = "pages"
    """Random pages of random writes survive, of some only some sectors; one of the sizes that the file had; random
    changes of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStake:
    """Amount of data that was not synced when the power was lost."""

    files: int
    """Number of files with unsynced writes or truncations."""

    written_bytes: int
    """Bytes in unsynced writes, each counted in full."""

    names: int
    """Unsynced creations, removals and renames."""
