"""What a topic may be called: Kafka's rules, so that a name is safe as a directory and as a metric.

Source: org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import product

from kraft.model.errors import ErrorCode, Refusal

TOPIC_NAME_LENGTH_MAX = 249

_SEPARATORS = "._"
_SPELLINGS_SEPARATORS_MAX = 6
"""A name with so many separators can be spelt in 64 ways."""

# A dollar sign would let a trailing newline through, so the whole name is matched.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises Refusal INVALID_TOPIC_EXCEPTION that says which rule the name breaks."""
    problem = _problem(name)
    if problem:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def unknown_topic(name: str) -> Refusal:
    """For a topic that is not there: INVALID_TOPIC_EXCEPTION when none can be, as clients then ask no more."""
    problem = _problem(name)
    if problem:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")


def _problem(name: str) -> str:
    if not name:
        return "a topic name is empty"
    if name in (".", ".."):
        return f"topic name '{name}' is not allowed: it would be a directory of its own"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"topic name '{name[:20]}...' has {len(name)} characters, at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    if not _LEGAL.fullmatch(name):
        return f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return ""


def check_no_collision(name: str, existing: Collection[str]) -> None:
    """Raises Refusal INVALID_TOPIC_EXCEPTION when another name differs only by '.' against '_'.

    In metric names a '.' becomes a '_', so two such topics would be counted as one.
    """
    separators = sum(map(name.count, _SEPARATORS))
    if not separators:
        return
    # Either all names that would collide are looked for, or, if those are too many, all that exist are looked at.
    if separators <= _SPELLINGS_SEPARATORS_MAX:
        candidates: Iterable[str] = (other for other in _spellings(name) if other in existing)
    else:
        candidates = existing
    plain = _as_metric_name(name)
    for other in candidates:
        if other != name and len(other) == len(name) and _as_metric_name(other) == plain:
            message = f"topic '{name}' collides with topic '{other}': '.' and '_' count as the same character"
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _spellings(name: str) -> Iterator[str]:
    choices = [_SEPARATORS if character in _SEPARATORS else character for character in name]
    return map("".join, product(*choices))


def _as_metric_name(name: str) -> str:
    return name.replace(".", "_")
