"""The engine, its nodes, the links and the log, as the transport and its filters see them."""

from __future__ import annotations

from typing import Protocol

from pysyncobj.node import Node

from kraft.quorum.filters import LogView
from kraft.quorum.messages import Message


class Links(Protocol):
    """The streams to the other voters."""

    def deliver(self, peer: int, messages: list[Message]) -> None:
        """Send the messages of one step; they may be lost, never reordered."""

    def room_bytes(self, peer: int) -> int:
        """Return the bytes that may be sent to the voter before `link_has_room` is called."""


class EngineFacts(Protocol):
    """The engine, as the filters see it."""

    @property
    def raftCurrentTerm(self) -> int: ...

    @property
    def raftLastApplied(self) -> int: ...

    @property
    def raftCommitIndex(self) -> int: ...

    @property
    def leading(self) -> bool: ...

    def campaign_now(self) -> None: ...

    def forget_acknowledgements(self, voter: int) -> None: ...


class DurableLog(LogView, Protocol):
    @property
    def first_index(self) -> int:
        """Index of the first entry; no earlier one can be sent."""

    @property
    def synced_index(self) -> int:
        """Index up to which every entry is on disk."""


class VoterNode(Node):  # type: ignore[misc]  # PySyncObj has no type information.
    """A voter by its node id, whose hash is the same in every process, so that sets of voters have one order."""

    def __str__(self) -> str:
        return str(self.id)
