"""Produce requests that take more than one turn of the event loop: the rest of each is appended in later turns.

One task appends the rests of all requests, one after the other, so they have one turn at a time however many clients
send them. A later append to a partition that a rest still names must not overtake it: it joins behind. A rest whose
entries wait at their partitions, such as one whose disk hangs, steps aside for those that name other partitions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import Any, Final, overload

from kraft.log.format.record_batch import Buffer
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.produce import ProducePartition
from kraft.server.loop.periods import loop_time_s
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

ROOM_S_MAX: Final = 15.0
"""A rest that has no room this long after its arrival is refused, however long its producer would wait: it holds back
all appends to the partitions that it names. Producers wait twice as long by default, so those behind it are in time.
"""

LONG_FROM: Final = 1_000
"""A request with more entries is appended in later turns as a whole."""

ENTRY_BYTES: Final = 256
"""Memory of an entry of a request besides its records."""


class PackedEntries(Sequence[ProducePartition]):
    """Entries of a request, each of them made when it is needed. Their records do not belong to a receive buffer."""

    def __init__(self, places: Sequence[tuple[str, int]], records: Sequence[Buffer]) -> None:
        self.places = places
        self._records = records
        self.size_bytes: Final = sum(map(len, records))

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
        return ProducePartition(topic=topic, partition=partition, records=self._records[at])

    @classmethod
    def of(cls, entries: Sequence[ProducePartition]) -> PackedEntries:
        """Copy the entries, unless they are such a copy."""
        if isinstance(entries, cls):
            return entries
        return cls([(each.topic, each.partition) for each in entries], _Copies([each.records for each in entries]))


class _Copies(Sequence[Buffer]):
    """Copies of records that are one object, not thousands."""

    def __init__(self, records: Sequence[Buffer]) -> None:
        self._ends = list(accumulate(map(len, records)))
        self._copy = memoryview(b"".join(records))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, at: int) -> Buffer: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Buffer]: ...

    def __getitem__(self, at: int | slice) -> Buffer | Sequence[Buffer]:
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        return self._copy[self._ends[at - 1] if at else 0 : self._ends[at]]


Append = Callable[[ProducePartition], None]
"""Appends an entry of a request, or queues it at its partition."""

Refuse = Callable[[ProducePartition, Refusal], None]


class Rest:
    """Entries of one request, from `at` on, that are still to be appended."""

    def __init__(self, entries: PackedEntries, at: int, append: Append, refuse: Refuse, deadline_s: float) -> None:
        self.entries = entries
        self.at = at
        self.places = frozenset(islice(entries.places, at, None))
        self.append = append
        self.refuse = refuse
        self.deadline_s = deadline_s
        loop = asyncio.get_running_loop()
        self.room_until_s = min(deadline_s, loop.time() + ROOM_S_MAX)
        """Without room, what is left is refused after this time."""

        self.over: asyncio.Future[None] = loop.create_future()
        """Done when each was appended or refused."""

        self.earlier = 0
        """Number of rests that must be over before this one is appended."""

        self.later: list[Rest] = []
        """Those that count this one as an earlier rest."""

        self.go_on: Callback = lambda: None
        """Called when there is room again."""

        self._waiting = 0

    def wait_for(self, append: asyncio.Future[Any]) -> None:
        """Note an entry that waits for its turn at its partition. It ends there at the latest at its deadline."""
        self._waiting += 1
        append.add_done_callback(self._wait_ended)

    def _wait_ended(self, _: asyncio.Future[Any]) -> None:
        had_room, self._waiting = self.has_room, self._waiting - 1
        if self.has_room and not had_room:
            self.go_on()

    @property
    def has_room(self) -> bool:
        """False while very many entries wait for their turns."""
        return self._waiting < WAITING_MAX

    @property
    def is_late(self) -> bool:
        """True after the deadline, when entries are refused."""
        return loop_time_s() >= self.deadline_s

    @property
    def is_empty(self) -> bool:
        return self.at == len(self.entries)

    def left(self) -> Iterator[ProducePartition]:
        """Yield what is still to be appended."""
        return (self.entries[at] for at in range(self.at, len(self.entries)))


class LongProduces:
    """The rests of all requests. Those that share a partition are appended in the order of their arrival."""

    def __init__(self, waiting: WaitingAppends) -> None:
        """The records count in the memory of `waiting`."""
        self._waiting = waiting
        self._last: dict[tuple[str, int], Rest] = {}
        """The last rest that names each place."""

        self._ready: deque[Rest] = deque()
        """Those that neither wait for an earlier one nor have stepped aside."""

        self._aside: dict[Rest, asyncio.TimerHandle] = {}
        """Those without room, with the timer after which they are refused."""

        self._is_appending = False

    def __bool__(self) -> bool:
        """Return whether there is a request that is not over."""
        return bool(self._last)

    def hold_back(self, wanted: ProducePartition) -> bool:
        """Return whether records for the same partition may still have to be appended."""
        return (wanted.topic, wanted.partition) in self._last

    def join(
        self, entries: Sequence[ProducePartition], at: int, append: Append, refuse: Refuse, deadline_s: float
    ) -> Rest:
        """Copy the entries from `at` on, to be appended in later turns.

        After `deadline_s`, by the loop's clock, or `ROOM_S_MAX` without room, those that are left are refused. Raises
        Refusal if too many bytes wait.
        """
        packed = PackedEntries.of(entries)
        rest = Rest(packed, at, append, refuse, deadline_s)
        self._waiting.hold(rest, packed.size_bytes + ENTRY_BYTES * len(packed))
        # The last one that names a place is enough, because it waits itself for those before it.
        earlier = {self._last[place] for place in rest.places & self._last.keys()}
        for each in earlier:
            each.later.append(rest)
        rest.earlier = len(earlier)
        self._last.update(dict.fromkeys(rest.places, rest))
        if not earlier:
            self._make_ready(rest)
        return rest

    def _make_ready(self, rest: Rest) -> None:
        self._ready.append(rest)
        if not self._is_appending:
            self._is_appending = True
            self._waiting.start(self._append_until_done(), "long produces")

    async def _append_until_done(self) -> None:
        try:
            while self._ready:
                await asyncio.sleep(0)
                rest = self._ready[0]
                self._append_one_turn(rest)
                if rest.is_empty:
                    self._ready.popleft()
                    self._end(rest)
                elif not rest.has_room and not rest.is_late:
                    self._ready.popleft()
                    self._step_aside(rest)
        finally:
            self._is_appending = False

    def _step_aside(self, rest: Rest) -> None:
        """Let others go on until the rest has room again, or what is left of it is to be refused."""
        self._aside[rest] = asyncio.get_running_loop().call_at(rest.room_until_s, self._give_up, rest)
        rest.go_on = partial(self._come_back, rest)

    def _give_up(self, rest: Rest) -> None:
        """Refuse all that is left, also when there is room again: nothing may overtake what was refused."""
        rest.deadline_s = loop_time_s()
        self._come_back(rest)

    def _come_back(self, rest: Rest) -> None:
        timer = self._aside.pop(rest, None)
        if timer is not None:
            timer.cancel()
            self._make_ready(rest)

    def _append_one_turn(self, rest: Rest) -> None:
        """Append the next entries, for one turn."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + TURN_S_MAX
        turn_end = min(rest.at + ENTRIES_AT_ONCE, len(rest.entries))
        while rest.at < turn_end and (rest.has_room or rest.is_late) and (now_s := loop.time()) < until_s:
            entry = rest.entries[rest.at]
            rest.at += 1
            try:
                if now_s < rest.deadline_s:
                    rest.append(entry)
                else:
                    rest.refuse(entry, timed_out())
            except Exception as error:  # noqa: BLE001  One batch must not affect other producers.
                rest.refuse(entry, internal_error(error))

    def _end(self, rest: Rest) -> None:
        """Let those go on that waited for the rest."""
        for place in rest.places:
            if self._last[place] is rest:
                del self._last[place]
        for each in rest.later:
            each.earlier -= 1
            if not each.earlier:
                self._make_ready(each)
        self._waiting.release(rest)
        if not rest.over.done():
            rest.over.set_result(None)


def timed_out() -> Refusal:
    return Refusal(ErrorCode.REQUEST_TIMED_OUT, "the request timed out before the records were appended")
