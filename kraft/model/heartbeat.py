"""Heartbeat: keeps a broker's session with the active controller alive."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId


class BrokerHeartbeatRequest(Struct, frozen=True, kw_only=True):
    """Heartbeat of a broker. `metadata_index` is the last metadata entry that it has applied."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_index: int
    wants_shutdown: bool


class BrokerHeartbeatResult(Struct, frozen=True, kw_only=True):
    """Result of a heartbeat. `may_stop` answers `wants_shutdown`: no leadership is left to be moved."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    is_fenced: bool = True
    may_stop: bool = False
    committed_index: int = 0
