"""Result of a request that changes committed offsets: records, and an error code for each partition."""

from __future__ import annotations

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.model.errors import ErrorCode


class DecidedOffsets(Struct, frozen=True, kw_only=True):
    """Records to append together, and the error codes to send once they are committed."""

    records: tuple[GroupRecord, ...]
    codes: tuple[ErrorCode, ...]
    """One for each partition, in the order of the request."""
