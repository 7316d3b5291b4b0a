"""`kraft demo`: real data through three nodes into a Spark query, with a leader killed on the way.

`run` has the steps in order; every other module is one of its parts.
"""

from __future__ import annotations

from kraft.cli.demo.command import demo

__all__ = ["demo"]
