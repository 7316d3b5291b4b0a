"""Heartbeat: a broker keeps its session with the active controller."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """`metadata_index` is the last metadata entry that the broker has acted on."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_index: int
    wants_shutdown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """`may_stop` answers `wants_shutdown`: nothing is left that another broker could take over."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    is_fenced: bool = True
    may_stop: bool = False
    committed_index: int = 0
