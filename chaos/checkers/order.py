"""Order in which processes read the offsets of a key: ascending, without a gap.

Steps are counted in the version order of the key, its non-empty offsets ascending: offsets at which no process ever
saw a value, such as those of control records, are not a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.checkers.observations import KeyObservations, Observations, Step
from chaos.checkers.verdict import Anomaly, AnomalyKind


def find(seen: Observations) -> Iterator[Anomaly]:
    """Anomalies of order, of all processes."""
    ranks = {name: version_order(key) for name, key in seen.keys.items()}
    for (process, key), runs in seen.polls.items():
        for run in runs:
            yield from _polls(process, key, run, ranks.get(key, {}))
    for (process, key), steps in seen.sends.items():
        yield from _sends(process, key, steps)


def version_order(key: KeyObservations) -> dict[int, int]:
    """Offset to its index among the non-empty ones."""
    return {offset: index for index, offset in enumerate(sorted(key.places))}


def _polls(process: str, key: str, run: Sequence[Step], ranks: Mapping[int, int]) -> Iterator[Anomaly]:
    for before, before_index, after, after_index in _pairs(run):
        is_inside = before_index == after_index
        delta = ranks[after] - ranks[before]
        if delta == 1:
            continue
        if delta > 1:
            kind = AnomalyKind.INT_POLL_SKIP if is_inside else AnomalyKind.POLL_SKIP
            text = f"{process} went from offset {before} to {after}, leaving out {delta - 1}"
        else:
            kind = AnomalyKind.INT_NONMONOTONIC_POLL if is_inside else AnomalyKind.NONMONOTONIC_POLL
            text = f"{process} went from offset {before} back to {after}"
        yield _anomaly(kind, key, text, before_index, after_index)


def _sends(process: str, key: str, steps: Sequence[Step]) -> Iterator[Anomaly]:
    for before, before_index, after, after_index in _pairs(steps):
        if after > before:
            continue
        is_inside = before_index == after_index
        kind = AnomalyKind.INT_NONMONOTONIC_SEND if is_inside else AnomalyKind.NONMONOTONIC_SEND
        yield _anomaly(kind, key, f"{process} wrote offset {before}, then {after}", before_index, after_index)


def _pairs(steps: Sequence[Step]) -> Iterator[tuple[int, int, int, int]]:
    """Each two offsets that follow one another, each with the operation that it belongs to."""
    before: tuple[int, int] | None = None
    for index, offsets in steps:
        for offset in offsets:
            if before is not None:
                yield *before, offset, index
            before = offset, index


def _anomaly(kind: AnomalyKind, key: str, text: str, first: int, second: int) -> Anomaly:
    return Anomaly(kind=kind, key=key, text=text, operations=(first,) if first == second else (first, second))
