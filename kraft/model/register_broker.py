"""RegisterBroker: a broker makes itself known to the active controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.features import FeatureRange
from kraft.model.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, DirectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest:
    """`incarnation_id` is drawn anew by every process, `directory_ids` name what is on the broker's disks.

    `features` are the levels that the broker's version supports; one that names none is of the first version.
    `may_have_lost_records`: the process before this one acknowledged what it had not synced, and was not stopped in
    order, so that what it acknowledged last may not be there any more.
    """

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: UUID
    endpoints: list[Endpoint]
    rack: str
    directory_ids: list[DirectoryId]
    features: list[FeatureRange] = field(default_factory=list)
    may_have_lost_records: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationResult:
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
