"""Answers of each broker, and lines about the brokers that gave none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from kraft.cli.printing import say
from kraft.health.silence import why_silent
from kraft.model.errors import KraftError

if TYPE_CHECKING:
    from kraft.client import Admin

Answer = TypeVar("Answer")


def answers_in(outcomes: Mapping[int, Answer | KraftError]) -> dict[int, Answer]:
    """Return the answers by broker. Raises the error of a broker if there are errors only."""
    answers = {broker: each for broker, each in outcomes.items() if not isinstance(each, KraftError)}
    if not answers:
        for each in outcomes.values():
            if isinstance(each, KraftError):
                raise each
    return answers


def silent_brokers(admin: Admin, outcomes: Mapping[int, Any]) -> dict[int, str]:
    """Return why registered brokers gave no answer."""
    silent = {broker: why_silent(each) for broker, each in outcomes.items() if isinstance(each, KraftError)}
    for each in admin.describe_brokers():
        if each.broker_id not in outcomes:
            silent[each.broker_id] = "it is not in service"
    return silent


def end_without(silent: Mapping[int, str], what: str) -> None:
    """Say of which brokers `what` is missing; with any, end the command with exit code 1."""
    for line in _lines(silent, what):
        say(line)
    if silent:
        raise typer.Exit(1)


def _lines(silent: Mapping[int, str], what: str) -> Iterator[str]:
    for broker, reason in sorted(silent.items()):
        yield f"kraft: broker {broker} did not answer, so that {what} are missing: {reason}"
