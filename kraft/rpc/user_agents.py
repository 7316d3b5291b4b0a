"""What gRPC's clients say of their software: the products in the `user-agent` of each call, the own one first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from kraft.model.clients import TEXT_CHARACTERS_MAX

PRIMARY: Final = "grpc.primary_user_agent"
"""The option of a channel that puts a product before those of gRPC itself."""

_HEADER: Final = "user-agent"


class Software(Struct, frozen=True):
    """Empty texts: the client does not say."""

    name: str = ""
    version: str = ""


def software_in(metadata: Iterable[tuple[str, Any]]) -> Software:
    """Return the first product: `orders/1.2` of `orders/1.2 grpc-go/1.60.0`, or that of gRPC if there is no other."""
    said = next((value for name, value in metadata if name == _HEADER), "")
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    name, _, version = text.lstrip().partition(" ")[0].partition("/")
    return Software(name[:TEXT_CHARACTERS_MAX], version[:TEXT_CHARACTERS_MAX])
