"""Bytes of messages that gRPC has handed over, by the connection that they came on.

gRPC tells nobody how much of a message has arrived. What a connection has received and not handed over is that, and the
bytes around messages, for which an allowance counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

CALL_BYTES: Final = 1_024
"""Allowance for the headers of a call."""

MESSAGE_BYTES: Final = 128
"""Allowance for what is around a message, and for what a client sends while it reads one."""

SIZE_SHARE: Final = 32
"""One of so many bytes is allowed for frames, and for TLS."""


class ReceivedMessages:
    """Counts for one listener. A peer is gRPC's text for the address of the other end."""

    def __init__(self) -> None:
        self._explained: dict[str, int] = {}
        self._messages: dict[str, int] = {}
        self._nodes: set[str] = set()

    def call_began(self, peer: str, *, is_node: bool) -> None:
        self._explained[peer] = self._explained.get(peer, 0) + CALL_BYTES
        if is_node:
            self._nodes.add(peer)

    def message_came(self, peer: str, size_bytes: int) -> None:
        explained = size_bytes + size_bytes // SIZE_SHARE + MESSAGE_BYTES
        self._explained[peer] = self._explained.get(peer, 0) + explained
        self._messages[peer] = self._messages.get(peer, 0) + 1

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the bytes of its messages, with the allowances, and their number, for each peer with a call."""
        return {peer: (explained, self._messages.get(peer, 0)) for peer, explained in self._explained.items()}

    def is_node(self, peer: str) -> bool:
        return peer in self._nodes

    def forget(self, peers: Iterable[str]) -> None:
        """Forget connections that have ended."""
        for gone in peers:
            self._explained.pop(gone, None)
            self._messages.pop(gone, None)
            self._nodes.discard(gone)
