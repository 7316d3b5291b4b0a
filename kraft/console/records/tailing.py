"""The live tail: what is written to a topic now, a few records at a time, while somebody looks.

Twice a second it asks where the partitions end, and reads only the last records of what came since: a topic that gets
100,000 records a second costs its brokers as much as one that gets 50. The others are counted by their offsets, and
never fetched. With a filter, as many as fit into the bytes of a turn are fetched and looked at.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from msgspec import Struct

from kraft.client import ErrorCode, KraftError, Refusal, TopicPartition
from kraft.console.records.browsing import LOOK_UP_MS, partitions_to_read, write_down
from kraft.console.records.raw import Item, Unreadable
from kraft.console.records.reading import Limits, Range, Reader, assign_paused, read_settings
from kraft.console.records.rows import Row, Sight, unreadable
from kraft.console.records.wanted import Wanted
from kraft.console.streams import Event
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.model.printable import printable

if TYPE_CHECKING:
    from kraft.client import Consumer
    from kraft.console.asking import Asked

TURN_S: Final = 0.5
ROWS_OF_A_TURN: Final = 25
"""So that at most 50 records a second are shown."""

LOOKED_AT_OF_A_TURN: Final = 1_000
"""Records that a filter looks at; without one, no more are read than are shown."""

TURN_BYTES_MAX: Final = 1 << 20
READING_S: Final = 2.0
"""Longest reading of a turn."""

ROWS_NOTED: Final = 500
"""Records after which a line of the audit says what was shown; another one says the rest at the end."""

TURNS_WITHOUT_NEWS: Final = 10
"""Turns without records after which the page is told that the tail goes on all the same."""

PROBLEM_WAIT_S: Final = 3.0

TURNS_OF_A_TOPIC: Final = 20
"""Turns after which it is asked whether the topic is still the same one."""

AWAY_S: Final = 10.0
"""How long a partition whose leader does not answer is left out, so that the others are not held up each turn."""


class Turn(Struct, frozen=True, kw_only=True):
    """What came since the turn before."""

    rows: list[Row]
    """The oldest first."""

    looked_at: int
    skipped: int
    """Records that came faster than they are shown, by offsets, and were not looked at."""

    notes: list[str]
    at: str
    """Where to resume, as the field of an address."""


class TopicGone(Exception):
    """The topic that is followed does not exist any more. The text says it to people."""


class Tail:
    """Where one person stands. Runs in a thread; the caller closes it."""

    def __init__(self, asked: Asked, topic: str, wanted: Wanted, sight: Sight) -> None:
        self._asked = asked
        self._topic = topic
        self._wanted = wanted
        self._sight = sight
        self._condition = wanted.condition()
        self._consumer: Consumer = asked.client.consumer(**read_settings(committed=wanted.committed))
        self._at: dict[int, int] = dict(wanted.at or {})
        self.partitions: list[int] = []
        self._topic_id: UUID | None = None
        self._turns = 0
        self._away: dict[int, float] = {}
        """Partitions that are left out, and until when."""

        self._away_notes: list[str] = []
        self._seen: list[Row] = []
        """Shown, and not in the audit yet."""

    def close(self) -> None:
        self._write_down()
        self._consumer.close(1_000)

    def _write_down(self) -> None:
        if self._seen:
            write_down(self._asked, self._topic, self._sight, "tail", self._seen, self._wanted.query())
            self._seen = []

    def begin(self) -> Turn:
        """Find the partitions and where they end. Raises KraftError."""
        self._topic_id = self._id_now()
        self.partitions, total = partitions_to_read(self._asked, self._topic, self._wanted)
        assign_paused(self._consumer, [TopicPartition(self._topic, each) for each in self.partitions])
        ends = self._ends()
        # A place of an earlier stream is kept; one beyond the end is of a topic that was made anew.
        places = {number: at for number, at in self._at.items() if number in self.partitions}
        self._at = places | {number: min(self._at.get(number, end), end) for number, end in ends.items()}
        notes = list(self._away_notes)
        if len(self.partitions) < total and self._wanted.partitions is None:
            notes.append(f"{len(self.partitions)} of {total} partitions are followed: choose others by their numbers")
        return Turn(rows=[], looked_at=0, skipped=0, notes=notes, at=self._place())

    def turn(self) -> Turn:
        """Return the last of what came. Raises KraftError, or TopicGone."""
        self._turns += 1
        try:
            ends = self._ends()
        except KraftError:
            self._check_topic()
            raise
        if self._turns % TURNS_OF_A_TOPIC == 0 or any(end < self._at.get(each, 0) for each, end in ends.items()):
            self._check_topic()
        for number, end in ends.items():
            # A partition whose log was truncated or made anew is followed from its new end.
            self._at[number] = min(self._at.get(number, end), end)
        come = {number: end for number, end in ends.items() if end > self._at[number]}
        most = LOOKED_AT_OF_A_TURN if self._wanted.is_filtered else ROWS_OF_A_TURN
        shares = shares_of({number: end - self._at[number] for number, end in come.items()}, most)
        ranges = {number: Range(end - shares[number], end) for number, end in come.items() if shares[number]}
        skipped = sum(end - shares[number] - self._at[number] for number, end in come.items())
        rows, looked_at, unread, problems = self._read(ranges)
        notes = [*self._away_notes, *problems]
        self._seen += rows
        if len(self._seen) >= ROWS_NOTED:
            self._write_down()
        self._at |= come
        return Turn(rows=rows, looked_at=looked_at, skipped=skipped + unread, notes=notes, at=self._place())

    def _check_topic(self) -> None:
        """Raise TopicGone if the topic was deleted, also if there is another one of its name."""
        name = printable(self._topic)
        try:
            now = self._id_now()
        except KraftError as error:
            if is_missing(error):
                raise TopicGone(f"Topic {name} does not exist any more: it was deleted.") from None
            return
        if now != self._topic_id:
            raise TopicGone(f"Topic {name} was deleted, and another one has its name now: resume to watch that one.")

    def _id_now(self) -> UUID:
        return self._asked.admin.describe_topics([self._topic], timeout_ms=LOOK_UP_MS)[0].metadata.topic_id

    def _read(self, ranges: Mapping[int, Range]) -> tuple[list[Row], int, int, list[str]]:
        if not ranges:
            return [], 0, 0, []
        limits = Limits(bytes_max=TURN_BYTES_MAX, deadline_s=time.monotonic() + READING_S)
        reader = Reader(self._consumer, self._topic, limits, self._look, with_markers=not self._wanted.committed)
        rows: list[Row] = []
        looked_at = 0
        for row in reader.forward(ranges):
            looked_at += 1
            if row is not None:
                rows.append(row)
            if len(rows) >= ROWS_OF_A_TURN:
                break
        # Nothing is fetched between turns.
        self._consumer.pause(*self._consumer.assignment())
        unread = sum(max(0, each.end - reader.positions[number]) for number, each in ranges.items())
        return rows, looked_at, unread, [printable(each) for each in reader.problems]

    def _look(self, item: Item) -> Row | None:
        if isinstance(item, Unreadable):
            return unreadable(item)
        found = self._sight.of(item)
        return found.row() if found.passes(self._wanted, self._condition) else None

    def _ends(self) -> dict[int, int]:
        """Return where the partitions end; those whose leaders do not answer are left out, and said. Raises KraftError
        if none answers."""
        now_s = time.monotonic()
        asked = [each for each in self.partitions if self._away.get(each, now_s) <= now_s]
        self._away_notes = []
        try:
            return self._ends_of(asked)
        except KraftError:
            away = self._away_now(asked)
            if not away or len(away) == len(asked):
                raise
        self._away |= dict.fromkeys(away, now_s + AWAY_S)
        listed = ", ".join(map(str, away[:10])) + (f" and {len(away) - 10} more" if len(away) > 10 else "")
        others = f"the others are followed, and it is asked for again in {AWAY_S:g} s"
        self._away_notes = [f"Nobody answers for partition {listed} now: {others}."]
        return self._ends_of([each for each in asked if each not in away])

    def _ends_of(self, numbers: list[int]) -> dict[int, int]:
        places = [TopicPartition(self._topic, each) for each in numbers]
        found = self._consumer.end_offsets(places, timeout_ms=LOOK_UP_MS) if places else {}
        return {place.partition: end for place, end in found.items()}

    def _away_now(self, numbers: list[int]) -> list[int]:
        """Return the partitions whose ends nobody says: this question has an answer for each of them."""
        places = [TopicPartition(self._topic, each) for each in numbers]
        outcomes = self._asked.admin.list_offsets(dict.fromkeys(places, LATEST_TIMESTAMP), timeout_ms=LOOK_UP_MS)
        return [each.partition for each in places if isinstance(outcomes[each], KraftError)]

    def _place(self) -> str:
        return ",".join(f"{number}:{offset}" for number, offset in self._at.items())


def is_missing(error: KraftError) -> bool:
    return isinstance(error, Refusal) and error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def shares_of(come: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how many of what came to each partition are read, `most` together: what a quiet one leaves, others get."""
    found: dict[int, int] = {}
    left = most
    for at, (number, count) in enumerate(sorted(come.items(), key=lambda each: each[1])):
        found[number] = min(count, left // (len(come) - at))
        left -= found[number]
    return found


async def followed(asked: Asked, topic: str, wanted: Wanted, sight: Sight) -> AsyncGenerator[Event, None]:
    """Yield what comes, until nobody listens, or the topic is gone. A cluster that is away is a sentence, and is asked
    again."""
    loop = asyncio.get_running_loop()
    threads = asked.state.readers.tails
    tail = await loop.run_in_executor(threads, lambda: Tail(asked, topic, wanted, sight))
    try:
        silent = missing = 0
        has_begun = False
        while True:
            try:
                found = await loop.run_in_executor(threads, tail.turn if has_begun else tail.begin)
            except TopicGone as gone:
                yield Event(name="ended", data=str(gone))
                return
            except KraftError as error:
                missing += not has_begun and is_missing(error)
                if missing > 1:
                    # A broker that did not know a new topic yet knows it by now.
                    yield Event(name="ended", data=printable(str(error)))
                    return
                yield Event(name="problem", data=printable(str(error)))
                await asyncio.sleep(PROBLEM_WAIT_S)
                continue
            is_first = not has_begun
            has_begun = True
            is_news = is_first or bool(found.rows or found.skipped or found.looked_at or found.notes)
            silent = 0 if is_news else silent + 1
            if is_news or silent >= TURNS_WITHOUT_NEWS:
                silent = 0
                yield Event(name="turn", data=found)
            # Tails that were opened together do not ask their brokers at one moment.
            await asyncio.sleep(random.uniform(0, TURN_S) if is_first else TURN_S)
    finally:
        # The stream may be cancelled: the consumer is closed all the same, and nobody waits for it.
        loop.run_in_executor(threads, tail.close)
