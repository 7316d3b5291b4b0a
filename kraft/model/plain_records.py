"""ProduceRecords and FetchRecords: single records instead of batches, for languages without our codec."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class PlainHeader(Struct, frozen=True, kw_only=True):
    key: str
    value: bytes | None


class PlainRecord(Struct, frozen=True, kw_only=True):
    """Record of ProduceRecords or FetchRecords; with `timestamp_ms` -1, the broker sets the current time."""

    key: bytes | None = None
    value: bytes | None = None
    headers: list[PlainHeader] = field(default_factory=list)
    timestamp_ms: int = -1
    offset: int = -1


class ProduceRecordsRequest(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    acks: int
    timeout_ms: int
    records: list[PlainRecord]


class FetchRecordsRequest(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    fetch_offset: int
    max_wait_ms: int
    max_bytes: int


class FetchRecordsResponse(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode
    error_message: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: list[PlainRecord] = field(default_factory=list)
