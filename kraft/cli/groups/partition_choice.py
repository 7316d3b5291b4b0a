"""Topics and partitions of the command line: `orders`, or `orders:0,2` for some of its partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from kraft.model.ids import TopicPartition

_OPTION: Final = "--topic"
_PARTITIONS: Final = re.compile(r"\d{1,10}(,\d{1,10})*", re.ASCII)

TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,1,2]",
        help="Topic, or some of its partitions. May be repeated.",
        show_default=False,
    ),
]
Choice = Mapping[str, frozenset[int] | None]
"""Chosen partitions by topic; None for all."""


def parse_choice(texts: Sequence[str]) -> Choice:
    """Return what the options choose together. Raises BadParameter."""
    chosen: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not _PARTITIONS.fullmatch(numbers)):
            raise typer.BadParameter(
                f"{text[:100]!r} is not a topic with partitions: expected TOPIC or TOPIC:0,1,2", param_hint=_OPTION
            )
        before = chosen.get(topic, frozenset())
        named = frozenset(map(int, numbers.split(","))) if colon else None
        chosen[topic] = None if before is None or named is None else before | named
    return chosen


def partitions_of(choice: Choice, counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return the chosen partitions of topics with so many partitions, sorted. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    from kraft.client.cluster.offset_lookup import no_such_partition

    found = []
    for topic, numbers in sorted(choice.items()):
        for number in sorted(range(counts[topic]) if numbers is None else numbers):
            partition = TopicPartition(topic, number)
            if number >= counts[topic]:
                raise no_such_partition(partition, counts[topic])
            found.append(partition)
    return found
