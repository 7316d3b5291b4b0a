"""The shape of every command that the active controller decides: a function of the image and a request.

It gives a `Decision`: records to commit and the answer to give once they are committed. The caller decides on the image
that includes all records it has proposed so far, one command after the other; so two decisions never contradict each
other while the first is still on its way through the quorum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar, overload

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import MetadataRecord

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[Response]):
    """Records to commit, and the answer to give once they are committed. Without records nothing changes."""

    records: Sequence[MetadataRecord]
    response: Response


def decided_in_slices(
    image: MetadataImage, decide: Callable[[MetadataImage], Iterable[MetadataRecord]]
) -> Iterator[MetadataRecord]:
    """What is decided on every topic of the image, some topics at a time; no topic's fate may depend on another's."""
    return chain.from_iterable(map(decide, image.in_slices()))


class RecordsOnDemand(Sequence[MetadataRecord]):
    """Records each of which is decided when it is asked for, and once.

    For decisions on a large part of the cluster: whoever commits them does so piece by piece, and can do other things
    in between. An image never changes, so that it makes no difference to what is decided.
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
        """All of them, for the last time: those that were given are forgotten, so that they do not pile up."""
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

    # It changes while it is asked, and so it is no key.
    __hash__ = None  # type: ignore[assignment]  # This is how Python says so; the type of `object.__hash__` is not.

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
