"""Brokers that were fenced recently and that Metadata still lists for Kafka's clients.

librdkafka (2.10 and later) ends a broker's thread when Metadata no longer lists that broker. If the same response has a
new leader for a partition of this broker, the partition is lost with the thread: librdkafka has no leader for it until
its next scan of all topics, a second later. If the broker is still listed, the partition changes its leader at once.
Source: docs/adr/0026-metadata-while-a-leader-is-replaced.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.callbacks import NowMs
from kraft.model.ids import BrokerId

LISTED_ON_MS: Final = 9_000
"""Time for which a fenced broker is listed, as in Kafka, where it is the default broker.session.timeout.ms."""


ListedBrokers = Callable[[], Iterable[BrokerId]]
"""Returns the fenced brokers of which Kafka's clients are still told."""


class FencedLately:
    """The brokers that were fenced recently."""

    def __init__(self, monotonic_ms: NowMs) -> None:
        self._monotonic_ms = monotonic_ms
        self._fenced_ms: dict[BrokerId, int] = {}

    def published(self, before: MetadataImage, after: MetadataImage) -> None:
        """Note that this broker has applied `after`."""
        if before.brokers is after.brokers:
            return
        now_ms = self._monotonic_ms()
        for registration in before.alive_brokers():
            self._fenced_ms[registration.broker_id] = now_ms
        self._fenced_ms = {
            broker_id: fenced_ms
            for broker_id, fenced_ms in self._fenced_ms.items()
            if broker_id in after.brokers and not after.is_alive(broker_id)
        }

    def brokers(self) -> tuple[BrokerId, ...]:
        """Return the ids of the fenced brokers that are still listed, in order."""
        since_ms = self._monotonic_ms() - LISTED_ON_MS
        return tuple(sorted(each for each, fenced_ms in self._fenced_ms.items() if fenced_ms > since_ms))
