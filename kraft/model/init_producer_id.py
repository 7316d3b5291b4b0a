"""InitProducerId: allocates an id for an idempotent producer."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    error_code: ErrorCode
    error_message: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
