"""Leaders that were lost a moment ago: a metadata request waits for the election of the next leader, for a short time.

The replica fetcher's connection breaks at the same time as the clients' connections. Clients then ask for metadata
within milliseconds, before the controller has fenced the broker. If the response still has the dead leader, librdkafka
waits for its next scan of all topics, up to a second. Source: docs/adr/0026-metadata-while-a-leader-is-replaced.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kraft.metadata.image import ImageCondition, MetadataImage
from kraft.model.callbacks import NowMs
from kraft.model.ids import BrokerId
from kraft.server.loop.background import cancelled
from kraft.server.loop.purgatory import Notifier, Watch

HOLD_MS_MAX: Final = 2_000
"""Longest wait after the loss. Fencing a broker whose process has ended takes 100 to 250 ms, 700 to 1,000 ms if it was
the active controller, and longer on a busy machine. A response that names the dead leader after all stays with some
clients for minutes.

It is well below the time that clients give one request, of which the shortest known is 3 s (kraft/client). A Kafka
listener answers in the order of the requests, so a longer wait would also delay the client's next requests.
"""

Until = Callable[[ImageCondition, float], Awaitable[bool]]


class LostLeaders:
    """The brokers whose connection as a leader was lost, until they are replaced or answer again.

    Each loss delays responses once, right after it: while nobody elects another leader, clients are better served with
    what is known.
    """

    def __init__(self, monotonic_ms: NowMs, until: Until, without_controller_ms: Callable[[], int]) -> None:
        """`until` waits for a condition on the applied image, at most for that many seconds.

        `without_controller_ms` returns for how long no controller has been active, as far as this broker knows.
        """
        self._monotonic_ms = monotonic_ms
        self._until = until
        self._without_controller_ms = without_controller_ms
        self._lost_ms: dict[BrokerId, int] = {}
        self._found_again = Notifier()

    def lost(self, broker_id: BrokerId) -> None:
        """Note that the connection to this leader broke, or could not be made again: that is no further loss."""
        self._lost_ms.setdefault(broker_id, self._monotonic_ms())

    def is_lost(self, broker_id: BrokerId) -> bool:
        return broker_id in self._lost_ms

    def found(self, broker_id: BrokerId) -> None:
        """Note that it answers as a leader again: requests no longer wait for another one."""
        if self._lost_ms.pop(broker_id, None) is not None:
            self._found_again.notify()

    def published(self, before: MetadataImage, after: MetadataImage) -> None:
        """Note that this broker has applied `after`: a broker that was fenced or has registered again is lost anew."""
        if before.brokers is not after.brokers:
            self._lost_ms = {each: ms for each, ms in self._lost_ms.items() if _is_same_session(each, before, after)}

    async def replaced(self, topics: Iterable[str]) -> None:
        """Wait until no partition of these topics has a leader that was lost recently and not found again.

        Returns at the latest HOLD_MS_MAX after the loss, and at once where no election can be expected, because no
        controller has been active for as long.
        """
        since_ms = self._monotonic_ms() - HOLD_MS_MAX
        recent = {each: lost_ms for each, lost_ms in self._lost_ms.items() if lost_ms > since_ms}
        if not recent or self._without_controller_ms() >= HOLD_MS_MAX:
            return
        lost, names = frozenset(recent), tuple(topics)
        until_ms = max(recent.values()) + HOLD_MS_MAX
        with Watch([self._found_again]) as finds:
            while lost and not await self._is_replaced(names, lost, until_ms, finds):
                lost &= self._lost_ms.keys()

    async def _is_replaced(
        self, topics: tuple[str, ...], lost: frozenset[BrokerId], until_ms: int, finds: Watch
    ) -> bool:
        """Return False as soon as a broker was found again; True when others lead, or the time is over."""
        finds.again()
        left_s = (until_ms - self._monotonic_ms()) / 1_000
        replacing = asyncio.ensure_future(self._until(lambda image: not _is_led_by(image, topics, lost), left_s))
        finding = asyncio.ensure_future(finds.moved.wait())
        try:
            await asyncio.wait([replacing, finding], return_when=asyncio.FIRST_COMPLETED)
            is_over = replacing.done()
        finally:
            await cancelled((replacing, finding))
        if is_over:
            replacing.result()
        return is_over


def _is_led_by(image: MetadataImage, topics: Iterable[str], brokers: frozenset[BrokerId]) -> bool:
    found = (topic for name in topics if (topic := image.topic(name)) is not None)
    return any(partition.leader in brokers for topic in found for partition in topic.partitions.values())


def _is_same_session(broker_id: BrokerId, before: MetadataImage, after: MetadataImage) -> bool:
    old, new = before.broker(broker_id), after.broker(broker_id)
    if old is None or new is None or old.fenced or new.fenced:
        return False
    return old.broker_epoch == new.broker_epoch
