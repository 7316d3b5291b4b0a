"""Leaders that went away a moment ago: a client that asks who leads waits for the next leader, if there soon is one.

The replica fetcher's connection breaks together with the clients'. Clients then ask for metadata within milliseconds,
before the controller has fenced the broker. With an answer that still names the dead leader librdkafka waits for its
next scan of all topics, up to a second later. Source: docs/adr/0026-metadata-while-a-leader-is-replaced.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.ids import BrokerId

HOLD_MS_MAX: Final = 1_000
"""From the loss on. Fencing a broker whose process has ended takes 100 to 250 ms, and 700 to 1,000 ms when it was the
active controller.

Kafka's listener answers in the order of the requests, so a longer wait would delay what the client sent afterwards.
"""

Until = Callable[[Callable[[MetadataImage], bool], float], Awaitable[bool]]


class LostLeaders:
    def __init__(self, monotonic_ms: Callable[[], int], until: Until) -> None:
        """`until` waits for an image that this broker acts on, at most for so many seconds."""
        self._monotonic_ms = monotonic_ms
        self._until = until
        self._lost_ms: dict[BrokerId, int] = {}

    def lost(self, broker_id: BrokerId) -> None:
        """The connection to this leader broke, or could not be made again."""
        self._lost_ms[broker_id] = self._monotonic_ms()

    async def replaced(self, topics: Iterable[str]) -> None:
        """Returns when no partition of these topics is led by a broker that was lost just now; or after a while."""
        now_ms = self._monotonic_ms()
        self._lost_ms = {each: ms for each, ms in self._lost_ms.items() if now_ms < ms + HOLD_MS_MAX}
        if not self._lost_ms:
            return
        lost, names = frozenset(self._lost_ms), tuple(topics)
        left_ms = max(self._lost_ms.values()) + HOLD_MS_MAX - now_ms
        await self._until(lambda image: not _is_led_by(image, names, lost), left_ms / 1_000)


def _is_led_by(image: MetadataImage, topics: Iterable[str], brokers: frozenset[BrokerId]) -> bool:
    found = (topic for name in topics if (topic := image.topic(name)) is not None)
    return any(partition.leader in brokers for topic in found for partition in topic.partitions.values())
