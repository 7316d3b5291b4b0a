"""Brokers that were fenced a moment ago. Kafka's clients still find them in Metadata.

librdkafka (2.10 and later) ends a broker's thread when Metadata no longer lists that broker. If the same answer moves a
partition from this broker to a new leader, the ending thread takes the partition with it: the partition is left without
a leader until the next scan of all topics, a second later. Listed on, the broker hands the partition over at once.
Source: docs/adr/0026-metadata-while-a-leader-is-replaced.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerId

LISTED_ON_MS: Final = 9_000
"""As long as Kafka lists a broker that has died: its broker.session.timeout.ms."""


class FencedLately:
    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._fenced_ms: dict[BrokerId, int] = {}

    def published(self, before: MetadataImage, after: MetadataImage) -> None:
        """This broker now acts on `after`."""
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
        """Brokers still to be listed, by id: registered, and fenced."""
        since_ms = self._monotonic_ms() - LISTED_ON_MS
        return tuple(sorted(each for each, fenced_ms in self._fenced_ms.items() if fenced_ms > since_ms))
