"""ProduceRecords and FetchRecords: single records instead of batches, for languages without our codec."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainHeader:
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecord:
    """Record of ProduceRecords or FetchRecords; with `timestamp_ms` -1, the broker sets the current time."""

    key: bytes | None = None
    value: bytes | None = None
    headers: list[PlainHeader] = field(default_factory=list)
    timestamp_ms: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRecordsRequest:
    topic: str
    partition: int
    acks: int
    timeout_ms: int
    records: list[PlainRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRecordsRequest:
    topic: str
    partition: int
    fetch_offset: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRecordsResponse:
    error_code: ErrorCode
    error_message: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: list[PlainRecord] = field(default_factory=list)
