"""Numbers in requests of ListOffsets."""

from __future__ import annotations

READ_COMMITTED = 1
"""Isolation level of a consumer of committed records."""

LATEST_TIMESTAMP = -1
"""Used in ListOffsets for the high watermark, or the last stable offset."""

EARLIEST_TIMESTAMP = -2
"""Used in ListOffsets for the log start offset."""

MAX_TIMESTAMP = -3
"""Used in ListOffsets for the first record with the largest timestamp."""

EARLIEST_LOCAL_TIMESTAMP = -4
"""Used in ListOffsets for the first offset on this broker's disk, which is the log start offset (KIP-405)."""

LATEST_TIERED_TIMESTAMP = -5
"""Used in ListOffsets for the last offset in tiered storage (KIP-1005); there is none, and no error."""

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""Used in ListOffsets for the first offset that is not tiered yet (KIP-1023); there is none, and no error."""
