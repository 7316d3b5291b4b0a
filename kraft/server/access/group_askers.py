"""Who asks for the topics of a group: those that match its regular expressions are found in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kraft.metadata.authorizer import Authorizer, Requester
from kraft.model.access import Operation, ResourceType
from kraft.server.loop.turns import Turns

GROUPS_MAX: Final = 20_000
"""Groups whose last member is remembered; of a forgotten one the next heartbeat says it again."""

GROUP_CHARACTERS_MAX: Final = 4_000_000
"""Characters of the ids of these groups, which clients choose."""

ASKED_AT_ONCE: Final = 1_000


class GroupAskers:
    def __init__(self, authorizer: Callable[[], Authorizer]) -> None:
        self._authorizer = authorizer
        self._last: dict[str, Requester] = {}
        """Who sent the last heartbeat of each group, in their order."""

        self._characters = 0
        """Of the ids of these groups."""

    def heard(self, group_id: str, requester: Requester) -> None:
        """Note who sent a heartbeat of the group that was accepted."""
        if self._last.pop(group_id, None) is None:
            self._characters += len(group_id)
        self._last[group_id] = requester
        while len(self._last) > GROUPS_MAX or self._characters > GROUP_CHARACTERS_MAX:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._characters -= len(oldest)

    async def describable(self, group_id: str, topics: Iterable[str]) -> frozenset[str] | None:
        """Return those of the topics that the last member heard may describe; None if none was heard."""
        requester = self._last.get(group_id)
        if requester is None:
            return None
        authorizer, turns, found = self._authorizer(), Turns(ASKED_AT_ONCE), []
        for name in topics:
            if authorizer.decide(requester, Operation.DESCRIBE, ResourceType.TOPIC, name).is_allowed:
                found.append(name)
            await turns.done()
        return frozenset(found)
