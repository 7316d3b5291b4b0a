"""Who a client is, once it has logged in (KIP-11)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

USER: Final = "User"
"""The kind of every principal until there are groups of them."""


class Principal(Struct, frozen=True):
    name: str
    kind: str = USER

    def __str__(self) -> str:
        """Return it as Kafka writes it in ACLs: `User:alice`."""
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""The clients of a listener that does not authenticate them."""
