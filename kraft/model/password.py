"""A secret of the configuration: no message, log event or error shows its text."""

from __future__ import annotations

from msgspec import Struct


class Password(Struct, frozen=True):
    text: str

    def __str__(self) -> str:
        # As Kafka writes it.
        return "[hidden]"

    def __repr__(self) -> str:
        return "Password([hidden])"
