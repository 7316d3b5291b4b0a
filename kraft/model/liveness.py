"""Attend: the call that a broker in service holds open."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.ids import BrokerEpoch, BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessRequest:
    """A broker in service that holds this call open while it lives."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessResponse:
    """The call counts from here on."""
