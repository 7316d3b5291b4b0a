"""Python's collector of reference cycles, kept away from what lives as long as the node."""

from __future__ import annotations

import gc


def exempt_what_lives_long() -> None:
    """For a node that has started: what is there now is never looked through again.

    Modules, generated classes and open logs are a hundred thousand objects and more. To look through them holds the
    event loop for 50 ms, and answers of some thousand records make the collector do so several times a second. Objects
    that are freed are freed as before; only a cycle among those that are there now would stay.
    """
    gc.collect()
    gc.freeze()
