"""Produce requests that take more than one turn of the event loop: the rest of each is appended in later turns.

One task appends the rests of all requests, one after the other, so they have one turn at a time however many clients
send them. A later append to a partition that a rest still names must not overtake it: it joins behind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Final, overload

from kraft.log.format.record_batch import Buffer
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.produce import ProducePartition
from kraft.server.replica.waiting_appends import WaitingAppends, internal_error

TURN_S_MAX: Final = 0.005
"""Time after which other tasks have their turn. An entry of a request has at most a thousand batches, which take about
as long.
"""

ENTRIES_AT_ONCE: Final = 200
"""Entries appended before other tasks have their turn, however fast they are."""

WAITING_MAX: Final = 256
"""Entries of a request that wait at once for their turns at their partitions, such as behind a roll: each is an object
or ten for the garbage collector, which looks at all of them in one turn.
"""

LONG_FROM: Final = 1_000
"""A request with more entries is appended in later turns as a whole."""

ENTRY_BYTES: Final = 256
"""Memory of an entry of a request besides its records."""


class PackedEntries(Sequence[ProducePartition]):
    """Entries of a request with a copy of their records, each of them made when it is needed."""

    def __init__(self, places: Sequence[tuple[str, int]], records: Sequence[Buffer]) -> None:
        self.places = places
        self._ends = list(accumulate(map(len, records)))
        self._copy = memoryview(b"".join(records))

    @property
    def size_bytes(self) -> int:
        return len(self._copy)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> ProducePartition: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[ProducePartition]: ...

    def __getitem__(self, at: int | slice) -> ProducePartition | Sequence[ProducePartition]:
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        topic, partition = self.places[at]
        begin = self._ends[at - 1] if at else 0
        return ProducePartition(topic=topic, partition=partition, records=self._copy[begin : self._ends[at]])

    @classmethod
    def of(cls, entries: Sequence[ProducePartition]) -> PackedEntries:
        """Copy the entries, unless they are such a copy."""
        if isinstance(entries, cls):
            return entries
        return cls([(each.topic, each.partition) for each in entries], [each.records for each in entries])


class Rest:
    """Entries of one request, from `at` on, that are still to be appended."""

    def __init__(
        self,
        entries: PackedEntries,
        at: int,
        append: Callable[[ProducePartition], None],
        refuse: Callable[[ProducePartition, Refusal], None],
        deadline_s: float,
    ) -> None:
        self.entries = entries
        self.at = at
        self.places = frozenset(islice(entries.places, at, None))
        self.append = append
        self.refuse = refuse
        self.deadline_s = deadline_s
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when each was appended or refused."""
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def wait_for(self, append: asyncio.Future[Any]) -> None:
        """Note an entry that waits for its turn at its partition. It ends there at the latest at its deadline."""
        self._waiting += 1
        if self._waiting >= WAITING_MAX:
            self._has_room.clear()
        append.add_done_callback(self._wait_ended)

    def _wait_ended(self, _: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if self._waiting < WAITING_MAX:
            self._has_room.set()

    @property
    def has_room(self) -> bool:
        """False while very many entries wait for their turns."""
        return self._has_room.is_set()

    async def room(self) -> None:
        await self._has_room.wait()

    @property
    def is_empty(self) -> bool:
        return self.at == len(self.entries)

    def left(self) -> Iterator[ProducePartition]:
        """Yield what is still to be appended."""
        return (self.entries[at] for at in range(self.at, len(self.entries)))


class LongProduces:
    """The rests of all requests, in the order of their arrival."""

    def __init__(self, waiting: WaitingAppends) -> None:
        """The records count in the memory of `waiting`."""
        self._waiting = waiting
        self._rests: deque[Rest] = deque()

    def __len__(self) -> int:
        """Return the number of requests that are not over."""
        return len(self._rests)

    def hold_back(self, wanted: ProducePartition) -> bool:
        """Return whether records for the same partition may still have to be appended."""
        place = wanted.topic, wanted.partition
        return any(place in rest.places for rest in self._rests)

    def join(
        self,
        entries: Sequence[ProducePartition],
        at: int,
        append: Callable[[ProducePartition], None],
        refuse: Callable[[ProducePartition, Refusal], None],
        deadline_s: float,
    ) -> Rest:
        """Copy the entries from `at` on, to be appended in later turns.

        After `deadline_s`, by the loop's clock, those that are left are refused. Raises Refusal if too many bytes wait.
        """
        packed = PackedEntries.of(entries)
        rest = Rest(packed, at, append, refuse, deadline_s)
        self._waiting.hold(rest, packed.size_bytes + ENTRY_BYTES * len(packed))
        self._rests.append(rest)
        if len(self._rests) == 1:
            self._waiting.start(self._append_all(), "long produces")
        return rest

    async def _append_all(self) -> None:
        while self._rests:
            await self._rests[0].room()
            await asyncio.sleep(0)
            self._append_on(self._rests[0])

    def _append_on(self, rest: Rest) -> None:
        """Append the next entries, for one turn."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TURN_S_MAX
        turn_end = min(rest.at + ENTRIES_AT_ONCE, len(rest.entries))
        while rest.at < turn_end and rest.has_room and (now_s := loop.time()) < until_s:
            entry = rest.entries[rest.at]
            rest.at += 1
            try:
                if now_s < rest.deadline_s:
                    rest.append(entry)
                else:
                    rest.refuse(entry, timed_out())
            except Exception as error:  # noqa: BLE001  One batch must not affect other producers.
                rest.refuse(entry, internal_error(error))
        if rest.is_empty:
            self._rests.popleft()
            self._waiting.release(rest)
            if not rest.over.done():
                rest.over.set_result(None)


def timed_out() -> Refusal:
    return Refusal(ErrorCode.REQUEST_TIMED_OUT, "the request timed out before the records were appended")
