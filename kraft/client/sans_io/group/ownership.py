"""Partitions that a consumer owns, and the steps that lead to those that its group assigns to it.

The consumer runs a step inside a poll, because the user's callbacks belong there, and reports when it is done. A new
assignment may arrive meanwhile; the next step starts from what is owned then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct

from kraft.model.ids import TopicPartition

NO_TOPIC_ID = UUID(int=0)
"""In the classic protocol, which names topics."""


class Place(NamedTuple):
    """A partition of one particular topic, even if the name is used again."""

    topic_id: UUID
    topic: str
    partition: int


Places: TypeAlias = frozenset[Place]

NOWHERE: Places = frozenset()


class _OfPlaces(Struct, frozen=True):
    places: Places

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(TopicPartition(place.topic, place.partition) for place in self.places)


class Revoke(_OfPlaces, frozen=True):
    """Give these partitions up: commit, call the user, stop reading. They still belong to this consumer until then."""


class Lose(_OfPlaces, frozen=True):
    """Call the user and stop reading. These partitions may belong to another consumer already."""


class Assign(_OfPlaces, frozen=True):
    """Read these partitions, too, and call the user."""


Step: TypeAlias = Revoke | Lose | Assign


class Ownership:
    """Partitions that a consumer owns, and those that it is to own."""

    def __init__(self) -> None:
        self.owned: Places = NOWHERE
        self._target: Places = NOWHERE
        self._running: Step | None = None
        self._is_lost = False

    @property
    def is_settled(self) -> bool:
        """True if there is nothing left to do: no step runs, and the consumer owns what it is to own."""
        return self._running is None and self.owned == self._target

    @property
    def is_losing(self) -> bool:
        """True while partitions that belong to others are still to be taken from the consumer."""
        return self._is_lost

    @property
    def target(self) -> Places:
        """Partitions that the consumer is to own."""
        return self._target

    def aim(self, target: Iterable[Place]) -> None:
        """Take a new assignment."""
        self._target = frozenset(target)

    def keep(self) -> None:
        """Begin no further step towards the present assignment."""
        self._target = self._after(self._running) if self._running is not None else self.owned

    def lose(self) -> None:
        """Take everything away: the group has excluded this consumer."""
        self._target = NOWHERE
        # What a running step assigns is lost once that step is done.
        self._is_lost = bool(self.owned) or self._running is not None

    def next_step(self) -> Step | None:
        """Return the next step, which runs until `step_done` or `step_failed`; None if there is none, or one runs."""
        if self._running is not None:
            return None
        if self._is_lost:
            step: Step = Lose(self.owned)
        elif revoked := self.owned - self._target:
            step = Revoke(revoked)
        else:
            step = Assign(self._target - self.owned)
        self._running = step if step.places else None
        return self._running

    def step_done(self) -> None:
        assert self._running is not None
        step, self._running = self._running, None
        self.owned = self._after(step)
        if not self.owned or isinstance(step, Lose):
            self._is_lost = False

    def step_failed(self) -> None:
        """Begin the step again later: it was interrupted."""
        self._running = None
        self._is_lost = self._is_lost and bool(self.owned)

    def _after(self, step: Step) -> Places:
        return self.owned | step.places if isinstance(step, Assign) else self.owned - step.places
