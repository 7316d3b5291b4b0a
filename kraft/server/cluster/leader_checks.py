"""Asks leaders whether they are alive, before a response to a client names them.

When a broker dies, its clients may ask for metadata before any broker has noticed the loss. An answer with the dead
leader stays with a client that asks no more: aiokafka keeps it for minutes. So a leader is named only if it answered
after the client had asked, or if it is silent for so long that clients are better served with what is known.
Source: docs/adr/0045-leaders-are-asked-before-they-are-named.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from kraft.metadata.image import CurrentImage
from kraft.model.ids import BrokerId
from kraft.server.cluster.lost_leaders import HOLD_MS_MAX
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.turns import Turns

PERIOD_S: Final = 0.01
"""Shortest time between two questions to one leader, for each broker that may be asked: however many clients and
brokers there are, a broker asks about 100 questions a second at most.
"""

SILENCE_S_MAX: Final = 1.0
"""A leader that has not answered for this time is named without an answer until it answers again: it may be paused, and
the controller has not fenced it.
"""

PARTITIONS_AT_ONCE: Final = 5_000
"""Partitions looked at before other tasks have their turn."""


class LeaderLost(Exception):
    """The connection to the leader broke, or was refused."""


Ask = Callable[[BrokerId], Awaitable[None]]
"""Returns when the broker has answered, whatever it said. Raises LeaderLost. Has no deadline of its own."""


KnownToLead = Callable[[Iterable[str]], Awaitable[None]]
"""Waits briefly until the leaders of these topics have answered, or those lost are replaced."""


class Losses(Protocol):
    """The brokers whose connection was lost."""

    def lost(self, broker_id: BrokerId) -> None: ...

    def is_lost(self, broker_id: BrokerId) -> bool: ...

    def found(self, broker_id: BrokerId) -> None: ...

    async def replaced(self, topics: Iterable[str]) -> None:
        """Wait until no partition of these topics has a leader that was lost recently, for a short time."""


class LeaderChecks:
    """Questions to the leaders that clients ask for."""

    def __init__(self, image: CurrentImage, own_id: BrokerId, ask: Ask, losses: Losses) -> None:
        self._image = image
        self._own_id = own_id
        self._ask = ask
        self._losses = losses
        self._leaders: dict[BrokerId, _Leader] = {}

    async def known_to_lead(self, topics: Iterable[str]) -> None:
        """Wait until the leaders of these topics have answered, or those that were lost are replaced.

        Returns at the latest HOLD_MS_MAX later, whatever it waits for.
        """
        limit = asyncio.timeout(HOLD_MS_MAX / 1_000)
        try:
            async with limit:
                await self._known_to_lead(tuple(topics))
        except TimeoutError:
            if not limit.expired():
                raise

    async def _known_to_lead(self, names: tuple[str, ...]) -> None:
        others = {each.broker_id for each in self._image().alive_brokers()} - {self._own_id}
        period_s = PERIOD_S * len(others)
        checks = [self._leader(each).answered(period_s) for each in await self._leading(names, others)]
        if checks:
            await asyncio.gather(*checks)
        await self._losses.replaced(names)

    async def _leading(self, topics: Iterable[str], others: set[BrokerId]) -> set[BrokerId]:
        image, turns = self._image(), Turns(PARTITIONS_AT_ONCE)
        found: set[BrokerId] = set()
        for name in topics:
            topic = image.topic(name)
            partitions = () if topic is None else topic.partitions.values()
            found.update(partition.leader for partition in partitions if partition.leader in others)
            if len(found) == len(others):
                break
            await turns.done(1 + len(partitions))
        return found

    def _leader(self, broker_id: BrokerId) -> _Leader:
        if broker_id not in self._leaders:
            self._leaders[broker_id] = _Leader(broker_id, self._ask, self._losses)
        return self._leaders[broker_id]


class _Leader:
    """Questions to one broker: one at a time. Requests that come while one is on its way wait for the next one."""

    def __init__(self, broker_id: BrokerId, ask: Ask, losses: Losses) -> None:
        self._broker_id = broker_id
        self._ask = ask
        self._losses = losses
        self._asking: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        self._asked_at_s = float("-inf")
        self._is_silent = False
        """It has not answered for SILENCE_S_MAX; nobody waits for it until it answers."""

    async def answered(self, period_s: float) -> None:
        """Return once a question that began after this call is answered or has failed, or after SILENCE_S_MAX.

        The question begins at the earliest `period_s` after the last one.
        """
        if self._next is None:
            asking = self._ask_after(self._asking, period_s)
            self._next = asyncio.create_task(asking, name=f"is broker {self._broker_id} alive")
        question = self._next
        if not self._is_silent:
            # Others may wait for the same answer, so the question goes on if this wait is cancelled.
            await asyncio.wait([question], timeout=SILENCE_S_MAX)
        if question.done():
            question.result()

    async def _ask_after(self, before: asyncio.Task[None] | None, period_s: float) -> None:
        if before is not None:
            await asyncio.wait([before])
        await asyncio.sleep(self._asked_at_s + period_s - loop_time_s())
        self._asking, self._next = self._next, None
        self._asked_at_s = loop_time_s()
        # An answer to an earlier question may be read after the loss of another connection, and shows nothing.
        was_lost = self._losses.is_lost(self._broker_id)
        try:
            async with asyncio.timeout(SILENCE_S_MAX):
                await self._ask(self._broker_id)
        except LeaderLost:
            self._is_silent = False
            self._losses.lost(self._broker_id)
        except TimeoutError:
            self._is_silent = True
        else:
            self._is_silent = False
            if was_lost:
                self._losses.found(self._broker_id)
