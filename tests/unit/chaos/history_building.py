"""Histories made by hand, a call an operation, and by a simulated log that does everything right."""

from __future__ import annotations

from random import Random

from chaos.history import Assign, Drain, Fault, Heal, Operation, OperationType, Poll, Send, Value

KEY = "orders-0"


class HistoryBuilder:
    """Notes operations, a millisecond apart."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.now_ns = 0

    def note(self, process: str, kind: OperationType, value: Value) -> None:
        self.now_ns += 1_000_000
        self.operations.append(
            Operation(index=len(self.operations), process=process, time_ns=self.now_ns, type=kind, value=value)
        )

    def sent(self, *places: tuple[int, int | None], process: str = "producer", key: str = KEY) -> None:
        """Acknowledged: each (value, offset)."""
        values, offsets = tuple(value for value, _ in places), tuple(offset for _, offset in places)
        self.note(process, OperationType.INVOKE, Send(key=key, values=values))
        self.note(process, OperationType.OK, Send(key=key, values=values, offsets=offsets))

    def send_failed(self, *values: int, process: str = "producer") -> None:
        self.note(process, OperationType.INVOKE, Send(key=KEY, values=values))
        self.note(process, OperationType.FAIL, Send(key=KEY, values=values))

    def send_unknown(self, *values: int, process: str = "producer", acknowledged: tuple[int, ...] = ()) -> None:
        """The outcome is open, except for those that are `acknowledged`."""
        self.note(process, OperationType.INVOKE, Send(key=KEY, values=values))
        flags = tuple(value in acknowledged for value in values)
        send = Send(key=KEY, values=values, offsets=(None,) * len(values), acknowledged=flags)
        self.note(process, OperationType.INFO, send)

    def polled(self, *reads: tuple[int, int], process: str = "consumer", key: str = KEY) -> None:
        """Each (offset, value)."""
        self.note(process, OperationType.INVOKE, Poll())
        self.note(process, OperationType.OK, Poll(reads={key: reads}))

    def assigned(self, process: str = "consumer", key: str = KEY) -> None:
        self.note(process, OperationType.INVOKE, Assign(keys=(key,)))
        self.note(process, OperationType.OK, Assign(keys=(key,)))

    def broke(self, fault: str) -> None:
        self.note("nemesis", OperationType.INVOKE, Fault(name=fault))
        self.note("nemesis", OperationType.OK, Fault(name=fault, target="node 1"))

    def healed(self, fault: str) -> None:
        self.note("nemesis", OperationType.OK, Heal(name=fault))

    def drained(self) -> None:
        self.note("drain", OperationType.INVOKE, Drain())
        self.note("drain", OperationType.OK, Drain())


def good_history(seed: int, steps: int = 60, keys: int = 2) -> list[Operation]:
    """Return a correct history, with lost responses, failed sends and gaps in the offsets."""
    return _RightLog(Random(seed), keys).run(steps)


class _RightLog:
    def __init__(self, chance: Random, keys: int) -> None:
        self._chance = chance
        self._history = HistoryBuilder()
        self._logs: dict[str, list[tuple[int, int]]] = {f"orders-{number}": [] for number in range(keys)}
        self._next_offset = dict.fromkeys(self._logs, 0)
        self._next_value = 0
        self._positions: dict[tuple[str, str], int] = {}
        self._lives = 0

    def run(self, steps: int) -> list[Operation]:
        for _ in range(steps):
            key = self._chance.choice(list(self._logs))
            self._chance.choices([self._send, self._poll, self._begin_again], weights=[5, 5, 1])[0](key)
        for key, log in self._logs.items():
            self._history.assigned("drain", key)
            self._history.polled(*log, process="drain", key=key)
        self._history.drained()
        return self._history.operations

    def _send(self, key: str) -> None:
        process = f"producer-{self._chance.randint(1, 2)}#{self._lives}"
        values = tuple(self._next_value + number for number in range(self._chance.randint(1, 4)))
        self._next_value += len(values)
        self._history.note(process, OperationType.INVOKE, Send(key=key, values=values))
        outcome = self._chance.choices(list(OperationType)[1:], weights=[8, 1, 2])[0]
        if outcome is OperationType.FAIL:
            self._history.note(process, outcome, Send(key=key, values=values))
            return
        stored = len(values) if outcome is OperationType.OK else self._chance.randint(0, len(values))
        offsets = [self._append(key, value) for value in values[:stored]]
        if outcome is OperationType.OK:
            self._history.note(process, outcome, Send(key=key, values=values, offsets=tuple(offsets)))
            return
        # The answer was lost for some of them; a process with an open operation is not used again.
        heard = self._chance.randint(0, stored)
        silence = len(values) - heard
        self._history.note(
            process,
            outcome,
            Send(
                key=key,
                values=values,
                offsets=(*offsets[:heard], *(None,) * silence),
                acknowledged=(True,) * heard + (False,) * silence,
            ),
        )
        self._lives += 1

    def _append(self, key: str, value: int) -> int:
        # A control record takes an offset now and then, and nobody ever sees it.
        self._next_offset[key] += self._chance.random() < 0.1
        offset = self._next_offset[key]
        self._next_offset[key] += 1
        self._logs[key].append((offset, value))
        return offset

    def _poll(self, key: str) -> None:
        process = f"consumer-{self._chance.randint(1, 2)}"
        position = self._positions.get((process, key), 0)
        reads = self._logs[key][position : position + self._chance.randint(0, 5)]
        self._positions[process, key] = position + len(reads)
        self._history.polled(*reads, process=process, key=key)

    def _begin_again(self, key: str) -> None:
        process = f"consumer-{self._chance.randint(1, 2)}"
        self._positions[process, key] = self._chance.randint(0, len(self._logs[key]))
        self._history.assigned(process, key)
