"""LivenessStream: the call that a broker in service holds open to the active controller."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.ids import BrokerEpoch, BrokerId


class LivenessRequest(Struct, frozen=True, kw_only=True):
    """The broker whose process holds the stream open."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class LivenessResponse(Struct, frozen=True, kw_only=True):
    """Confirms that the controller counts the stream as open."""
