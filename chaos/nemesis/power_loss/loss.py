"""What a loss of power does to what was not synced."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

SECTOR_BYTES: Final = 512
"""A sector reaches the medium as a whole or not at all."""

PAGE_BYTES: Final = 4096
"""What a kernel writes back at once, if nothing goes wrong in between."""


class Loss(Enum):
    """What of it survives."""

    ALL = "all"
    """Nothing does."""

    TAIL = "tail"
    """What was done first, up to a random moment for each file and for the names. A write at that moment is torn at a
    sector's edge."""

    PAGES = "pages"
    """Any pages of any writes, of some of them only some sectors; any of the sizes that the file had; of the names, any
    changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStake:
    """What was not synced when the power was lost."""

    files: int
    """With unsynced writes or truncations."""

    written_bytes: int
    """In unsynced writes, each counted in full."""

    names: int
    """Unsynced creations, removals and renames."""
