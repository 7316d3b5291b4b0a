"""ElectLeaders and AlterPartitionReassignments: forwarded to and decided by the active controller.

A broker answers once it has applied the decision too, if that is soon: clients that ask it next see the new state.
"""

from __future__ import annotations

from typing import Final

import structlog

from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.decision import Decision
from kraft.metadata.election_decisions import elect_leaders, refused_election
from kraft.metadata.image import MetadataImage
from kraft.metadata.reassignment import (
    alter_partition_reassignments,
    list_partition_reassignments,
    refused_reassignment,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import ElectionType
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, LIST_PARTITION_REASSIGNMENTS
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.forwarding import Forwarder
from kraft.wire.declaration import replace
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from kraft.wire.schema.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
    TopicPartitions,
)
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

log = structlog.get_logger()

LISTED_BY_CONTROLLER_MS_MAX: Final = 2_000
"""Longest wait for a controller that lists reassignments. While none is active, none begins."""

# --- elections ---------------------------------------------------------------------------------------------------


async def elect(
    forwarder: Forwarder, defaults: TopicDefaultsInEffect, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    response = await forwarder.forward(ELECT_LEADERS, request)
    elected = [
        TopicPartitions(
            topic=result.topic,
            partitions=tuple(
                each.partition_id for each in result.partition_result if each.error_code == ErrorCode.NONE
            ),
        )
        for result in response.replica_election_results
    ]
    done = replace(request, topic_partitions=tuple(elected))
    # This image has the change if deciding the same request on it changes nothing.
    await forwarder.until(lambda image: not elect_leaders(image, done, defaults=defaults(image)).records)
    return response


async def decide_elections(
    decisions: Decisions, defaults: TopicDefaultsInEffect, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    response = await decisions.submit(lambda image: elect_leaders(image, request, defaults=defaults(image)))
    results = (each for topic in response.replica_election_results for each in topic.partition_result)
    elected = sum(each.error_code == ErrorCode.NONE for each in results)
    if elected and request.election_type == ElectionType.UNCLEAN:
        log.warning("unclean leaders elected by operator", partitions=elected)
    elif elected:
        log.info("preferred leaders elected by operator", partitions=elected)
    return response


def elections_refused(request: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    """Return one error for every partition: version 0 has no top-level error, and some later clients ignore it."""
    return ElectLeadersResponse(
        error_code=refusal.error_code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic.topic, partition_result=tuple(refused_election(each, refusal) for each in topic.partitions)
            )
            for topic in request.topic_partitions or ()
        ),
    )


# --- reassignments -----------------------------------------------------------------------------------------------


async def reassign(
    forwarder: Forwarder, defaults: TopicDefaultsInEffect, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = await forwarder.forward(ALTER_PARTITION_REASSIGNMENTS, request)
    done = replace(request, topics=tuple(map(_accepted, request.topics, response.responses)))
    await forwarder.until(lambda image: _is_reassigned(image, done, defaults))
    return response


def _accepted(topic: ReassignableTopic, response: ReassignableTopicResponse) -> ReassignableTopic:
    both = zip(topic.partitions, response.partitions, strict=True)
    return replace(topic, partitions=tuple(asked for asked, result in both if result.error_code == ErrorCode.NONE))


def _is_reassigned(
    image: MetadataImage, done: AlterPartitionReassignmentsRequest, defaults: TopicDefaultsInEffect
) -> bool:
    try:
        return not alter_partition_reassignments(image, done, defaults=defaults(image)).records
    except Refusal:
        # The controller accepted it, so this image is older: it lacks the feature level that allows it.
        return False


async def decide_reassignments(
    decisions: Decisions, defaults: TopicDefaultsInEffect, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = await decisions.submit(
        lambda image: alter_partition_reassignments(image, request, defaults=defaults(image))
    )
    results = (each for topic in response.responses for each in topic.partitions)
    if altered := sum(each.error_code == ErrorCode.NONE for each in results):
        log.info("partition reassignments altered", partitions=altered)
    return response


async def list_reassignments(
    forwarder: Forwarder, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the controller's answer, as in Kafka: who has started a move at another broker must find it under way.

    By metadata that is some milliseconds old it seems to be over, and its throttle would be removed.
    """
    asked = replace(request, timeout_ms=min(request.timeout_ms, LISTED_BY_CONTROLLER_MS_MAX))
    try:
        response = await forwarder.forward(LIST_PARTITION_REASSIGNMENTS, asked)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.REQUEST_TIMED_OUT:
            raise
        return list_partition_reassignments(forwarder.image, request)
    # Who finds a move over describes the topic next, by this broker's image.
    await forwarder.until(lambda image: list_partition_reassignments(image, request).topics == response.topics)
    return response


async def listed_reassignments(
    decisions: Decisions, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return what the active controller knows, behind all that was decided before."""
    return await decisions.submit(
        lambda image: Decision(records=[], response=list_partition_reassignments(image, request))
    )


def reassignments_refused(
    request: AlterPartitionReassignmentsRequest, refusal: Refusal
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=refusal.error_code,
        error_message=refusal.message,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name, partitions=tuple(refused_reassignment(each, refusal) for each in topic.partitions)
            )
            for topic in request.topics
        ),
    )
