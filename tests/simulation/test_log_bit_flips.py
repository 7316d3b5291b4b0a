"""A sample of `tests.simulation.bit_flips`: all bits of some headers, and bits of the whole segment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.bit_flips import BITS, FlippedLog, Situation, summary, try_bits

HEADERS = (0, 6, 8, 9, -1)
"""Batches whose headers have every bit flipped: at both ends, and on both sides of a new leader epoch; the
index has an entry for one of them."""

STEP = 1021
"""A prime, so that each of the eight bits of a byte is flipped somewhere."""


def some_bits(flipped: FlippedLog) -> Iterator[int]:
    yield from flipped.header_bits(HEADERS)
    yield from range(0, BITS, STEP)


@pytest.mark.parametrize("situation", Situation, ids=lambda situation: situation.name.lower())
def test_a_flipped_bit_is_never_served_and_never_unnoticed(situation: Situation) -> None:
    seen, first = try_bits(situation, some_bits)
    print(summary(situation, seen))
    bad = {outcome.value: bit for outcome, bit in first.items() if outcome.is_bad}
    assert not bad, f"the first bits of these outcomes: {bad}"
