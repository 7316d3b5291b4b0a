"""Python's cyclic garbage collector, which should not scan objects that live as long as the node."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
