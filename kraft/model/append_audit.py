"""AppendAudit: one broker's audit lines, appended by the leader of a partition of `__audit`. Kafka has no such call."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class AuditRecord(Struct, frozen=True, kw_only=True):
    key: bytes
    """The same for a line that is sent again, and for no other one."""

    value: bytes


class AppendAuditRequest(Struct, frozen=True, kw_only=True):
    partition: int
    records: list[AuditRecord]


class AppendAuditResponse(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode
    error_message: str = ""
