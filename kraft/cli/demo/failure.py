"""The error that ends the demo."""

from __future__ import annotations


class DemoFailed(Exception):
    """A requirement of the demo is missing, or a part of it failed; one line for a person."""
