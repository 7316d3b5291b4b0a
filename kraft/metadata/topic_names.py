"""Kafka's rules for topic names, which make a name safe as a directory and as a metric.

Source: org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from typing import Final

from kraft.model.errors import ErrorCode, Refusal

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic that holds consumer groups and their committed offsets."""

TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""The topic that holds the state of transactional ids."""

AUDIT_TOPIC: Final = "__audit"
"""The topic that holds audit lines, if the brokers are configured to write them there. Kafka has none of this name."""

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, AUDIT_TOPIC})
"""Topics that brokers write; clients may only read them."""

TOPIC_NAME_LENGTH_MAX = 249

_SEPARATORS = "._"
_SPELLINGS_SEPARATORS_MAX = 6
"""A name with this many separators has 64 spellings."""

# Used with `fullmatch`: a dollar sign would accept a trailing newline.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise Refusal INVALID_TOPIC_EXCEPTION that says which rule the name breaks."""
    problem = _problem(name)
    if problem:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def check_not_internal(name: str) -> None:
    """Raise Refusal INVALID_TOPIC_EXCEPTION for a topic whose records only brokers change."""
    if name in INTERNAL_TOPICS:
        problem = "the topic is internal: only brokers write to it and delete its records"
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def unknown_topic(name: str) -> Refusal:
    """Return the refusal for a topic that does not exist: INVALID_TOPIC_EXCEPTION if the name is not valid.

    Clients do not retry after that.
    """
    problem = _problem(name)
    if problem:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")


def _problem(name: str) -> str:
    if not name:
        return "the topic name is empty: give one"
    if name in (".", ".."):
        return f"topic name '{name}' would be a special directory: choose another name"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"topic name '{name[:20]}...' has {len(name)} characters: use at most {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"topic name {name!r} has characters that are not allowed: use ASCII letters, digits, '.', '_' and '-'"
    return ""


def check_no_collision(name: str, existing: Collection[str]) -> None:
    """Raise Refusal INVALID_TOPIC_EXCEPTION if another name differs only in '.' and '_'.

    In metric names a '.' becomes a '_', so two such topics would share their metrics.
    """
    separators = sum(map(name.count, _SEPARATORS))
    if not separators:
        return
    # Look up every colliding name, or, if there are too many of those, compare with every existing name.
    if separators <= _SPELLINGS_SEPARATORS_MAX:
        candidates: Iterable[str] = (other for other in _spellings(name) if other in existing)
    else:
        candidates = existing
    plain = _as_metric_name(name)
    for other in candidates:
        if other != name and len(other) == len(name) and _as_metric_name(other) == plain:
            message = (
                f"topic '{name}' collides with topic '{other}', because '.' and '_' count as the same character: "
                "choose another name"
            )
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _spellings(name: str) -> Iterator[str]:
    choices = [_SEPARATORS if character in _SEPARATORS else character for character in name]
    return map("".join, product(*choices))


def _as_metric_name(name: str) -> str:
    return name.replace(".", "_")
