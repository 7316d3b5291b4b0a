"""The decisions on a leader's wish for another ISR, and on replicas that a broker cannot vouch for any more."""

from __future__ import annotations

from dataclasses import replace

from kraft.metadata.configs import KAFKA_DEFAULTS, TopicConfig
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
    """Takes over the ISR that the partition's leader proposes, if all it was formed under still holds.

    A refusal is part of the answer, beside the partition's true state, so that the leader can go on from there. An ISR
    that already is the committed one needs no record. INELIGIBLE_REPLICA begins a new partition epoch: an earlier copy
    of the request may still lie in a connection, to be decided when the replica has become eligible, and the leader
    waits for that replica no more once it is refused. The leader stays: one that is shutting down may still bring
    others into sync, and hands the partition on with its next heartbeat. An ISR that completes a reassignment is taken
    over without the replicas that go, and where some do in a new leader epoch: then the leader is told so by
    NEW_LEADER_ELECTED, even if it stays, and finds its place in the metadata. `defaults` are of topics that set nothing
    themselves.
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
    """Takes the broker out of the ISRs and ELRs of these partitions, and lets others of those lead where it led.

    Where it is the last of the ISR, and there is no ELR, it stays in it without leading: nobody else is known to hold
    what was acknowledged, and nothing of that may be forgotten. A broker asks again until it sees the change; what was
    acted on before, and what concerns a topic that is deleted, needs no record. Raises Refusal.
    """
    _check_epoch(image, request.broker_id, request.broker_epoch)
    # Named twice, the second mention would be decided on a state that the first has changed.
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
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the broker knows newer metadata than this controller")
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
    # The order of an ISR means nothing, so another order is no change.
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
    problem = f"the reassignment is completed: the replicas are {change.replicas}, in sync are {change.isr}"
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
        problem = f"broker {broker_id} is not registered under epoch {broker_epoch}"
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
        # The leader acts on metadata that was committed after ours, so another controller is active.
        raise Refusal(ErrorCode.NOT_CONTROLLER, "the broker knows newer metadata than this controller")
    if request.leader_epoch < partition.leader_epoch:
        problem = f"leader epoch {request.leader_epoch} is over, it is {partition.leader_epoch} now"
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH, problem)
    if request.broker_id != partition.leader:
        problem = f"broker {request.broker_id} does not lead the partition, broker {partition.leader} does"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if request.partition_epoch < partition.partition_epoch:
        problem = f"partition epoch {request.partition_epoch} is over, it is {partition.partition_epoch} now"
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
        raise Refusal(ErrorCode.INVALID_REQUEST, f"ISR {members} is without the leader, broker {partition.leader}")
    for member in request.new_isr:
        _check_eligible(image, partition, member)


def _check_eligible(image: MetadataImage, partition: PartitionImage, member: IsrMember) -> None:
    """A member was in sync in its present life, and may be elected.

    A leader that has not heard from an ISR member yet names it without an epoch. Had that member come back in another
    life, it would have left the ISR, and the partition epoch would tell.
    """
    registration = image.brokers[member.broker_id]
    is_known_member = member.broker_epoch == UNKNOWN_BROKER_EPOCH and member.broker_id in partition.isr
    if registration.broker_epoch != member.broker_epoch and not is_known_member:
        problem = (
            f"broker {member.broker_id} was found in sync under epoch {member.broker_epoch}, "
            f"but is registered under {registration.broker_epoch}"
        )
        raise Refusal(ErrorCode.INELIGIBLE_REPLICA, problem)
    if not registration.active and member.broker_id != partition.leader:
        state = "fenced" if registration.fenced else "shutting down"
        raise Refusal(ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} is {state}")
