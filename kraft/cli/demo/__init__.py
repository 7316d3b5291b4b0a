"""`kraft demo`: real data through three nodes into a Spark query, with a leader killed on the way.

`run` tells the story from its first line to its last; every other module is one of its parts.
"""

from __future__ import annotations

from kraft.cli.demo.command import demo

__all__ = ["demo"]
