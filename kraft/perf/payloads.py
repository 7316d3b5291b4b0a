"""Values of the records that are sent: random letters, lines of a file, or numbers that grow."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kraft.model.errors import KraftError

Payloads = Callable[[int, int], list[bytes]]
"""Returns the values of records: takes the number of the first, and how many."""

_POOL_BYTES: Final = 1 << 20
_POOL_RECORDS_MAX: Final = 1_000

_LETTERS: Final = bytes(ord("A") + each % 26 for each in range(256))


def random_payloads(size_bytes: int) -> Payloads:
    """Return values of random letters, which repeat after 1,000 records or 1 MiB, whichever is less."""
    count = max(1, min(_POOL_RECORDS_MAX, _POOL_BYTES // size_bytes))
    return _repeated([os.urandom(size_bytes).translate(_LETTERS) for _ in range(count)])


def monotonic_payloads(first: int, count: int) -> list[bytes]:
    """Return the numbers of the records, as text."""
    return [b"%d" % number for number in range(first, first + count)]


def file_payloads(path: Path, delimiter: bytes) -> Payloads:
    """Return values that are chosen from a file at random, as Kafka's tool does. Raises KraftError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KraftError(f"{path} cannot be read: {error.strerror}") from None
    found = [each for each in content.split(delimiter) if each]
    if not found:
        raise KraftError(f"{path} has no payloads: write one on each line, or name their --payload-delimiter")

    def some(first: int, count: int) -> list[bytes]:
        return random.choices(found, k=count)

    return some


def _repeated(pool: list[bytes]) -> Payloads:
    def some(first: int, count: int) -> list[bytes]:
        return [pool[number % len(pool)] for number in range(first, first + count)]

    return some
