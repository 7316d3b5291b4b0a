"""InitProducerId: gives a producer its id and epoch."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class InitProducerIdRequest(Struct, frozen=True, kw_only=True):
    transactional_id: str = ""
    """Empty for a producer without transactions; the other fields then have no meaning."""

    transaction_timeout_ms: int = 0
    """Time after which the coordinator aborts an open transaction."""

    producer_id: int | None = None
    """With the epoch, the identity that the producer has, to go on with it after an error (KIP-360)."""

    producer_epoch: int | None = None
    is_temporary: bool = False
    """True to delete the transactional id as soon as its transaction has ended."""


class InitProducerIdResponse(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode
    error_message: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
