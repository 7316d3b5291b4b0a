"""Partitions added, leaders elected, replicas moved: decided by the active controller.

The answer comes once this broker acts on it, too, if that is soon: who asks it next is told the new state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.configs import TopicConfig
from kraft.metadata.controller import alter_partition_reassignments, elect_leaders
from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import list_partition_reassignments
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partition_requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    PartitionName,
)
from kraft.model.requests import TopicResult, TopicResults
from kraft.rpc.peers import AdminPeer
from kraft.rpc.services import PartitionAdminHandlers
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0

Answer = TypeVar("Answer")


class PartitionChangesHandler:
    def __init__(
        self, loader: MetadataLoader, controllers: ControllerClient, settings: Mapping[str, str], defaults: TopicConfig
    ) -> None:
        """`settings` are those of the broker's file, and `defaults` what they come to for topics."""
        self._loader = loader
        self._controllers = controllers
        self._defaults = TopicDefaultsInEffect(settings, defaults)

    async def create_partitions(self, request: CreatePartitionsRequest) -> TopicResults:
        try:
            answer = await self._ask(
                lambda peer, timeout_s: peer.create_partitions(request, timeout_s), request.timeout_ms
            )
        except NoController as error:
            return TopicResults(
                results=[
                    TopicResult(topic=asked.topic, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error))
                    for asked in request.topics
                ]
            )
        if not request.validate_only:
            grown = [result for result in answer.results if result.error_code is ErrorCode.NONE]
            await self._until(lambda image: all(_has_grown(image, result) for result in grown))
        return answer

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        try:
            answer = await self._ask(lambda peer, timeout_s: peer.elect_leaders(request, timeout_s), request.timeout_ms)
        except NoController as error:
            return ElectLeadersResponse(results=[], error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error))
        done = replace(
            request,
            partitions=[
                PartitionName(topic=result.topic, partition=result.partition)
                for result in answer.results
                if result.error_code is ErrorCode.NONE
            ],
            all_partitions=False,
        )
        # Asked again for the same, a controller with this image would find nothing left to do.
        await self._until(lambda image: not elect_leaders(image, done, defaults=self._defaults(image)).records)
        return answer

    async def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        try:
            answer = await self._ask(
                lambda peer, timeout_s: peer.alter_partition_reassignments(request, timeout_s), request.timeout_ms
            )
        except NoController as error:
            return AlterPartitionReassignmentsResponse(
                results=[], error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error)
            )
        done = replace(
            request,
            partitions=[
                asked
                for asked, result in zip(request.partitions, answer.results, strict=True)
                if result.error_code is ErrorCode.NONE
            ],
        )
        await self._until(lambda image: self._is_reassigned(image, done))
        return answer

    def _is_reassigned(self, image: MetadataImage, done: AlterPartitionReassignmentsRequest) -> bool:
        try:
            return not alter_partition_reassignments(image, done, defaults=self._defaults(image)).records
        except Refusal:
            # The controller did it, so it knows what this image does not: that the cluster is at the level for it.
            return False

    async def list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        return list_partition_reassignments(self._loader.image, request)

    def handlers(self) -> PartitionAdminHandlers:
        return PartitionAdminHandlers(
            create_partitions=self.create_partitions,
            elect_leaders=self.elect_leaders,
            alter_reassignments=self.alter_reassignments,
            list_reassignments=self.list_reassignments,
        )

    async def _ask(self, ask: Callable[[AdminPeer, float], Awaitable[Answer]], timeout_ms: int) -> Answer:
        return await self._controllers.call_admin(ask, min(max(timeout_ms, 0) / 1_000, TIMEOUT_MAX_S))

    async def _until(self, holds: Callable[[MetadataImage], bool]) -> None:
        await self._loader.until(holds, LOCALLY_KNOWN_MAX_S)


def _has_grown(image: MetadataImage, result: TopicResult) -> bool:
    topic = image.topic(result.topic)
    return topic is not None and len(topic.partitions) >= result.partitions
