"""Clock, entropy and poller of a simulated voter."""

from __future__ import annotations

from random import Random

from tests.simulation.quorum_loop import Life, VirtualLoop


class DriftingClock:
    """The clock of a process: it begins anywhere and runs at its own rate."""

    def __init__(self, loop: VirtualLoop, life: Life) -> None:
        self._loop = loop
        self._life = life

    def monotonic_ms(self) -> int:
        return int(self._loop.now_s * self._life.clock_rate * 1000)


class SeededBytes:
    def __init__(self, random: Random) -> None:
        self._random = random

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class NullPoller:
    """Replaces the engine's poller: its transport is not used."""

    def __init__(self, _type: str) -> None: ...

    def poll(self, _timeout: float) -> None: ...
