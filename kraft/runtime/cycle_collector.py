"""Python's cyclic garbage collector, which should not scan objects that live as long as the node."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FULL: Final = 2
"""The generation whose collection includes all others."""


@contextmanager
def imports_exempted() -> Iterator[None]:
    """Exempt what is imported inside from garbage collection, without looking for garbage.

    Imports create tens of thousands of objects and hardly any garbage; looking for it takes a fifth of their time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exempt_existing_objects() -> None:
    """Exempt all existing objects from garbage collection. Call it once the node has started.

    Modules, generated classes and open logs are over a hundred thousand objects. Scanning them blocks the event loop
    for 50 ms, and responses with thousands of records make the collector do so several times a second. Reference
    counting still frees the exempted objects; only a cycle among them would stay.
    """
    gc.collect()
    gc.freeze()


def bound_collections() -> None:
    """Exempt all existing objects, and from now on those that survive a full collection.

    A full collection scans every object that is not exempt, in a single call: the state of 30,000 groups takes 60 ms.
    So it scans only what was created since the last one. What lives as long and is created again and again, such as
    connections, must not need the collector to be freed (ADR 48).
    """
    exempt_existing_objects()
    if _exempt_survivors not in gc.callbacks:
        gc.callbacks.append(_exempt_survivors)


def _exempt_survivors(phase: str, facts: dict[str, int]) -> None:
    if phase == "stop" and facts["generation"] == _FULL:
        gc.freeze()
