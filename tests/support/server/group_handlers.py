"""The handlers of groups for a coordinator that is not a whole broker's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft.metadata.image import CurrentImage
from kraft.model.ids import Offset, TopicPartition
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.coordinator.group_lags import GroupLags
from kraft.server.handlers.broker_handlers import GroupHandlers
from kraft.server.handlers.classic_groups import ClassicGroupsHandler
from kraft.server.handlers.committed_offsets import CommittedOffsetsHandler
from kraft.server.handlers.consumer_groups import ConsumerGroupsHandler
from kraft.server.handlers.group_lags import GroupLagsHandler
from kraft.server.handlers.groups import GroupsHandler
from tests.support.virtual_time import LoopClock


async def _no_ends(_: Sequence[TopicPartition]) -> Iterable[tuple[TopicPartition, Offset]]:
    return ()


def group_handlers(coordinators: GroupCoordinators, image: CurrentImage) -> GroupHandlers:
    """Return the handlers; no end of a log is known to that of lags."""
    return GroupHandlers(
        classic=ClassicGroupsHandler(coordinators),
        consumer=ConsumerGroupsHandler(coordinators, image),
        groups=GroupsHandler(coordinators),
        offsets=CommittedOffsetsHandler(coordinators, image),
        lags=GroupLagsHandler(GroupLags(coordinators, _no_ends, image, LoopClock())),
    )
