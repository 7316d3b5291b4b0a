"""Two sets of answers, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

Answers = Mapping[str, Any]
"""Plain answers of one scenario, by their labels."""

ABSENT: Final = "absent"
"""Stands for a field that says nothing but its default, and for an answer that is not there."""

ANYTHING: Final = "anything"
_SHOWN_CHARACTERS: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    scenario: str
    place: str
    """Label and path: `v9 two batches: responses[0].partition_responses[0].error_code`."""

    kafka: Any
    kraft: Any

    def __str__(self) -> str:
        return f"{self.place}: Kafka {_short(self.kafka)}, Kraft {_short(self.kraft)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberate:
    """A difference that is meant, or belongs to what is not there yet. Patterns are those of a shell."""

    scenarios: str
    places: str
    reason: str
    kafka: Any = ANYTHING
    kraft: Any = ANYTHING
    """The responses of the two, if they are fixed."""

    def explains(self, found: Difference) -> bool:
        return (
            fnmatchcase(found.scenario, self.scenarios)
            and fnmatchcase(found.place, self.places)
            and self.kafka in (ANYTHING, found.kafka)
            and self.kraft in (ANYTHING, found.kraft)
        )


@dataclass(slots=True)
class Comparison:
    """The differences of one scenario."""

    scenario: str
    answers: int
    unexplained: list[Difference] = field(default_factory=list)
    explained: list[tuple[Difference, Deliberate]] = field(default_factory=list)


def compare(scenario: str, kafka: Answers, kraft: Answers, deliberate: Sequence[Deliberate]) -> Comparison:
    comparison = Comparison(scenario, len(kafka))
    for place, of_kafka, of_kraft in _differences(kafka, kraft):
        found = Difference(scenario=scenario, place=place, kafka=of_kafka, kraft=of_kraft)
        for each in deliberate:
            if each.explains(found):
                comparison.explained.append((found, each))
                break
        else:
            comparison.unexplained.append(found)
    return comparison


def _differences(kafka: Answers, kraft: Answers) -> Iterator[tuple[str, Any, Any]]:
    for label in dict.fromkeys((*kafka, *kraft)):
        for path, ours, theirs in _unequal(kafka.get(label, ABSENT), kraft.get(label, ABSENT)):
            yield f"{label}: {path}" if path else label, ours, theirs


def _unequal(kafka: Any, kraft: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, dict) and isinstance(kraft, dict):
        for key in dict.fromkeys((*kafka, *kraft)):
            inner = f"{path}.{key}" if path else key
            yield from _unequal(kafka.get(key, ABSENT), kraft.get(key, ABSENT), inner)
    elif isinstance(kafka, list) and isinstance(kraft, list) and len(kafka) == len(kraft):
        for index, (one, other) in enumerate(zip(kafka, kraft, strict=True)):
            # Not in brackets: those are patterns of their own.
            yield from _unequal(one, other, f"{path}.{index}" if path else str(index))
    elif kafka != kraft or type(kafka) is not type(kraft):
        yield path, kafka, kraft


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."
