"""This broker's registration, for all parts that send its id and epoch to other nodes."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId


@dataclass(slots=True, kw_only=True)
class OwnRegistration:
    """Id and epoch of this broker."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """-1 until the broker is registered. Only its lifecycle sets it."""
