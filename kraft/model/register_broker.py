"""RegisterBroker: registers a broker's process with the active controller."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct, field

from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.features import FeatureRange
from kraft.model.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, DirectoryId


class RegisterBrokerRequest(Struct, frozen=True, kw_only=True):
    """Registration of a broker's process. `incarnation_id` is random, new in every process.

    `directory_ids` are those of the broker's log directories. `features` are the levels that the broker's version
    supports; a broker that names none is of the first version. `may_have_lost_records`: the previous process
    acknowledged records before it synced them, and did not stop cleanly, so the last of them may be lost.
    """

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: UUID
    endpoints: list[Endpoint]
    rack: str
    directory_ids: list[DirectoryId]
    features: list[FeatureRange] = field(default_factory=list)
    may_have_lost_records: bool = False


class RegistrationResult(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
