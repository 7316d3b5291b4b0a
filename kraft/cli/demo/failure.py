"""How the demo ends when it cannot go on."""

from __future__ import annotations


class DemoFailed(Exception):
    """Something that the demo needs is missing, or a part of it did not do its work: one line for a person."""
