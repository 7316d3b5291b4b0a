"""Exempts what Spark's worker keeps from task to task from garbage collection.

A worker runs a full collection after every task. It looks at some 400,000 objects, all of modules that stay loaded, and
takes 60 to 100 ms of CPU time: more than everything else that a small micro-batch does in Python.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TypeVar

Item = TypeVar("Item")

_is_settled = False


def settled(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of a task. After the first task of a process that ends, what is loaded is settled."""
    global _is_settled
    yield from items
    if not _is_settled:
        _is_settled = True
        # Garbage must not stay: frozen objects are never looked at again.
        gc.collect()
        gc.freeze()
