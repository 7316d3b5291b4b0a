"""Parts that the APIs of transactional producers share."""

from __future__ import annotations

from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId


def producer_of(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(ProducerId(producer_id), ProducerEpoch(epoch))


def code_for(refusal: Refusal, knows_producer_fenced: bool) -> ErrorCode:
    """Return the error code of a refusal: older clients know a fenced producer only by INVALID_PRODUCER_EPOCH."""
    if refusal.error_code is ErrorCode.PRODUCER_FENCED and not knows_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return refusal.error_code
