"""A history, sorted by key: where each value was said to be, and in which order processes went through the offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from chaos.history import Assign, Drain, Operation, OperationType, Poll, Send

Step = tuple[int, tuple[int, ...]]
"""Index of an operation, and the offsets of one key that it went through."""


@dataclass(slots=True)
class KeyObservations:
    """Everything that the history says about one key. Places are dicts, so that the order of finding is kept."""

    sent: dict[int, int] = field(default_factory=dict)
    """Value to the operation that sent it."""

    acknowledged: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """Value to its offset, if the acknowledgement gave one, and the operation."""

    failed: dict[int, int] = field(default_factory=dict)
    read: dict[int, int] = field(default_factory=dict)
    """Value to the first operation that read it."""

    highest_read: int = -1
    places: dict[int, dict[int, int]] = field(default_factory=dict)
    """Offset to the values that were said to be there, each with the first operation that said so."""

    def see(self, offset: int, value: int, operation: int) -> None:
        self.places.setdefault(offset, {}).setdefault(value, operation)


@dataclass(slots=True)
class Observations:
    keys: dict[str, KeyObservations] = field(default_factory=lambda: defaultdict(KeyObservations))
    polls: dict[tuple[str, str], list[list[Step]]] = field(default_factory=dict)
    """(process, key) to its polls; a new list for every assignment."""

    sends: dict[tuple[str, str], list[Step]] = field(default_factory=lambda: defaultdict(list))
    is_drained: bool = False


def observe(operations: Iterable[Operation]) -> Observations:
    """One pass over the history."""
    seen = Observations()
    for operation in operations:
        match operation.value:
            case Send() as send:
                _observe_send(seen, operation, send)
            case Poll() as poll if operation.type is OperationType.OK:
                _observe_poll(seen, operation, poll)
            case Assign() as assign if operation.type is OperationType.OK:
                for key in assign.keys:
                    seen.polls.setdefault((operation.process, key), []).append([])
            case Drain():
                seen.is_drained = operation.type is OperationType.OK
            case _:
                pass
    return seen


def _observe_send(seen: Observations, operation: Operation, send: Send) -> None:
    key = seen.keys[send.key]
    match operation.type:
        case OperationType.INVOKE:
            for value in send.values:
                key.sent.setdefault(value, operation.index)
        case OperationType.FAIL:
            for value in send.values:
                key.failed[value] = operation.index
        case OperationType.OK | OperationType.INFO:
            _observe_acknowledged(seen, operation, send)


def _observe_acknowledged(seen: Observations, operation: Operation, send: Send) -> None:
    key = seen.keys[send.key]
    nothing = (None,) * len(send.values)
    is_ok = operation.type is OperationType.OK
    flags = send.acknowledged or (is_ok,) * len(send.values)
    placed = []
    for value, offset, is_acknowledged in zip(send.values, send.offsets or nothing, flags, strict=True):
        if not is_acknowledged:
            continue
        key.acknowledged[value] = offset, operation.index
        if offset is not None:
            key.see(offset, value, operation.index)
            placed.append(offset)
    if placed:
        seen.sends[operation.process, send.key].append((operation.index, tuple(placed)))


def _observe_poll(seen: Observations, operation: Operation, poll: Poll) -> None:
    for name, reads in poll.reads.items():
        if not reads:
            continue
        key = seen.keys[name]
        for offset, value in reads:
            key.see(offset, value, operation.index)
            key.read.setdefault(value, operation.index)
            key.highest_read = max(key.highest_read, offset)
        runs = seen.polls.setdefault((operation.process, name), [[]])
        runs[-1].append((operation.index, tuple(offset for offset, _ in reads)))
