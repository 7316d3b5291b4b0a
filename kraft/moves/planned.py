"""Plans as text that people read, change and send: a line for each partition, with its brokers now and then."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from kraft.model.errors import KraftError
from kraft.model.ids import TopicPartition
from kraft.model.printable import counted, printable
from kraft.moves.assignments import Assignment

MOVES_MAX: Final = 1_000
"""Partitions of a plan: what people can review, and a broker copies in reasonable time."""

_BROKERS: Final = r"(\d{1,9}(?:\s*,\s*\d{1,9})*)"
_LINE: Final = re.compile(rf"(\S{{1,249}})-(\d{{1,9}})\s*:\s*{_BROKERS}\s*->\s*{_BROKERS}", re.ASCII)


class WrongPlan(KraftError):
    """The text is no plan; one line, with the number of the line that is wrong."""


class PlannedMove(Struct, frozen=True, kw_only=True):
    """Brokers of a partition now and then, preferred leader first."""

    partition: TopicPartition
    now: tuple[int, ...]
    then: tuple[int, ...]

    @property
    def added(self) -> list[int]:
        return [each for each in self.then if each not in self.now]

    @property
    def removed(self) -> list[int]:
        return [each for each in self.now if each not in self.then]


def planned(current: Assignment, wanted: Assignment) -> list[PlannedMove]:
    """Return a move for each partition that is not where it is wanted."""
    return [
        PlannedMove(partition=each, now=tuple(current[each]), then=tuple(wanted[each]))
        for each in sorted(wanted)
        if list(current[each]) != list(wanted[each])
    ]


def text_of(moves: Iterable[PlannedMove]) -> str:
    return "\n".join(f"{each.partition}: {_ids(each.now)} -> {_ids(each.then)}" for each in moves)


def moves_in(text: str) -> list[PlannedMove]:
    """Return the moves of a plan. Raises WrongPlan."""
    moves: dict[TopicPartition, PlannedMove] = {}
    for number, line in _lines(text):
        if len(moves) == MOVES_MAX:
            raise WrongPlan(f"the plan has more than {counted(MOVES_MAX, 'partition')}: move fewer at a time")
        found = _LINE.fullmatch(line)
        if found is None:
            shown = printable(line[:60])
            raise WrongPlan(f"line {number} of the plan, {shown!r}: write TOPIC-PARTITION: BROKERS NOW -> BROKERS THEN")
        partition = TopicPartition(found[1], int(found[2]))
        if partition in moves:
            raise WrongPlan(f"line {number} of the plan: {partition} is there twice")
        then = _numbers(found[4])
        if len(set(then)) < len(then):
            raise WrongPlan(f"line {number} of the plan: a broker holds one replica of {partition}, not two")
        moves[partition] = PlannedMove(partition=partition, now=_numbers(found[3]), then=then)
    if not moves:
        raise WrongPlan("the plan is empty: it needs a line for each partition that shall move")
    return list(moves.values())


def stale(moves: Iterable[PlannedMove], current: Mapping[TopicPartition, Iterable[int]]) -> list[str]:
    """Return sentences about partitions that are not where the plan says."""
    return [
        f"{each.partition} has its replicas on {_ids(current[each.partition])}, not on {_ids(each.now)}"
        if each.partition in current
        else f"{each.partition} does not exist any more"
        for each in moves
        if tuple(current.get(each.partition, ())) != each.now
    ]


def out_of_service(moves: Iterable[PlannedMove], states: Mapping[int, bool]) -> list[str]:
    """Return sentences about brokers that would get replicas and cannot; `states`: whether each is in service."""
    added = sorted({broker for each in moves for broker in each.added})
    found = []
    for broker in added:
        if broker not in states:
            found.append(f"there is no broker {broker}")
        elif not states[broker]:
            found.append(f"broker {broker} is not in service: start it, or let others have its replicas")
    return found


def bytes_to_copy(moves: Iterable[PlannedMove], sizes: Mapping[TopicPartition, int]) -> int:
    return sum(len(each.added) * sizes.get(each.partition, 0) for each in moves)


def named_partitions(text: str, known: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return the known ones of the partitions in a text that separates them by spaces, commas or lines."""
    names = {str(each): each for each in known}
    return sorted({names[each] for each in re.split(r"[\s,]+", text) if each in names})


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.strip():
            yield number, stripped


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
