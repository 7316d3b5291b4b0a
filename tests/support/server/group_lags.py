"""The lags of groups for tests about something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft.model.ids import Offset, TopicPartition
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.handlers.group_lags import GroupLagsHandler
from tests.support.virtual_time import LoopClock


def lags_without_ends(coordinators: GroupCoordinators) -> GroupLagsHandler:
    """A handler that knows no end of a log."""

    async def ask_for_ends(_: Sequence[TopicPartition]) -> Iterable[tuple[TopicPartition, Offset]]:
        return ()

    return GroupLagsHandler(GroupLags(coordinators, ask_for_ends, LoopClock()))
