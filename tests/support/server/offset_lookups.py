"""Look-ups of offsets in `orders`, as a client of the newest version asks for them."""

from __future__ import annotations

from typing import Final

from kraft.model.request_context import RequestContext
from kraft.server.handlers.list_offsets import ListOffsetsHandler
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

NEWEST: Final = RequestContext(version=ListOffsetsRequest.versions.last)


async def answers(
    handler: ListOffsetsHandler, *timestamps_ms: int, epoch: int = -1, isolation_level: int = 0
) -> tuple[ListOffsetsPartitionResponse, ...]:
    """Return what the first partition answers for each time."""
    wanted = (
        ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=each) for each in timestamps_ms
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=(ListOffsetsTopic(name="orders", partitions=tuple(wanted)),),
    )
    (topic,) = (await handler.handle(request, NEWEST)).topics
    return topic.partitions
