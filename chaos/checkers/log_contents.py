"""Contents of the log of one key: every acknowledged value, once, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checkers.observations import KeyObservations
from chaos.checkers.verdict import Anomaly, AnomalyKind


def find(name: str, key: KeyObservations) -> Iterator[Anomaly]:
    """Anomalies of one key's contents."""
    yield from _inconsistent_offsets(name, key)
    yield from _duplicates(name, key)
    yield from _missing(name, key)
    yield from _unwanted(name, key)


def _inconsistent_offsets(name: str, key: KeyObservations) -> Iterator[Anomaly]:
    for offset, values in key.places.items():
        if len(values) > 1:
            yield Anomaly(
                kind=AnomalyKind.INCONSISTENT_OFFSETS,
                key=name,
                text=f"offset {offset} holds {_listed(values)}",
                operations=tuple(values.values()),
            )


def _duplicates(name: str, key: KeyObservations) -> Iterator[Anomaly]:
    offsets_of: dict[int, dict[int, int]] = {}
    for offset, values in key.places.items():
        for value, operation in values.items():
            offsets_of.setdefault(value, {})[offset] = operation
    for value, offsets in offsets_of.items():
        if len(offsets) > 1:
            yield Anomaly(
                kind=AnomalyKind.DUPLICATE,
                key=name,
                text=f"value {value} is at offsets {_listed(sorted(offsets))}",
                operations=tuple(offsets.values()),
            )


def _missing(name: str, key: KeyObservations) -> Iterator[Anomaly]:
    for value, (offset, operation) in key.acknowledged.items():
        if value in key.read:
            continue
        # Without an offset nobody can say that it was passed over, only that it did not show.
        is_passed = offset is not None and offset <= key.highest_read
        place = "" if offset is None else f" at offset {offset}"
        yield Anomaly(
            kind=AnomalyKind.LOST_WRITE if is_passed else AnomalyKind.UNSEEN,
            key=name,
            text=f"value {value}, acknowledged{place}, was never read; the highest offset read is {key.highest_read}",
            operations=(operation,),
        )


def _unwanted(name: str, key: KeyObservations) -> Iterator[Anomaly]:
    for value, operation in key.read.items():
        if value in key.failed:
            yield Anomaly(
                kind=AnomalyKind.ABORTED_READ,
                key=name,
                text=f"value {value} was read, although its send failed",
                operations=(key.failed[value], operation),
            )
        elif value not in key.sent:
            yield Anomaly(
                kind=AnomalyKind.PHANTOM_READ,
                key=name,
                text=f"value {value} was read, although nobody sent it",
                operations=(operation,),
            )


def _listed(numbers: object) -> str:
    assert isinstance(numbers, (dict, list))
    return " and ".join(str(number) for number in numbers)
