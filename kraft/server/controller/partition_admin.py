"""What operators ask of the active controller about partitions and their replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from kraft.metadata import controller
from kraft.metadata.configs import TopicConfig
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode
from kraft.model.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
)
from kraft.model.topics import TopicResults
from kraft.rpc.call import Served
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, CREATE_PARTITIONS, ELECT_LEADERS
from kraft.runtime.entropy import Entropy
from kraft.server.controller.state_machine_host import StateMachineHost

log = structlog.get_logger()


class PartitionAdmin:
    """Every method that changes something raises Refusal NOT_CONTROLLER while this node is not active."""

    def __init__(
        self, host: StateMachineHost, entropy: Entropy, *, topic_defaults: Callable[[MetadataImage], TopicConfig]
    ) -> None:
        self._host = host
        self._entropy = entropy
        self._topic_defaults = topic_defaults

    async def create_partitions(self, request: CreatePartitionsRequest) -> TopicResults:
        # The place is drawn here, because deciding is free of chance.
        start = self._entropy.below(2**31)
        return await self._host.submit(
            lambda image: controller.create_partitions(image, request, placement_start=start)
        )

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        response = await self._host.submit(
            lambda image: controller.elect_leaders(image, request, defaults=self._topic_defaults(image))
        )
        elected = _done(response.results)
        if elected and request.election_type is ElectionType.UNCLEAN:
            log.warning("leaders that were not in sync are elected by an operator", partitions=elected)
        elif elected:
            log.info("preferred leaders are elected by an operator", partitions=elected)
        return response

    async def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        response = await self._host.submit(
            lambda image: controller.alter_partition_reassignments(image, request, defaults=self._topic_defaults(image))
        )
        log.info("partitions are reassigned or that is cancelled", partitions=_done(response.results))
        return response

    def served(self) -> list[Served]:
        return [
            CREATE_PARTITIONS.served_by(self.create_partitions),
            ELECT_LEADERS.served_by(self.elect_leaders),
            ALTER_PARTITION_REASSIGNMENTS.served_by(self.alter_reassignments),
        ]


def _done(results: Sequence[PartitionResult]) -> int:
    return sum(result.error_code is ErrorCode.NONE for result in results)
