"""DeleteRecords: an offset with a meaning of its own."""

from __future__ import annotations

from typing import Final

HIGH_WATERMARK: Final = -1
"""Used in DeleteRecords for the high watermark: delete every committed record."""
