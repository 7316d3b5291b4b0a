"""Logins that are in progress: so many of one host, and of all. A new one ends the oldest of those that are too many.

A login takes milliseconds, so the oldest is one that says nothing. Who opens many ends his own, and takes no place of
others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kraft.model.callbacks import Callback


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    host: str
    end: Callback


class LoginPlaces:
    def __init__(self, places_max: int, of_host_max: int) -> None:
        self._places_max = places_max
        self._of_host_max = of_host_max
        self._taken: dict[_Place, None] = {}
        """In the order in which they were taken."""

        self._of_host: defaultdict[str, dict[_Place, None]] = defaultdict(dict)

    @contextmanager
    def place(self, host: str, end: Callback) -> Iterator[None]:
        """Hold a place; `end` is called if it is taken away."""
        crowded = self._of_host[host] if len(self._of_host[host]) >= self._of_host_max else self._taken
        if len(self._taken) >= self._places_max or crowded is not self._taken:
            oldest = next(iter(crowded))
            self._leave(oldest)
            oldest.end()
        place = _Place(host, end)
        self._taken[place] = self._of_host[host][place] = None
        try:
            yield
        finally:
            self._leave(place)

    def _leave(self, place: _Place) -> None:
        self._taken.pop(place, None)
        of_host = self._of_host[place.host]
        of_host.pop(place, None)
        if not of_host:
            del self._of_host[place.host]
