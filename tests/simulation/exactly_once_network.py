"""The network of a joined simulation: messages that arrive in any order, late, more than once, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from msgspec import Struct

from tests.simulation.groups_clients import Request

AGE_MAX_MS: Final = 4_000
"""No message is older when it arrives: much less than the time for which partitions remember producers."""

_LATE_MAX: Final = 60


def _nothing() -> None:
    pass


class Message(Struct, frozen=True, eq=False, kw_only=True):
    deliver: Callable[[], None]
    lost: Callable[[], None] = _nothing
    """Tells the sender that no answer comes."""

    sender: str = ""
    """The old client that waits for the response on its only connection, or empty."""

    request: Request | None = None
    """The request of a member of a group, whose connection it is."""

    may_repeat: bool = True
    may_be_lost: bool = True
    sent_ms: int


class Network:
    def __init__(self, random: Random) -> None:
        self.now_ms = 0
        self.has_faults = True
        self._random = random
        self._messages: list[Message] = []
        self._late: list[Message] = []
        """Messages that were delivered or lost, and come again."""

    def send(
        self,
        deliver: Callable[[], None],
        *,
        lost: Callable[[], None] = _nothing,
        sender: str = "",
        request: Request | None = None,
        may_repeat: bool = True,
        may_be_lost: bool = True,
    ) -> None:
        message = Message(
            deliver=deliver,
            lost=lost,
            sender=sender,
            request=request,
            may_repeat=may_repeat and not sender and request is None,
            may_be_lost=may_be_lost,
            sent_ms=self.now_ms,
        )
        self._messages.append(message)

    def deliver(self) -> None:
        """Deliver any message; under faults, it may be lost, or come again much later."""
        if not self._messages:
            return
        is_any = self._random.random() < 0.3
        message = self._messages.pop(self._random.randrange(len(self._messages)) if is_any else 0)
        lot = self._random.random() if self.has_faults else 0.5
        if message.may_repeat and lot < 0.08 and len(self._late) < _LATE_MAX:
            self._late.append(message)
        if message.may_be_lost and lot > 0.97:
            message.lost()
        else:
            message.deliver()

    def deliver_again(self) -> None:
        if self._late:
            message = self._late.pop(self._random.randrange(len(self._late)))
            if self.now_ms - message.sent_ms < AGE_MAX_MS:
                message.deliver()

    def deliver_all(self) -> None:
        """Deliver what is under way, and not what follows from it."""
        for _ in range(len(self._messages)):
            self.deliver()

    def end_faults(self) -> None:
        self.has_faults = False
        while self._late:
            self.deliver_again()

    def take(self) -> list[Message]:
        """Take all messages that are under way from the network, for a scenario to deliver."""
        taken, self._messages = self._messages, []
        return taken

    def close(self, *, sender: str = "", request: Request | None = None) -> None:
        """Close a connection: what is under way on it does not arrive."""
        self._messages = [
            each
            for each in self._messages
            if not (sender and each.sender == sender) and not (request is not None and each.request is request)
        ]
