"""Since when brokers are in service, as one controller has seen it.

While a broker is away, clients try to connect to it at growing intervals, and do not come back at once when it does:
librdkafka waits for up to 10 s. A partition that it leads before stands still for them. So a broker that came into
service a short time ago gets a leadership only if no other replica can have it.
Source: docs/adr/0050-brokers-lead-again-when-clients-are-back.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerEpoch, BrokerId

SETTLED_AFTER_MS: Final = 10_000
"""The longest interval between two attempts to connect: the default of librdkafka's `reconnect.backoff.max.ms`."""


Newcomers = Callable[[], Collection[BrokerId]]
"""Returns the brokers that came into service less than SETTLED_AFTER_MS ago."""


class _Service(Struct, frozen=True):
    broker_epoch: BrokerEpoch
    since_ms: int


class ServiceTimes:
    """Brokers that this controller found in service when it looked first have always been there."""

    def __init__(self) -> None:
        self._active: dict[BrokerId, _Service] = {}
        self._noted: object = None
        """The brokers of the image that was noted last; None before the first."""

    def note(self, image: MetadataImage, now_ms: int) -> None:
        """Note who is in service. Called many times a second, whether this controller is the active one or not."""
        if image.brokers is self._noted:
            return
        since_ms = now_ms if self._noted is not None else now_ms - SETTLED_AFTER_MS
        self._active = {each.broker_id: self._service(each, since_ms) for each in image.active_brokers()}
        self._noted = image.brokers

    def newcomers(self, now_ms: int) -> frozenset[BrokerId]:
        """Return the brokers that came into service less than SETTLED_AFTER_MS ago."""
        return frozenset(each for each, at in self._active.items() if now_ms < at.since_ms + SETTLED_AFTER_MS)

    def _service(self, broker: BrokerRegistration, since_ms: int) -> _Service:
        before = self._active.get(broker.broker_id)
        if before is not None and before.broker_epoch == broker.broker_epoch:
            return before
        return _Service(broker.broker_epoch, since_ms)
