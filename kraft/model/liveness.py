"""LivenessStream: the call that a broker in service holds open to the active controller."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.ids import BrokerEpoch, BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessRequest:
    """The broker whose process holds the stream open."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessResponse:
    """Confirms that the controller counts the stream as open."""
