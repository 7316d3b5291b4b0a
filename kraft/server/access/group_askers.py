"""Who asks for the topics of a group: those that match its regular expressions are found in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kraft.metadata.authorizer import Authorizer, Requester
from kraft.model.access import Operation, ResourceType
from kraft.server.loop.turns import Turns

GROUPS_MAX: Final = 20_000
"""Groups whose last member is remembered; of a forgotten one the next heartbeat says it again."""

ASKED_AT_ONCE: Final = 1_000


class GroupAskers:
    def __init__(self, authorizer: Callable[[], Authorizer]) -> None:
        self._authorizer = authorizer
        self._last: dict[str, Requester] = {}
        """Who sent the last heartbeat of each group, in their order."""

    def heard(self, group_id: str, requester: Requester) -> None:
        """Note who sent a heartbeat of the group, after it was allowed to be a member."""
        self._last.pop(group_id, None)
        self._last[group_id] = requester
        if len(self._last) > GROUPS_MAX:
            del self._last[next(iter(self._last))]

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
