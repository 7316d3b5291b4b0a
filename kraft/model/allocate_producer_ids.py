"""AllocateProducerIds: a block of producer ids for one broker."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_PRODUCER_ID, BrokerEpoch, BrokerId, ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """`count` producer ids from `first` on, which no other broker gets."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    first: ProducerId = NO_PRODUCER_ID
    count: int = 0
