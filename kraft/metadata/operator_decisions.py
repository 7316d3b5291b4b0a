"""Decisions for operators about brokers: operator fences, and unregistration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.decision import Decision, RecordsOnDemand, decided_in_slices
from kraft.metadata.features import require_settings
from kraft.metadata.image import MetadataImage
from kraft.metadata.leader_election import changes_when_gone
from kraft.metadata.records import (
    BrokerFenced,
    BrokerUnregistered,
    MetadataRecord,
    OperatorFenceSet,
)
from kraft.model.brokers import BrokerActionResult, FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

NAMED_MAX = 10
"""An error names at most this many partitions and counts the rest."""


def fence_by_operator(
    image: MetadataImage, request: FenceBrokerRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[BrokerActionResult]:
    """Set an operator fence, which survives restarts and keeps a broker out of service until it is removed.

    The broker leads nothing and leaves every ISR that has other members; it keeps on following its leaders. Raises
    Refusal, also if partitions would be left without a leader in sync and the request does not force it. `defaults`
    apply to topics that do not set a config themselves.
    """
    require_settings(image, "fencing a broker")
    registration = _registered(image, request.broker_id)
    if registration.fenced_by_operator:
        return _nothing_to_do()
    leaderless = [] if registration.fenced else _leaderless(image, registration.broker_id)
    if leaderless and not request.force:
        problem = (
            f"fencing broker {registration.broker_id} would leave {_counted(leaderless)} without a leader in sync "
            f"({_named(leaderless)}): wait until another replica is in sync, or force it"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    records: Sequence[MetadataRecord] = [OperatorFenceSet(broker_id=registration.broker_id, fenced=True)]
    if not registration.fenced:
        fenced = BrokerFenced(broker_id=registration.broker_id, broker_epoch=registration.broker_epoch)
        changes = decided_in_slices(image, lambda part: changes_when_gone(part, registration.broker_id, defaults))
        records = RecordsOnDemand(chain(records, [fenced], changes))
    return Decision(records=records, response=BrokerActionResult(changed=True, leaderless=leaderless))


def unfence_by_operator(image: MetadataImage, request: UnfenceBrokerRequest) -> Decision[BrokerActionResult]:
    """Remove an operator fence; the broker's next heartbeat unfences it if it has caught up."""
    require_settings(image, "unfencing a broker")
    registration = _registered(image, request.broker_id)
    if not registration.fenced_by_operator:
        return _nothing_to_do()
    record = OperatorFenceSet(broker_id=registration.broker_id, fenced=False)
    return Decision(records=[record], response=BrokerActionResult(changed=True, leaderless=[]))


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, *, session_is_alive: bool
) -> Decision[UnregisterBrokerResponse]:
    """Unregister a broker. Raises Refusal if it is running or holds replicas.

    If its process comes back, it registers as a new broker.
    """
    require_settings(image, "unregistering a broker")
    registration = _registered(image, request.broker_id)
    broker_id = registration.broker_id
    if session_is_alive or not registration.fenced:
        problem = (
            f"broker {broker_id} is running, or was killed and its session has not expired yet: stop it, or retry"
            " after broker.session.timeout.ms (9 s by default)"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    held = [f"{topic.topic}-{partition.partition}" for topic, partition in image.partitions_of(broker_id)]
    if held:
        problem = (
            f"broker {broker_id} holds replicas of {_counted(held)} ({_named(held)}): move them to other brokers first,"
            f" with 'kraft brokers decommission {broker_id}', which a broker that is gone for good does not stop"
        )
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    record = BrokerUnregistered(broker_id=broker_id, broker_epoch=registration.broker_epoch)
    response = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    return Decision(records=[record], response=response)


def _registered(image: MetadataImage, broker_id: int) -> BrokerRegistration:
    registration = image.broker(broker_id)
    if registration is None:
        known = ", ".join(str(each) for each in sorted(image.brokers)) or "none"
        problem = f"broker {broker_id} is not registered: the registered brokers are {known}"
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, problem)
    return registration


def _leaderless(image: MetadataImage, broker_id: BrokerId) -> list[str]:
    """Return the partitions that the broker leads and for which no other live broker is in the ISR or ELR."""
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
