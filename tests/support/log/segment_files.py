"""The segments of a replica on the disk of a node that runs."""

from __future__ import annotations

from pathlib import Path


def read_segments(directory: Path) -> list[bytes]:
    """Return the contents of each segment, in their order. If the node replaces some meanwhile, all are read again."""
    while True:
        paths = sorted(directory.glob("*.log"))
        try:
            contents = [path.read_bytes() for path in paths]
        except FileNotFoundError:
            continue
        if paths == sorted(directory.glob("*.log")):
            return contents
