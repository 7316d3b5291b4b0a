from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.metadata.broker_decisions import (
    allocate_producer_ids,
    begin_controlled_shutdown,
    fence_broker,
    heartbeat,
    initialise_cluster,
    register_broker,
    unfence_broker,
)
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage
from kraft.metadata.records import (
    BrokerFenced,
    BrokerUnfenced,
    ClusterInitialised,
    FeatureLevelSet,
    ProducerIdsAllocated,
)
from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.heartbeat import BrokerHeartbeatRequest
from kraft.model.ids import NO_BROKER, BrokerEpoch, BrokerId, DirectoryId, ProducerId
from kraft.model.register_broker import RegisterBrokerRequest
from tests.support.cluster_images import CLUSTER, cluster, epoch_of, fenced, partition, registration, with_topic


def shut_down(image: MetadataImage, broker_id: int) -> tuple[MetadataImage, bool]:
    decision = begin_controlled_shutdown(image, BrokerId(broker_id), epoch_of(image, broker_id))
    return image.replay(decision.records), decision.response


def beat(
    image: MetadataImage, broker_id: int, *, index: int = 10, wants_shutdown: bool = False
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=BrokerId(broker_id),
        broker_epoch=epoch_of(image, broker_id),
        metadata_index=index,
        wants_shutdown=wants_shutdown,
    )


# --- the cluster ---


def test_a_new_cluster_gets_its_id_once() -> None:
    decision = initialise_cluster(EMPTY_IMAGE, CLUSTER)
    assert decision.records == [
        ClusterInitialised(cluster_id=CLUSTER),
        FeatureLevelSet(feature="group.version", level=1),
        FeatureLevelSet(feature="metadata.version", level=5),
        FeatureLevelSet(feature="transaction.version", level=2),
        FeatureLevelSet(feature="eligible.leader.replicas.version", level=1),
    ]
    assert initialise_cluster(EMPTY_IMAGE.replay(decision.records), CLUSTER).records == []


def test_a_cluster_never_changes_its_id() -> None:
    with pytest.raises(Refusal, match=r"check cluster\.id") as refused:
        initialise_cluster(cluster(), "another")
    assert refused.value.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


# --- registration ---


def on_other_disks(request: RegisterBrokerRequest) -> RegisterBrokerRequest:
    return replace(request, directory_ids=[DirectoryId(UUID(int=9_999))])


def test_a_restarted_process_need_not_wait_for_the_session_of_the_one_before() -> None:
    decision = register_broker(cluster(1), registration(1, process=2), session_is_alive=True)
    assert decision.response.broker_epoch == 2


def test_a_broker_that_comes_back_at_another_address_is_the_same_broker() -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    moved = replace(registration(1, process=2), endpoints=[Endpoint(listener="GRPC", host="elsewhere", port=19_094)])
    after = image.replay(register_broker(image, moved, session_is_alive=False).records)
    assert after.brokers.keys() == image.brokers.keys()
    assert after.brokers[BrokerId(1)].endpoint("GRPC") == moved.endpoints[0]
    assert partition(after).replicas == (1, 2)


def test_another_process_under_a_live_brokers_id_is_refused() -> None:
    with pytest.raises(Refusal, match=r"its own node\.id") as refused:
        register_broker(cluster(1), on_other_disks(registration(1, process=2)), session_is_alive=True)
    assert refused.value.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_broker_that_registered_with_a_later_controller_is_not_judged_by_an_earlier_one() -> None:
    image = cluster(1)
    request = replace(beat(image, 1), broker_epoch=image.next_broker_epoch)
    with pytest.raises(Refusal) as refused:
        heartbeat(image, request, caught_up_from_index=1, committed_index=1)
    assert refused.value.error_code == ErrorCode.NOT_CONTROLLER


def test_a_bounced_broker_leaves_every_isr_where_others_remain() -> None:
    image = with_topic(cluster(1, 2), [1, 2], [2, 1])
    image = image.replay(register_broker(image, registration(1, process=2), session_is_alive=False).records)
    assert [partition(image, number).isr for number in (0, 1)] == [(2,), (2,)]
    assert [partition(image, number).leader for number in (0, 1)] == [2, 2]
    assert [partition(image, number).leader_epoch for number in (0, 1)] == [1, 0]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (registration(1, cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(registration(1), broker_id=BrokerId(-1)), ErrorCode.INVALID_REQUEST),
        (replace(registration(1), endpoints=[]), ErrorCode.INVALID_REQUEST),
        (replace(registration(1), endpoints=registration(1).endpoints * 2), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(request_: RegisterBrokerRequest, code: ErrorCode) -> None:
    with pytest.raises(Refusal) as refused:
        register_broker(cluster(), request_, session_is_alive=False)
    assert refused.value.error_code == code


# --- fencing ---


def test_a_broker_that_fell_silent_is_fenced_and_its_partitions_move() -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    records = fence_broker(image, BrokerId(1), BrokerEpoch(1)).records
    assert records[0] == BrokerFenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
    assert partition(image.replay(records)).leader == 2


def test_fencing_or_unfencing_twice_changes_nothing_more() -> None:
    image = cluster(1)
    assert unfence_broker(image, BrokerId(1), BrokerEpoch(1)).records == []
    assert fence_broker(fenced(image, 1), BrokerId(1), BrokerEpoch(1)).records == []


@pytest.mark.parametrize("decide", [fence_broker, unfence_broker, begin_controlled_shutdown])
def test_an_earlier_life_of_a_broker_has_no_say(
    decide: Callable[[MetadataImage, BrokerId, BrokerEpoch], object],
) -> None:
    image = cluster(1)
    image = image.replay(register_broker(image, registration(1, process=2), session_is_alive=False).records)
    with pytest.raises(Refusal) as refused:
        decide(image, BrokerId(1), BrokerEpoch(1))
    assert refused.value.error_code == ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(Refusal) as refused:
        decide(image, BrokerId(9), BrokerEpoch(1))
    assert refused.value.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


# --- controlled shutdown ---


def test_a_shutdown_first_hands_on_then_fences_and_then_the_broker_may_stop() -> None:
    image, may_stop = shut_down(with_topic(cluster(1, 2), [1, 2]), 1)
    assert (may_stop, partition(image).leader, partition(image).isr) == (False, 2, (2,))
    assert not image.brokers[BrokerId(1)].fenced
    image, may_stop = shut_down(image, 1)
    assert (may_stop, image.brokers[BrokerId(1)].fenced) == (True, True)
    assert shut_down(image, 1) == (image, True)


def test_what_only_the_stopping_broker_holds_waits_for_its_return() -> None:
    image, _ = shut_down(with_topic(cluster(1), [1]), 1)
    image, may_stop = shut_down(image, 1)
    assert (may_stop, partition(image).leader, partition(image).isr) == (True, NO_BROKER, (1,))


def test_a_fenced_broker_may_stop_at_once_and_no_later_heartbeat_unfences_it() -> None:
    image, may_stop = shut_down(fenced(cluster(1), 1), 1)
    assert (may_stop, image.brokers[BrokerId(1)].may_stop) == (True, True)
    again = begin_controlled_shutdown(image, BrokerId(1), epoch_of(image, 1))
    assert (again.records, again.response) == ([], True)
    late = heartbeat(image, beat(image, 1, index=10), caught_up_from_index=10, committed_index=12)
    assert (late.records, late.response.is_fenced) == ([], True)


# --- heartbeats ---


def test_a_heartbeat_unfences_a_broker_once_it_has_caught_up() -> None:
    image = fenced(cluster(1), 1)
    behind = heartbeat(image, beat(image, 1, index=9), caught_up_from_index=10, committed_index=12)
    assert (behind.records, behind.response.is_fenced, behind.response.committed_index) == ([], True, 12)
    caught_up = heartbeat(image, beat(image, 1, index=10), caught_up_from_index=10, committed_index=12)
    assert caught_up.records == [BrokerUnfenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))]
    assert (caught_up.response.error_code, caught_up.response.is_fenced) == (ErrorCode.NONE, False)


# --- producer ids ---


def test_producer_id_blocks_follow_each_other() -> None:
    image = cluster(1)
    request = AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(1))
    first = allocate_producer_ids(image, request)
    assert (first.response.first, first.response.count) == (0, 1000)
    assert first.records == [ProducerIdsAllocated(next_producer_id=ProducerId(1000))]
    assert allocate_producer_ids(image.replay(first.records), request).response.first == 1000


def test_a_stale_broker_gets_no_producer_ids() -> None:
    with pytest.raises(Refusal) as refused:
        allocate_producer_ids(
            cluster(1), AllocateProducerIdsRequest(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0))
        )
    assert refused.value.error_code == ErrorCode.STALE_BROKER_EPOCH
