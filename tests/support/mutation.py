"""Damaging inputs at random: the plain fuzzer, and the deterministic one of the test suite."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

INPUT_BYTES_MAX: Final = 4096
_INTERESTING: Final = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff" * 9,
)
_FRESH_EVERY: Final = 16


def mutated(seeds: tuple[bytes, ...], chance: Random) -> Iterator[bytes]:
    """Yield inputs endlessly: the seeds, then seeds with a few damaged places, and sometimes pure noise."""
    yield from seeds
    number = 0
    while True:
        number += 1
        if number % _FRESH_EVERY == 0:
            yield chance.randbytes(chance.randrange(200))
            continue
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            _damage(data, seeds, chance)
        yield bytes(data[:INPUT_BYTES_MAX])


def _damage(data: bytearray, seeds: tuple[bytes, ...], chance: Random) -> None:
    position = chance.randrange(len(data) + 1)
    span = min(chance.randint(1, 8), len(data) - position)
    match chance.randrange(7):
        case 0 if span:
            data[position] ^= 1 << chance.randrange(8)
        case 1 if span:
            data[position : position + span] = chance.randbytes(span)
        case 2:
            data[position:position] = chance.randbytes(chance.randint(1, 8))
        case 3:
            del data[position : position + span]
        case 4:
            del data[position:]
        case 5:
            piece = chance.choice(_INTERESTING)
            data[position : position + len(piece)] = piece
        case _:
            other = chance.choice(seeds)
            data[position:] = other[chance.randrange(len(other) + 1) :]
