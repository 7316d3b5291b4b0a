"""ElectLeaders and AlterPartitionReassignments: forwarded to and decided by the active controller.

A broker answers once it has applied the decision too, if that is soon: clients that ask it next see the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog
from msgspec.structs import replace

from kraft.log.topic_config import TopicConfig
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.election_decisions import elect_leaders
from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import alter_partition_reassignments
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionName,
    PartitionResult,
)
from kraft.rpc.call import Served
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.forwarding import Forwarder, NoAnswer

log = structlog.get_logger()


class PartitionChangesHandler:
    def __init__(self, forwarder: Forwarder, settings: Mapping[str, str], defaults: TopicConfig) -> None:
        """`settings` are those of the broker's file, `defaults` the topic configs that follow from them."""
        self._forwarder = forwarder
        self._defaults = TopicDefaultsInEffect(settings, defaults)

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        try:
            answer = await self._forwarder.forward(ELECT_LEADERS, request)
        except NoAnswer as refusal:
            return ElectLeadersResponse(results=[], error_code=refusal.error_code, error_message=refusal.message)
        done = replace(
            request,
            partitions=[
                PartitionName(topic=result.topic, partition=result.partition)
                for result in answer.results
                if result.error_code is ErrorCode.NONE
            ],
            all_partitions=False,
        )
        # This image has the change if deciding the same request on it changes nothing.
        await self._forwarder.until(
            lambda image: not elect_leaders(image, done, defaults=self._defaults(image)).records
        )
        return answer

    async def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        try:
            answer = await self._forwarder.forward(ALTER_PARTITION_REASSIGNMENTS, request)
        except NoAnswer as refusal:
            return AlterPartitionReassignmentsResponse(
                results=[], error_code=refusal.error_code, error_message=refusal.message
            )
        done = replace(
            request,
            partitions=[
                asked
                for asked, result in zip(request.partitions, answer.results, strict=True)
                if result.error_code is ErrorCode.NONE
            ],
        )
        await self._forwarder.until(lambda image: self._is_reassigned(image, done))
        return answer

    def _is_reassigned(self, image: MetadataImage, done: AlterPartitionReassignmentsRequest) -> bool:
        try:
            return not alter_partition_reassignments(image, done, defaults=self._defaults(image)).records
        except Refusal:
            # The controller accepted it, so this image is older: it lacks the feature level that allows it.
            return False

    def served(self) -> list[Served]:
        return [
            ELECT_LEADERS.served_by(self.elect_leaders),
            ALTER_PARTITION_REASSIGNMENTS.served_by(self.alter_reassignments),
        ]


class ControllerPartitionChangesHandler:
    """The controller's side. Raises Refusal NOT_CONTROLLER while this node is not the active controller."""

    def __init__(self, decisions: Decisions, *, topic_defaults: Callable[[MetadataImage], TopicConfig]) -> None:
        self._decisions = decisions
        self._topic_defaults = topic_defaults

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        response = await self._decisions.submit(
            lambda image: elect_leaders(image, request, defaults=self._topic_defaults(image))
        )
        elected = _done(response.results)
        if elected and request.election_type is ElectionType.UNCLEAN:
            log.warning("unclean leaders elected by operator", partitions=elected)
        elif elected:
            log.info("preferred leaders elected by operator", partitions=elected)
        return response

    async def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        response = await self._decisions.submit(
            lambda image: alter_partition_reassignments(image, request, defaults=self._topic_defaults(image))
        )
        if altered := _done(response.results):
            log.info("partition reassignments altered", partitions=altered)
        return response

    def served(self) -> list[Served]:
        return [
            ELECT_LEADERS.served_by(self.elect_leaders),
            ALTER_PARTITION_REASSIGNMENTS.served_by(self.alter_reassignments),
        ]


def _done(results: Sequence[PartitionResult]) -> int:
    return sum(result.error_code is ErrorCode.NONE for result in results)
