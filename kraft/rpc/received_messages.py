"""Bytes of messages that gRPC has handed over, by the connection that they came on.

gRPC tells nobody how much of a message has arrived. What a connection has received and not handed over is that, and the
bytes around messages, for which an allowance counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
        self._open_calls: dict[str, int] = {}
        self._was_quiet: set[str] = set()

    @contextmanager
    def call(self, peer: str, *, is_node: bool) -> Iterator[None]:
        """Count a call as open while this is entered."""
        self._call_began(peer, is_node=is_node)
        try:
            yield
        finally:
            self._call_ended(peer)

    def _call_began(self, peer: str, *, is_node: bool) -> None:
        self._open_calls[peer] = self._open_calls.get(peer, 0) + 1
        self._explained[peer] = self._explained.get(peer, 0) + CALL_BYTES
        if is_node:
            self._nodes.add(peer)

    def _call_ended(self, peer: str) -> None:
        left = self._open_calls.pop(peer, 0) - 1
        if left > 0:
            self._open_calls[peer] = left
        elif left == 0:
            self._was_quiet.add(peer)
        # Otherwise the connection was forgotten before its calls ended.

    def message_came(self, peer: str, size_bytes: int) -> None:
        explained = size_bytes + size_bytes // SIZE_SHARE + MESSAGE_BYTES
        self._explained[peer] = self._explained.get(peer, 0) + explained
        self._messages[peer] = self._messages.get(peer, 0) + 1

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return the bytes of its messages, with the allowances, and their number, for each peer with a call."""
        return {peer: (explained, self._messages.get(peer, 0)) for peer, explained in self._explained.items()}

    def quiet_peers(self) -> set[str]:
        """Return those that had no open call at some moment since `looked`: gRPC then kept no part of a message."""
        return self._was_quiet | (self._explained.keys() - self._open_calls.keys())

    def looked(self) -> None:
        """Take note that the system was asked what has arrived."""
        self._was_quiet.clear()

    def is_node(self, peer: str) -> bool:
        return peer in self._nodes

    def forget(self, peers: Iterable[str]) -> None:
        """Forget connections that have ended."""
        for gone in peers:
            self._explained.pop(gone, None)
            self._messages.pop(gone, None)
            self._nodes.discard(gone)
            self._open_calls.pop(gone, None)
