"""What operators decide about brokers: fenced until further notice, back in service, gone for good."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kraft.metadata.configs import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.decision import Decision, RecordsOnDemand, decided_in_slices
from kraft.metadata.features import require_settings
from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.metadata.leader_election import changes_when_gone
from kraft.metadata.records import (
    BrokerFenced,
    BrokerUnregistered,
    MetadataRecord,
    OperatorFenceSet,
)
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest, UnregisterBrokerRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId

NAMED_MAX = 10
"""More partitions than these are counted in an answer, not named."""


def fence_by_operator(
    image: MetadataImage, request: FenceBrokerRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[BrokerActionResult]:
    """Takes a broker out of service until an operator puts it back, over restarts of it and of everything else.

    It leads nothing and is in no in-sync set where others are; it goes on following, so that it is soon back. Raises
    Refusal, also when partitions would lose every leader that is in sync and nobody insists. `defaults` are those of
    topics, for whether others may lead then.
    """
    require_settings(image, "fencing a broker")
    registration = _registered(image, request.broker_id)
    if registration.fenced_by_operator:
        return _nothing_to_do()
    leaderless = [] if registration.fenced else _leaderless(image, registration.broker_id)
    if leaderless and not request.force:
        problem = (
            f"fencing broker {registration.broker_id} would leave {_counted(leaderless)} without a leader in sync "
            f"({_named(leaderless)}): no other replica of them is in sync and in service; wait for one, or force it"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    records: Sequence[MetadataRecord] = [OperatorFenceSet(broker_id=registration.broker_id, fenced=True)]
    if not registration.fenced:
        fenced = BrokerFenced(broker_id=registration.broker_id, broker_epoch=registration.broker_epoch)
        changes = decided_in_slices(image, lambda part: changes_when_gone(part, registration.broker_id, defaults))
        records = RecordsOnDemand(chain(records, [fenced], changes))
    return Decision(records=records, response=BrokerActionResult(changed=True, leaderless=leaderless))


def unfence_by_operator(image: MetadataImage, request: UnfenceBrokerRequest) -> Decision[BrokerActionResult]:
    """Lets a broker back into service, which its next heartbeat puts it into when it has caught up."""
    require_settings(image, "unfencing a broker")
    registration = _registered(image, request.broker_id)
    if not registration.fenced_by_operator:
        return _nothing_to_do()
    record = OperatorFenceSet(broker_id=registration.broker_id, fenced=False)
    return Decision(records=[record], response=BrokerActionResult(changed=True, leaderless=[]))


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, *, session_is_alive: bool
) -> Decision[BrokerActionResult]:
    """Forgets a broker that is gone and holds nothing. Raises Refusal for one that is there or that holds replicas.

    Should its process come back nevertheless, it registers as a new broker.
    """
    require_settings(image, "unregistering a broker")
    registration = _registered(image, request.broker_id)
    broker_id = registration.broker_id
    if session_is_alive or not registration.fenced:
        problem = f"broker {broker_id} is running, or was a moment ago: stop it first"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    held = [f"{topic.topic}-{partition.partition}" for topic, partition in image.partitions_of(broker_id)]
    if held:
        problem = (
            f"broker {broker_id} has replicas of {_counted(held)} ({_named(held)}): move them to other brokers first"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    record = BrokerUnregistered(broker_id=broker_id, broker_epoch=registration.broker_epoch)
    return Decision(records=[record], response=BrokerActionResult(changed=True, leaderless=[]))


def _registered(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    registration = image.broker(broker_id)
    if registration is None:
        there = ", ".join(str(known) for known in sorted(image.brokers)) or "none"
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}: registered are {there}")
    return registration


def _leaderless(image: MetadataImage, broker_id: BrokerId) -> list[str]:
    """Names of the partitions that the broker leads and that nobody else who holds all that is committed can lead."""
    return [
        f"{topic.topic}-{partition.partition}"
        for topic, partition in image.partitions_of(broker_id)
        if partition.leader == broker_id
        and not any(member != broker_id and image.is_alive(member) for member in (*partition.isr, *partition.elr))
    ]


def _counted(partitions: Sequence[str]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _named(partitions: Sequence[str]) -> str:
    named = ", ".join(partitions[:NAMED_MAX])
    left = len(partitions) - NAMED_MAX
    return named if left <= 0 else f"{named} and {left} more"


def _nothing_to_do() -> Decision[BrokerActionResult]:
    return Decision(records=[], response=BrokerActionResult(changed=False, leaderless=[]))
