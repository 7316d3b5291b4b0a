from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.metadata.broker_decisions import begin_controlled_shutdown, fence_broker, register_broker
from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_decisions import alter_partition, fail_replicas
from kraft.metadata.records import PartitionChanged
from kraft.model.alter_partition import AlterPartitionRequest, IsrMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fail_replicas import FailedReplica, FailReplicasRequest
from kraft.model.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from tests.support.cluster_images import ORDERS, cluster, epoch_of, ids, partition, registration, with_topic


def wish(image: MetadataImage, *isr: int) -> AlterPartitionRequest:
    """Return a proposal of partition 0's leader, with every epoch as in the image."""
    now = partition(image)
    return AlterPartitionRequest(
        broker_id=now.leader,
        broker_epoch=epoch_of(image, now.leader),
        topic_id=ORDERS,
        partition=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr=[IsrMember(broker_id=BrokerId(member), broker_epoch=epoch_of(image, member)) for member in isr],
    )


def lone_leader() -> MetadataImage:
    """Broker 1 leads, alone in sync, in leader epoch 1 and partition epoch 1; 2 and 3 follow."""
    image = with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[2, 1])
    return image.replay(
        [
            PartitionChanged(
                topic_id=ORDERS,
                partition=0,
                isr=ids(1),
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(1),
            )
        ]
    )


def test_a_follower_that_caught_up_joins_the_isr() -> None:
    image = lone_leader()
    decision = alter_partition(image, wish(image, 1, 3))
    after = partition(image.replay(decision.records))
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 3), 1, 1, 2)
    answer = decision.response
    assert answer.error_code == ErrorCode.NONE
    assert (answer.leader_id, answer.leader_epoch, answer.partition_epoch, answer.isr) == (1, 1, 2, [1, 3])


def test_a_follower_that_lags_leaves_the_isr() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    image = image.replay(alter_partition(image, wish(image, 1, 3)).records)
    assert (partition(image).isr, partition(image).leader_epoch, partition(image).partition_epoch) == ((1, 3), 0, 1)


def test_a_leader_that_shuts_down_may_still_bring_others_into_sync() -> None:
    image = lone_leader()
    image = image.replay(begin_controlled_shutdown(image, BrokerId(1), epoch_of(image, 1)).records)
    decision = alter_partition(image, wish(image, 1, 2))
    assert (decision.response.error_code, decision.response.leader_id) == (ErrorCode.NONE, 1)
    image = image.replay(decision.records)
    image = image.replay(begin_controlled_shutdown(image, BrokerId(1), epoch_of(image, 1)).records)
    assert (partition(image).leader, partition(image).isr) == (2, (2,))


GOOD = wish(lone_leader(), 1, 2)
MEMBER_1 = IsrMember(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
MEMBER_2 = IsrMember(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(2))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(GOOD, broker_epoch=BrokerEpoch(9)), ErrorCode.STALE_BROKER_EPOCH),
        (replace(GOOD, broker_id=BrokerId(9)), ErrorCode.STALE_BROKER_EPOCH),
        (replace(GOOD, topic_id=TopicId(UUID(int=5))), ErrorCode.UNKNOWN_TOPIC_ID),
        (replace(GOOD, partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_client_of_an_old_version_gets_only_the_error(request_: AlterPartitionRequest, code: ErrorCode) -> None:
    decision = alter_partition(lone_leader(), request_)
    assert decision.records == []
    assert (decision.response.error_code, decision.response.leader_id, decision.response.isr) == (code, -1, [])
    assert decision.response.error_message


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(GOOD, leader_epoch=LeaderEpoch(0)), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(GOOD, leader_epoch=LeaderEpoch(2)), ErrorCode.NOT_CONTROLLER),
        (replace(GOOD, partition_epoch=PartitionEpoch(2)), ErrorCode.NOT_CONTROLLER),
        (replace(GOOD, partition_epoch=PartitionEpoch(0)), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(GOOD, broker_id=BrokerId(2), broker_epoch=BrokerEpoch(2)), ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr=[]), ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr=[MEMBER_2]), ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr=[MEMBER_1, MEMBER_2, MEMBER_2]), ErrorCode.INVALID_REQUEST),
        (replace(GOOD, new_isr=[MEMBER_1, replace(MEMBER_2, broker_id=BrokerId(4))]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_refused_wish_is_answered_with_the_true_state(request_: AlterPartitionRequest, code: ErrorCode) -> None:
    decision = alter_partition(lone_leader(), request_)
    assert decision.records == []
    answer = decision.response
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (code, 1, 1)
    assert (answer.partition_epoch, answer.isr) == (1, [1])
    assert answer.error_message


def refused_for_good(image: MetadataImage, request: AlterPartitionRequest) -> str:
    """The same ISR in a new partition epoch, in which no copy of the request can change anything; what was said."""
    before, decision = partition(image), alter_partition(image, request)
    answer = decision.response
    assert (answer.error_code, answer.leader_id) == (ErrorCode.INELIGIBLE_REPLICA, before.leader)
    image = image.replay(decision.records)
    assert partition(image) == replace(before, partition_epoch=PartitionEpoch(before.partition_epoch + 1))
    state = partition(image)
    assert (answer.leader_epoch, answer.partition_epoch) == (state.leader_epoch, state.partition_epoch)
    assert (answer.isr, answer.elr) == (list(state.isr), list(state.elr))
    copy = alter_partition(image, request)
    assert (copy.records, copy.response.error_code) == ([], ErrorCode.INVALID_UPDATE_VERSION)
    return answer.error_message


@pytest.mark.parametrize(
    "new_isr",
    [
        [MEMBER_1, replace(MEMBER_2, broker_epoch=BrokerEpoch(-1))],
        [replace(MEMBER_1, broker_epoch=BrokerEpoch(0)), MEMBER_2],
    ],
)
def test_a_replica_that_was_in_sync_in_another_life_does_not_join(new_isr: list[IsrMember]) -> None:
    assert "was in sync under broker epoch" in refused_for_good(lone_leader(), replace(GOOD, new_isr=new_isr))


def test_a_broker_that_shuts_down_does_not_join() -> None:
    image = lone_leader()
    image = image.replay(begin_controlled_shutdown(image, BrokerId(2), epoch_of(image, 2)).records)
    assert refused_for_good(image, wish(image, 1, 2)) == "broker 2 is shutting down"


# --- replicas that have failed ------------------------------------------------------------------------------------


def report(image: MetadataImage, broker_id: int, *used_in: int, topic_id: TopicId = ORDERS) -> FailReplicasRequest:
    """Partitions 0, 1 ... of that broker have failed, which were used last in these leader epochs."""
    return FailReplicasRequest(
        broker_id=BrokerId(broker_id),
        broker_epoch=epoch_of(image, broker_id),
        replicas=[
            FailedReplica(topic_id=topic_id, partition=number, leader_epoch=LeaderEpoch(epoch))
            for number, epoch in enumerate(used_in)
        ],
    )


def test_a_follower_whose_replica_failed_leaves_the_isr_and_the_leader_goes_on_in_a_new_epoch() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    after = partition(image.replay(fail_replicas(image, report(image, 3, 0)).records))
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 2), 1, 1, 1)


def test_what_a_follower_outside_the_isr_sent_before_it_failed_does_not_count_any_more_either() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1, 2])
    after = partition(image.replay(fail_replicas(image, report(image, 3, 0)).records))
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 2), 1, 1, 1)


def test_members_of_the_isr_that_are_dead_do_not_lead() -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[2])
    image = image.replay(fence_broker(image, BrokerId(2), epoch_of(image, 2)).records)
    assert not fail_replicas(image, report(image, 1, -1)).records
    assert partition(image).leader == NO_BROKER


def test_a_report_about_a_topic_that_is_deleted_is_no_error() -> None:
    image = with_topic(cluster(1, 2, 3), [2, 3])
    assert not fail_replicas(image, report(image, 1, 0)).records, "not its replica"
    assert not fail_replicas(image, report(image, 1, 0, topic_id=TopicId(UUID(int=1)))).records


def test_a_report_from_an_earlier_life_of_the_broker_is_refused() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    request = report(image, 1, 0)
    image = image.replay(register_broker(image, registration(1, process=2), session_is_alive=False).records)
    with pytest.raises(Refusal, match="is not registered under broker epoch 1") as refused:
        fail_replicas(image, request)
    assert refused.value.error_code is ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_that_knows_less_than_the_broker_does_not_judge_its_failure() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    with pytest.raises(Refusal) as refused:
        fail_replicas(image, report(image, 1, 5))
    assert refused.value.error_code is ErrorCode.NOT_CONTROLLER
