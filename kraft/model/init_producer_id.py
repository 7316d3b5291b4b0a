"""InitProducerId: allocates an id for an idempotent producer."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    pass


class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode
    error_message: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
