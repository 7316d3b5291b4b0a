"""Throttles that were replaced or removed, in the output of commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraft.cli.printing import Say, say
from kraft.moves.throttles import RemovedThrottles, in_words, left_in_words


def say_replaced(replaced: Iterable[str]) -> None:
    """Say on standard error which rates were replaced."""
    for line in replaced:
        say(f"kraft: {line}")


def report_removed(removed: RemovedThrottles, show: Say) -> None:
    """Show what was removed, with its values; say on standard error what was not."""
    for line in in_words(removed):
        show(line)
    for line in left_in_words(removed):
        say(f"kraft: {line}")


def removed_as_json(removed: RemovedThrottles) -> dict[str, Any]:
    return {
        "removed_from_topics": removed.topics,
        "removed_from_brokers": removed.brokers,
        "kept_on_topics": removed.kept,
        "kept_on_brokers": removed.rates_kept,
    }
