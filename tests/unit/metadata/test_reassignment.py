from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.decision import Decision
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_decisions import alter_partition
from kraft.metadata.reassignment import (
    REASSIGNMENTS_PER_REQUEST_MAX,
    alter_partition_reassignments,
    list_partition_reassignments,
)
from kraft.metadata.records import FeatureLevelSet, PartitionChanged, TopicConfigSet
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.alter_partition import AlterPartitionRequest, AlterPartitionResult, IsrMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.support.cluster_images import ORDERS, cluster, epoch_of, fenced, partition, with_topic

BILLS = TopicId(UUID(int=101))


def decide(
    image: MetadataImage,
    *asked: ReassignableTopic,
    allow_replication_factor_change: bool = True,
    defaults: dict[str, str] | None = None,
) -> Decision[AlterPartitionReassignmentsResponse]:
    request = AlterPartitionReassignmentsRequest(
        topics=asked, allow_replication_factor_change=allow_replication_factor_change
    )
    decision = alter_partition_reassignments(image, request, defaults=broker_defaults(defaults or {}))
    assert [each.name for each in decision.response.responses] == [each.name for each in asked]
    assert decision.response.allow_replication_factor_change is allow_replication_factor_change
    return decision


def to(*replicas: int, number: int = 0, topic: str = "orders") -> ReassignableTopic:
    asked = ReassignablePartition(partition_index=number, replicas=replicas)
    return ReassignableTopic(name=topic, partitions=(asked,))


def cancel() -> ReassignableTopic:
    asked = ReassignablePartition(partition_index=0, replicas=None)
    return ReassignableTopic(name="orders", partitions=(asked,))


def results(decision: Decision[AlterPartitionReassignmentsResponse]) -> list[ReassignablePartitionResponse]:
    return [each for topic in decision.response.responses for each in topic.partitions]


def after(image: MetadataImage, *asked: ReassignableTopic) -> MetadataImage:
    decision = decide(image, *asked)
    assert [result.error_code for result in results(decision)] == [ErrorCode.NONE] * len(asked)
    return image.replay(decision.records)


def refusal(decision: Decision[AlterPartitionReassignmentsResponse]) -> tuple[int, str | None]:
    (result,) = results(decision)
    assert decision.records == []
    return result.error_code, result.error_message


def propose(image: MetadataImage, *isr: int) -> Decision[AlterPartitionResult]:
    """The leader's wish for another ISR."""
    state = partition(image)
    members = [IsrMember(broker_id=BrokerId(member), broker_epoch=epoch_of(image, member)) for member in isr]
    return alter_partition(
        image,
        AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=epoch_of(image, state.leader),
            topic_id=ORDERS,
            partition=0,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=members,
        ),
    )


def in_sync(image: MetadataImage, *isr: int) -> MetadataImage:
    return image.replay(propose(image, *isr).records)


def layout(image: MetadataImage) -> tuple[list[int], list[int], list[int], list[int]]:
    """Replicas, those added, those removed, ISR."""
    state = partition(image)
    return list(state.replicas), list(state.adding_replicas), list(state.removing_replicas), list(state.isr)


# --- add, catch up, join, remove -----------------------------------------------------------------------------


def test_new_replicas_stand_beside_the_old_ones_until_all_are_in_sync() -> None:
    image = after(with_topic(cluster(1, 2, 3, 4), [1, 2]), to(3, 4))
    assert layout(image) == ([3, 4, 1, 2], [3, 4], [1, 2], [1, 2])
    assert (partition(image).leader, partition(image).leader_epoch, partition(image).partition_epoch) == (1, 0, 1)

    image = in_sync(image, 1, 2, 3)
    assert layout(image) == ([3, 4, 1, 2], [3, 4], [1, 2], [1, 2, 3])

    decision = propose(image, 1, 2, 3, 4)
    image = image.replay(decision.records)
    assert layout(image) == ([3, 4], [], [], [3, 4])
    assert (partition(image).leader, partition(image).leader_epoch, partition(image).partition_epoch) == (3, 1, 3)
    result = decision.response
    assert (result.error_code, result.leader_id, result.leader_epoch) == (ErrorCode.NEW_LEADER_ELECTED, 3, 1)


def test_a_raised_replication_factor_interrupts_nobody() -> None:
    image = after(with_topic(cluster(1, 2, 3), [1]), to(1, 2, 3))
    assert layout(image) == ([1, 2, 3], [2, 3], [], [1])
    image = in_sync(image, 1, 2)
    decision = propose(image, 1, 2, 3)
    assert (decision.response.error_code, decision.response.isr) == (ErrorCode.NONE, [1, 2, 3])
    image = image.replay(decision.records)
    assert layout(image) == ([1, 2, 3], [], [], [1, 2, 3])
    assert (partition(image).leader, partition(image).leader_epoch) == (1, 0)


def test_what_is_so_already_or_under_way_already_changes_nothing() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2])
    assert decide(image, to(1, 2)).records == []
    moving = after(image, to(1, 3))
    assert decide(moving, to(1, 3)).records == []


# --- another target, and cancelled ---------------------------------------------------------------------------


def only_added_in_sync() -> MetadataImage:
    image = in_sync(after(with_topic(cluster(1, 2, 3, 4), [1, 2]), to(3, 4)), 1, 3)
    return fenced(image, 1)


def test_added_replicas_that_alone_are_in_sync_are_not_taken_away() -> None:
    image = only_added_in_sync()
    for asked in (cancel(), to(2, 4)):
        code, text = refusal(decide(image, asked))
        assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "only brokers [3] are in sync" in str(text)


def test_they_are_where_the_topic_allows_to_lose_records() -> None:
    own = TopicConfigSet(topic_id=ORDERS, key="unclean.leader.election.enable", value="true")
    image = after(only_added_in_sync().replay([own]), cancel())
    assert (partition(image).replicas, partition(image).isr, partition(image).leader) == ((1, 2), (2,), 2)


# --- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (to(), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the target has no replicas"),
        (to(1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replicas [1, 1] name a broker twice"),
        (to(1, 9, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "brokers [-1, 9] are not registered"),
        (to(1, number=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'orders' has no partition 5"),
        (cancel(), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "partition 0 of topic 'orders' is not being reassigned"),
        (to(1, topic="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic 'x'"),
    ],
)
def test_a_move_that_cannot_be_is_refused(asked: ReassignableTopic, code: ErrorCode, message: str) -> None:
    found, text = refusal(decide(with_topic(cluster(1, 2), [1, 2]), asked))
    assert found == code
    assert message in str(text)


def test_a_move_to_a_machine_that_has_another_replica_is_refused() -> None:
    racks = {1: "machine:1", 1001: "machine:1", 2: "machine:2"}
    image = with_topic(cluster(*racks, racks=racks), [1, 2])
    assert refusal(decide(image, to(1, 1001))) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (
            "brokers 1 and 1001 are on one machine, machine:1, which would have two replicas: name brokers of "
            "different machines"
        ),
    )
    # From one process of the machine to another.
    assert layout(after(image, to(1001, 2))) == ([1001, 2, 1], [1001], [1], [1, 2])


def test_a_change_of_the_replication_factor_can_be_forbidden() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2])
    decision = decide(image, to(1, 2, 3), allow_replication_factor_change=False)
    assert refusal(decision) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "the replication factor would change from 2 to 3: name 2 brokers, or allow the change",
    )
    assert decide(image, to(2, 3), allow_replication_factor_change=False).records != []


def test_fewer_replicas_than_acks_all_needs_are_refused() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    code, text = refusal(decide(image, to(1), defaults={"min.insync.replicas": "2"}))
    assert (code, "set min.insync.replicas=1 on the topic first" in str(text)) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        True,
    )
    own = TopicConfigSet(topic_id=ORDERS, key="min.insync.replicas", value="1")
    assert decide(image.replay([own]), to(1), defaults={"min.insync.replicas": "2"}).records != []


def test_each_partition_is_decided_on_its_own_and_named_once() -> None:
    image = with_topic(cluster(1, 2), [1], [1])
    decision = decide(image, to(2), to(2, number=1), to(1, number=1))
    codes = [result.error_code for result in results(decision)]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


def test_more_than_fits_into_an_entry_is_refused_as_a_whole() -> None:
    with pytest.raises(Refusal, match="reassign fewer at a time"):
        decide(cluster(1), *[to(1, number=number) for number in range(REASSIGNMENTS_PER_REQUEST_MAX + 1)])


# --- told ----------------------------------------------------------------------------------------------------


def test_what_is_under_way_is_listed() -> None:
    image = with_topic(cluster(1, 2, 3), [1], [2])
    image = with_topic(image, [1], topic="bills", topic_id=BILLS)
    image = after(image, to(2, number=0), to(1, 3, topic="bills"))
    bills = OngoingPartitionReassignment(partition_index=0, replicas=(1, 3), adding_replicas=(3,), removing_replicas=())
    orders = OngoingPartitionReassignment(
        partition_index=0, replicas=(2, 1), adding_replicas=(2,), removing_replicas=(1,)
    )
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert list_partition_reassignments(image, everything).topics == (
        OngoingTopicReassignment(name="bills", partitions=(bills,)),
        OngoingTopicReassignment(name="orders", partitions=(orders,)),
    )
    named = (ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0, 1)),)
    some = ListPartitionReassignmentsRequest(topics=named)
    assert list_partition_reassignments(image, some).topics == (
        OngoingTopicReassignment(name="orders", partitions=(orders,)),
    )
    assert list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=())).topics == ()


# --- any course of events ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_nothing_acknowledged_is_ever_left_behind(data: st.DataObject) -> None:
    """Whatever is asked in whatever order: an ISR only ever takes in what its leader brought into sync."""
    brokers = list(range(1, 6))
    start = data.draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True))
    image = with_topic(cluster(*brokers), start)
    for _ in range(data.draw(st.integers(1, 12))):
        state = partition(image)
        step = data.draw(st.sampled_from(["move", "cancel", "sync", "fence"]))
        if step == "move":
            target = data.draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=4, unique=True))
            records = decide(image, to(*target)).records
        elif step == "cancel":
            records = decide(image, cancel()).records
        elif step == "fence":
            records = fence_broker(
                image, BrokerId(broker := data.draw(st.sampled_from(brokers))), epoch_of(image, broker)
            ).records
        elif state.has_leader:
            alive = [each for each in state.replicas if image.is_active(each) and each != state.leader]
            joined = data.draw(st.lists(st.sampled_from(alive), unique=True)) if alive else []
            records = propose(image, state.leader, *joined).records
        else:
            records = []
        image = image.replay(records)
        now = partition(image)
        if step != "sync":
            assert set(now.isr) <= set(state.isr)
        if set(state.replicas) - set(now.replicas):
            assert now.leader_epoch > state.leader_epoch
        if state.has_leader and not now.has_leader:
            assert step == "fence"
        assert MetadataImage().replay(snapshot_records(image)) == image


# --- levels and eligible replicas ------------------------------------------------------------------------------


def test_a_cluster_with_nodes_that_would_overlook_it_reassigns_nothing() -> None:
    image = with_topic(cluster(1, 2), [1])
    older = image.replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    for asked in (to(2), cancel()):
        with pytest.raises(Refusal, match=r"needs metadata\.version 2, but the cluster is at 1") as no:
            decide(older, asked)
        assert no.value.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_an_eligible_replica_takes_over_from_an_added_one_that_alone_is_in_sync() -> None:
    image = after(with_topic(cluster(1, 2, 3), [1, 2]), to(1, 3))
    two = broker_defaults({"min.insync.replicas": "2"})
    image = image.replay(
        [
            PartitionChanged(
                topic_id=ORDERS,
                partition=0,
                isr=[BrokerId(3)],
                leader=BrokerId(3),
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(2),
                elr=[BrokerId(1), BrokerId(2)],
            )
        ]
    )
    request = AlterPartitionReassignmentsRequest(topics=(cancel(),))
    image = image.replay(alter_partition_reassignments(image, request, defaults=two).records)
    now = partition(image)
    assert (now.replicas, now.isr, now.leader, now.elr) == ((1, 2), (1,), 1, (2,))
