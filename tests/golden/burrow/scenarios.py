"""What groups and logs do, over minutes: the scenarios that Burrow was asked about, and that Kraft is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from msgspec import Struct

LOOK_MS: Final = 10_000
"""Time between two looks at the ends of logs: the default of Burrow, and of Kraft."""

COMMIT_AFTER_MS: Final = 4_000
ASK_AFTER_MS: Final = 9_000
"""Time from a look to a commit, and to the question. Burrow judges by whole seconds."""

GROUP: Final = "billing"
TOPIC: Final = "orders"


class Event(Struct, frozen=True, omit_defaults=True):
    """Something that happens. `end` is a look at a log; at a question, `ask`, Burrow's answer is recorded."""

    at: int
    do: str
    group: str = ""
    topic: str = ""
    partition: int = 0
    partitions: int = 0
    offset: int = 0


class Scenario(Struct, frozen=True):
    name: str
    events: list[Event]
    minimum_complete: float = 0


Row = tuple[int, int | None]
"""The end of a log at a look, and the offset that the group commits after it, if it does."""


def steps(
    *partitions: Sequence[Row],
    topic: str = TOPIC,
    start: int = 0,
    asks_from: int = 0,
    ask_after_ms: int = ASK_AFTER_MS,
) -> list[Event]:
    """Return what happens in each of these partitions of a topic, look by look, with a question after each."""
    count, events = len(partitions), list[Event]()
    for at, each in enumerate(zip(*partitions, strict=True), start):
        now = at * LOOK_MS
        for number, (end, offset) in enumerate(each):
            events.append(Event(now, "end", topic=topic, partition=number, partitions=count, offset=end))
            if offset is not None:
                events.append(Event(now + COMMIT_AFTER_MS, "commit", GROUP, topic, number, offset=offset))
        if at >= asks_from:
            events.append(Event(now + ask_after_ms, "ask", GROUP))
    return merged(events)


def merged(*each: Iterable[Event]) -> list[Event]:
    """Return events of several sources in the order of their times."""
    return sorted((event for events in each for event in events), key=lambda event: event.at)


def rows(ends: Iterable[int], offsets: Iterable[int | None]) -> list[Row]:
    return list(zip(ends, offsets, strict=True))


def _grows(first: int, by: int, count: int) -> range:
    return range(first, first + by * count, by)


NEVER: Final = (None,)

_KEEPS_UP: Final = rows(_grows(100, 10, 14), _grows(95, 10, 14))
_FALLS_BEHIND: Final = rows(_grows(100, 10, 14), _grows(50, 5, 14))
_STALLS: Final = rows(_grows(100, 10, 14), [60] * 14)
_STOPS: Final = rows(_grows(100, 10, 30), [*_grows(50, 10, 6), *NEVER * 24])

SCRIPTED: Final = (
    Scenario("a group that nobody has seen", [Event(0, "ask", "nobody")]),
    Scenario("it reads everything", steps(rows(_grows(100, 10, 14), _grows(100, 10, 14)))),
    Scenario("it keeps its distance", steps(_KEEPS_UP)),
    Scenario("it falls behind", steps(_FALLS_BEHIND)),
    Scenario("it catches up", steps(rows(_grows(500, 10, 14), _grows(50, 30, 14)))),
    Scenario("it commits the same offset again and again", steps(_STALLS)),
    Scenario("it stops while records wait", steps(_STOPS)),
    Scenario("it stops and comes back", steps([*_STOPS[:16], *rows(_grows(260, 10, 12), _grows(110, 14, 12))])),
    Scenario("it stops at the end of a log that rests", steps(rows([100] * 14, [100, *NEVER * 13]))),
    Scenario(
        "it stops at the end, and records come later",
        steps(rows([*_grows(100, 10, 6), *[150] * 12, *_grows(160, 10, 14)], [*_grows(100, 10, 6), *NEVER * 26])),
    ),
    Scenario(
        "it stops at the end, and is asked about right after each look",
        steps(rows([*_grows(100, 10, 6), *_grows(151, 1, 26)], [*_grows(100, 10, 6), *NEVER * 26]), ask_after_ms=0),
    ),
    Scenario("it rewinds and goes on", steps(rows(_grows(200, 10, 26), [*_grows(150, 10, 8), *_grows(20, 12, 18)]))),
    Scenario("it rewinds by one", steps(rows(_grows(200, 10, 14), [150, 149, *_grows(150, 10, 12)]))),
    Scenario(
        "it rewinds, and has read everything since",
        steps(rows(_grows(200, 10, 16), [150, 160, 100, 230, *_grows(235, 10, 12)])),
    ),
    Scenario("lag is zero in between", steps(rows(_grows(100, 10, 24), [90, 90, 120, 120, *_grows(110, 3, 20)]))),
    Scenario("one commit", steps(rows(_grows(100, 10, 14), [50, *NEVER * 13]))),
    Scenario("two commits", steps(rows(_grows(100, 10, 8), [50, 55, *NEVER * 6]))),
    Scenario("commits far apart", steps(rows(_grows(100, 1, 24), [50, *NEVER * 7, 60, *NEVER * 7, 70, *NEVER * 7]))),
    Scenario("commits beyond the end that is known", steps(rows(_grows(100, 10, 12), _grows(140, 10, 12)))),
    Scenario("a log that lost records", steps(rows([*_grows(100, 10, 8), *_grows(120, 5, 8)], _grows(100, 3, 16)))),
    Scenario("two partitions, one of which stalls", steps(_KEEPS_UP, _STALLS)),
    Scenario("three partitions: WARN, STALL, OK", steps(_FALLS_BEHIND, _STALLS, _KEEPS_UP)),
    Scenario("a partition without commits", steps(_KEEPS_UP, rows([7] * 14, NEVER * 14))),
    Scenario("the first partition without commits", steps(rows([7] * 14, NEVER * 14), _FALLS_BEHIND)),
    Scenario("two topics", merged(steps(_FALLS_BEHIND), steps(_STALLS, topic="audit", asks_from=99))),
    Scenario(
        "one of two topics is deleted",
        merged(
            steps(_FALLS_BEHIND),
            steps(_STALLS[:8], topic="audit", asks_from=99),
            [Event(7 * LOOK_MS + 6_000, "delete_topic", topic="audit")],
        ),
    ),
    Scenario(
        "its only topic is deleted",
        [*steps(_STALLS[:6]), Event(60_000, "delete_topic", topic=TOPIC), Event(61_000, "ask", GROUP)],
    ),
    Scenario("it is deleted", [*steps(_STALLS[:6]), Event(60_000, "delete_group", GROUP), Event(61_000, "ask", GROUP)]),
    Scenario(
        "it is deleted and comes back",
        [*steps(_STALLS[:6]), Event(59_500, "delete_group", GROUP), *steps(_FALLS_BEHIND, start=6)],
    ),
    Scenario(
        "a week without commits",
        [*steps(_STALLS[:6]), Event(54_000 + 604_800_000, "ask", GROUP), Event(56_000 + 604_800_000, "ask", GROUP)],
    ),
    Scenario("it falls behind, judged when the window is full", steps(_FALLS_BEHIND), minimum_complete=1),
    Scenario("it stalls, judged from half a window on", steps(_STALLS), minimum_complete=0.5),
)  # fmt: skip

WALKS: Final = 400


def walk(seed: int) -> Scenario:
    """Return a random walk: partitions whose logs and readers are quick, slow or at rest, for a while each."""
    # `random` alone gives the same numbers in every version of Python.
    draw = Random(seed).random
    partitions = [_walked(draw) for _ in range(1 + int(draw() * 3))]
    return Scenario(f"walk {seed}", steps(*partitions, asks_from=3))


_WALK_STEPS: Final = 30


def _walked(draw: Callable[[], float]) -> list[Row]:
    end, offset, done = 100 + int(draw() * 50), 0, list[Row]()
    offset = end - int(draw() * 60)
    speed, appetite, silence = 0.0, 0.0, 0.0
    for _ in range(_WALK_STEPS):
        if draw() < 0.15 or not done:
            speed = draw() * 12 if draw() < 0.7 else 0
        if draw() < 0.15 or not done:
            appetite = draw() * 14 if draw() < 0.7 else 0
            silence = draw() if draw() < 0.3 else 0
        if draw() < 0.02:
            silence = 1
        end += int(speed * draw() * 1.5)
        offset += int(appetite * draw() * 1.5)
        if draw() < 0.03:
            offset -= int(draw() * 40)
        offset = max(0, min(offset, end + 5))
        done.append((end, None if draw() < silence else offset))
    return done
