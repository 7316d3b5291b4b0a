"""Longest wait of the producers for each fault of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaos.history import Fault, Operation, OperationType, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One fault, up to the next one or the end of the run."""

    fault: str
    target: str
    began_ns: int
    longest_gap_ns: int
    """The longest time within the cycle that passed without an acknowledgement of one key, up to the next one. A key
    that was never acknowledged again has no end to measure to: the run itself reports that it made no progress."""


def cycles(operations: Iterable[Operation]) -> list[Cycle]:
    """Every fault that was done, with its longest gap."""
    faults: list[tuple[int, Fault]] = []
    acknowledged_ns: dict[str, list[int]] = {}
    invoked_ns = 0
    for operation in operations:
        match operation.value:
            case Fault() if operation.type is OperationType.INVOKE:
                invoked_ns = operation.time_ns
            case Fault() as fault if operation.type is OperationType.OK:
                # Only now is it known what was hit, but it began to hurt when it was begun.
                faults.append((invoked_ns, fault))
            case Send() as send if operation.type is OperationType.OK:
                acknowledged_ns.setdefault(send.key, []).append(operation.time_ns)
            case _:
                pass
    gaps = (gap for times_ns in acknowledged_ns.values() for gap in pairwise(times_ns))
    longest_ns = _longest_within([began_ns for began_ns, _ in faults], gaps)
    return [
        Cycle(fault=fault.name, target=fault.target, began_ns=began_ns, longest_gap_ns=gap_ns)
        for (began_ns, fault), gap_ns in zip(faults, longest_ns, strict=True)
    ]


def _longest_within(begins_ns: Sequence[int], gaps: Iterable[tuple[int, int]]) -> list[int]:
    """Return the longest part of a gap that lies in each window, from one begin to the next."""
    longest_ns = [0] * len(begins_ns)
    ends_ns = [*begins_ns[1:], None]
    for before_ns, after_ns in gaps:
        window = max(0, bisect_right(begins_ns, before_ns) - 1)
        while window < len(begins_ns) and begins_ns[window] < after_ns:
            end_ns = ends_ns[window]
            last_ns = after_ns if end_ns is None else min(after_ns, end_ns)
            longest_ns[window] = max(longest_ns[window], last_ns - max(before_ns, begins_ns[window]))
            window += 1
    return longest_ns
