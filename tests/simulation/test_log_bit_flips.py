"""A part of `tests.simulation.bit_flips`: all bits of some headers, and bits all over the segment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.bit_flips import BITS, FlippedLog, Situation, told, try_bits

HEADERS = (0, 6, 8, 9, -1)
"""Batches of which every bit of the header is flipped: at both ends, and on both sides of a new leader epoch; the
index has an entry for one of them."""

STEP = 1021
"""Prime, so that every bit of a byte has its turn."""


def some_bits(flipped: FlippedLog) -> Iterator[int]:
    yield from flipped.header_bits(HEADERS)
    yield from range(0, BITS, STEP)


@pytest.mark.parametrize("situation", Situation, ids=lambda situation: situation.name.lower())
def test_a_flipped_bit_is_never_served_and_never_unnoticed(situation: Situation) -> None:
    seen, first = try_bits(situation, some_bits)
    print(told(situation, seen))
    bad = {outcome.value: bit for outcome, bit in first.items() if outcome.is_bad}
    assert not bad, f"the first bits of these outcomes: {bad}"
