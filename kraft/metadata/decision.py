"""Decisions of the active controller: each is a function of the image and a request.

It returns a `Decision`: records to commit, and the response to send once they are committed. The caller decides one
request after the other, each on the image that includes all records proposed so far, so two decisions never contradict
each other while the first is not committed yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar, overload

from msgspec import Struct

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import MetadataRecord

Response = TypeVar("Response")


class Decision(Struct, Generic[Response], frozen=True, kw_only=True):
    """Records to commit, and the response to send once they are committed. Without records nothing changes."""

    records: Sequence[MetadataRecord]
    response: Response


Decide = Callable[[MetadataImage], Decision[Response]]

DecideRecords = Callable[[MetadataImage], Iterable[MetadataRecord]]


def decided_in_slices(image: MetadataImage, decide: DecideRecords) -> Iterator[MetadataRecord]:
    """Decide on all topics of the image, some topics at a time; no topic's decision may depend on another topic."""
    return chain.from_iterable(map(decide, image.in_slices()))


class RecordsOnDemand(Sequence[MetadataRecord]):
    """Records that are decided lazily, each once, when it is read.

    Used for decisions on a large part of the cluster: the caller commits them piece by piece and can do other work in
    between. An image never changes, so the time at which a record is read does not change the decision.
    """

    def __init__(self, records: Iterable[MetadataRecord]) -> None:
        self._decided: list[MetadataRecord] = []
        self._rest = iter(records)

    def __iter__(self) -> Iterator[MetadataRecord]:
        number = 0
        while self._has(number):
            yield self._decided[number]
            number += 1

    def consumed(self) -> Iterator[MetadataRecord]:
        """Iterate over all records for the last time; each is dropped once it is returned, to free its memory."""
        decided, self._decided = deque(self._decided), []
        while decided:
            yield decided.popleft()
        yield from self._rest

    def __bool__(self) -> bool:
        return self._has(0)

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> MetadataRecord: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[MetadataRecord]: ...

    def __getitem__(self, index: int | slice) -> MetadataRecord | Sequence[MetadataRecord]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    # Reading changes it, so it must not be a key.
    __hash__ = None  # type: ignore[assignment]  # Python's way to make it unhashable; `object.__hash__` is typed otherwise.

    def __repr__(self) -> str:
        return repr(self._all())

    def _has(self, number: int) -> bool:
        while len(self._decided) <= number:
            try:
                self._decided.append(next(self._rest))
            except StopIteration:
                return False
        return True

    def _all(self) -> list[MetadataRecord]:
        self._decided.extend(self._rest)
        return self._decided
