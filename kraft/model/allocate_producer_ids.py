"""AllocateProducerIds: a block of producer ids for one broker."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import NO_PRODUCER_ID, BrokerEpoch, BrokerId, ProducerId


class AllocateProducerIdsRequest(Struct, frozen=True, kw_only=True):
    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class ProducerIdBlock(Struct, frozen=True, kw_only=True):
    """`count` producer ids from `first` on, which no other broker gets."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    first: ProducerId = NO_PRODUCER_ID
    count: int = 0
