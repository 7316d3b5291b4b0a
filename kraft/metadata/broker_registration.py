"""A broker as the metadata has it."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """A broker's last registration and its state.

    A fenced broker has no session, or has not caught up with the metadata yet: it leads nothing, and clients are not
    sent to it. A broker in controlled shutdown still serves, but gets no new replicas or leaderships. A broker with an
    operator fence stays fenced until an operator removes it.
    """

    broker_id: BrokerId
    incarnation_id: UUID
    broker_epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str
    directory_ids: tuple[DirectoryId, ...]
    fenced: bool
    in_controlled_shutdown: bool
    fenced_by_operator: bool = False
    features: tuple[FeatureRange, ...] = ()

    @property
    def active(self) -> bool:
        """True if the broker may be elected and join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def may_stop(self) -> bool:
        """True once a controlled shutdown is complete: this registration is never unfenced again."""
        return self.fenced and self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)
