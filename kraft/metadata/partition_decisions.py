"""Decisions on an ISR that a leader proposes, and on replicas that have failed."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.log.topic_config import KAFKA_DEFAULTS, TopicConfig
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.leader_election import changes_when_failed, next_partition_epoch, partition_change
from kraft.metadata.reassignment import completed
from kraft.metadata.records import PartitionChanged
from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult, IsrMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest, FailReplicasResult
from kraft.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[AlterPartitionResult]:
    """Accept the ISR that the partition's leader proposes, if the epochs of the proposal are still current.

    A refusal is part of the response, with the partition's true state, so that the leader can continue from there. An
    ISR that is already committed needs no record.

    INELIGIBLE_REPLICA begins a new partition epoch: an earlier copy of the request may still be in a connection and
    arrive after the replica has become eligible, but once refused, the leader no longer waits for that replica. The
    leader stays: while it is shutting down it may still bring others into sync; its next heartbeat moves the
    leadership. An ISR that completes a reassignment is accepted without the removed replicas; if there are any, the
    leader epoch grows, and the response is NEW_LEADER_ELECTED, even if the leader stays.

    `defaults` apply to topics that do not set a config themselves.
    """
    try:
        _check_epoch(image, request.broker_id, request.broker_epoch)
        topic, partition = _find_partition(image, request)
    except Refusal as refusal:
        return Decision(records=[], response=_refused(refusal))
    try:
        _check_fencing(partition, request)
        _check_members(image, partition, request)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.INELIGIBLE_REPLICA:
            return Decision(records=[], response=_refused(refusal, partition))
        passed = next_partition_epoch(topic, partition)
        result = replace(_refused(refusal, partition), partition_epoch=passed.partition_epoch)
        return Decision(records=[passed], response=result)
    return _decide(image, topic, partition, request, defaults)


def fail_replicas(
    image: MetadataImage, request: FailReplicasRequest, *, defaults: TopicConfig = KAFKA_DEFAULTS
) -> Decision[FailReplicasResult]:
    """Remove the broker from the ISRs and ELRs of these partitions, and elect other leaders where it led.

    If it is the last member of an ISR and there is no ELR, it stays without leading: no other replica is known to hold
    every acknowledged record. A broker repeats the request until it sees the change; a repetition, or a replica of a
    deleted topic, gives no record. Raises Refusal.
    """
    _check_epoch(image, request.broker_id, request.broker_epoch)
    # A replica that is named twice is decided once: the second decision would not see the first.
    replicas = {(failed.topic_id, failed.partition): failed for failed in request.replicas}
    records = [record for failed in replicas.values() for record in _failed(image, request.broker_id, failed, defaults)]
    return Decision(records=records, response=FailReplicasResult())


def _failed(
    image: MetadataImage, broker_id: BrokerId, failed: FailedReplica, defaults: TopicConfig
) -> list[PartitionChanged]:
    topic = image.topic_by_id(failed.topic_id)
    partition = None if topic is None else topic.partitions.get(failed.partition)
    if topic is None or partition is None or broker_id not in partition.replicas:
        return []
    if failed.leader_epoch > partition.leader_epoch:
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the broker has newer metadata than this controller")
    return changes_when_failed(image, topic, partition, broker_id, failed.leader_epoch, defaults)


def _decide(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    request: AlterPartitionRequest,
    defaults: TopicConfig,
) -> Decision[AlterPartitionResult]:
    proposed = tuple(member.broker_id for member in request.new_isr)
    if completion := completed(image, topic, partition, proposed, defaults):
        return Decision(records=completion, response=_completed(partition, completion[0]))
    # The order of an ISR has no meaning, so another order is no change.
    isr = partition.isr if set(proposed) == set(partition.isr) else proposed
    changes = partition_change(
        image, topic, partition, isr, lambda candidate: candidate == partition.leader, defaults=defaults
    )
    result = AlterPartitionResult(
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=changes[0].partition_epoch if changes else partition.partition_epoch,
        isr=list(isr),
        elr=changes[0].elr if changes else list(partition.elr),
    )
    return Decision(records=changes, response=result)


def _completed(before: PartitionImage, change: PartitionChanged) -> AlterPartitionResult:
    goes_on = change.leader_epoch == before.leader_epoch
    problem = f"the reassignment is completed: the replicas are {change.replicas}, the ISR is {change.isr}"
    return AlterPartitionResult(
        error_code=ErrorCode.NONE if goes_on else ErrorCode.NEW_LEADER_ELECTED,
        error_message="" if goes_on else problem,
        leader_id=change.leader,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        isr=change.isr,
        elr=change.elr,
    )


def _refused(refusal: Refusal, partition: PartitionImage | None = None) -> AlterPartitionResult:
    if partition is None:
        return AlterPartitionResult(error_code=refusal.error_code, error_message=refusal.message)
    return AlterPartitionResult(
        error_code=refusal.error_code,
        error_message=refusal.message,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=list(partition.isr),
        elr=list(partition.elr),
    )


def _check_epoch(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
    registration = image.broker(broker_id)
    if registration is None or registration.broker_epoch != broker_epoch:
        problem = f"broker {broker_id} is not registered under broker epoch {broker_epoch}"
        raise Refusal(ErrorCode.STALE_BROKER_EPOCH, problem)


def _find_partition(image: MetadataImage, request: AlterPartitionRequest) -> tuple[TopicImage, PartitionImage]:
    topic = image.topic_by_id(request.topic_id)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {request.topic_id}")
    partition = topic.partitions.get(request.partition)
    if partition is None:
        problem = f"topic '{topic.topic}' has no partition {request.partition}"
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem)
    return topic, partition


def _check_fencing(partition: PartitionImage, request: AlterPartitionRequest) -> None:
    if request.leader_epoch > partition.leader_epoch or request.partition_epoch > partition.partition_epoch:
        # The leader has metadata that was committed after ours, so another controller is active.
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the broker has newer metadata than this controller")
    if request.leader_epoch < partition.leader_epoch:
        problem = f"leader epoch {request.leader_epoch} is stale: the current one is {partition.leader_epoch}"
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, problem)
    if request.broker_id != partition.leader:
        problem = f"broker {request.broker_id} is not the leader of the partition: broker {partition.leader} is"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if request.partition_epoch < partition.partition_epoch:
        problem = f"partition epoch {request.partition_epoch} is stale: the current one is {partition.partition_epoch}"
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, problem)


def _check_members(image: MetadataImage, partition: PartitionImage, request: AlterPartitionRequest) -> None:
    members = [member.broker_id for member in request.new_isr]
    if len(set(members)) < len(members):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"ISR {members} names a broker twice")
    strangers = [broker_id for broker_id in members if broker_id not in partition.replicas]
    if strangers:
        problem = f"ISR {members} has members outside the replicas {list(partition.replicas)}: {strangers}"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if partition.leader not in members:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"ISR {members} lacks the leader, broker {partition.leader}")
    for member in request.new_isr:
        _check_eligible(image, partition, member)


def _check_eligible(image: MetadataImage, partition: PartitionImage, member: IsrMember) -> None:
    """Check that the member was in sync under its current registration, and may be elected. Raises Refusal.

    A leader that has had no fetch from a member of the ISR yet names it without an epoch. Had that member registered
    again, it would have left the ISR, and the request's partition epoch would be stale.
    """
    registration = image.brokers[member.broker_id]
    is_known_member = member.broker_epoch == UNKNOWN_BROKER_EPOCH and member.broker_id in partition.isr
    if registration.broker_epoch != member.broker_epoch and not is_known_member:
        problem = (
            f"broker {member.broker_id} was in sync under broker epoch {member.broker_epoch}, "
            f"but is registered under {registration.broker_epoch} now"
        )
        raise Refusal(ErrorCode.INELIGIBLE_REPLICA, problem)
    if not registration.active and member.broker_id != partition.leader:
        state = "fenced" if registration.fenced else "shutting down"
        raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} is {state}")
