"""The error of settings that are valid alone and contradict each other."""

from __future__ import annotations


class Conflict(Exception):
    """Settings that contradict each other: the key to name, and the reason with the remedy."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
        self.reason = reason
