from __future__ import annotations

from collections.abc import Callable

import pytest

from kraft.metadata.broker_decisions import register_broker, unfence_broker
from kraft.metadata.configs import broker_defaults
from kraft.metadata.features import METADATA_VERSION
from kraft.metadata.image import MetadataImage
from kraft.metadata.operator_decisions import fence_by_operator, unfence_by_operator, unregister_broker
from kraft.metadata.records import (
    BrokerFenced,
    FeatureLevelSet,
    OperatorFenceSet,
    PartitionChanged,
)
from kraft.model.brokers import FenceBrokerRequest, UnfenceBrokerRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest
from tests.support.cluster_images import cluster, epoch_of, partition, registration, with_topic
from tests.support.cluster_images import fenced as fenced_as_dead


def fencing(broker_id: int, *, force: bool = False) -> FenceBrokerRequest:
    return FenceBrokerRequest(broker_id=broker_id, timeout_ms=1, force=force)


def unfencing(broker_id: int) -> UnfenceBrokerRequest:
    return UnfenceBrokerRequest(broker_id=broker_id, timeout_ms=1)


def unregistering(broker_id: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=broker_id)


def fenced(image: MetadataImage, broker_id: int, *, force: bool = False) -> MetadataImage:
    return image.replay(fence_by_operator(image, fencing(broker_id, force=force)).records)


# --- fencing ---


def test_a_broker_that_is_fenced_leads_nothing_and_is_in_no_isr_where_others_are() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2, 3])
    decision = fence_by_operator(image, fencing(1))
    assert [type(record) for record in decision.records] == [OperatorFenceSet, BrokerFenced, PartitionChanged]
    assert (decision.response.changed, decision.response.leaderless) == (True, [])
    after = image.replay(decision.records)
    assert (partition(after).leader, partition(after).isr) == (2, (2, 3))
    assert after.brokers[BrokerId(1)].fenced_by_operator


def test_fencing_twice_changes_nothing() -> None:
    decision = fence_by_operator(fenced(cluster(1, 2), 1), fencing(1))
    assert (decision.records, decision.response.changed) == ([], False)


def test_after_unfencing_the_next_heartbeat_puts_the_broker_into_service() -> None:
    image = fenced(cluster(1, 2), 1)
    decision = unfence_by_operator(image, unfencing(1))
    assert decision.response.changed
    image = image.replay(decision.records)
    assert image.brokers[BrokerId(1)].fenced
    image = image.replay(unfence_broker(image, BrokerId(1), epoch_of(image, 1)).records)
    assert image.brokers[BrokerId(1)].active
    assert not unfence_by_operator(image, unfencing(1)).response.changed


def test_only_the_first_of_many_partitions_are_named() -> None:
    image = with_topic(cluster(1), *[[1]] * 13)
    with pytest.raises(Refusal, match=r"13 partitions .*orders-9 and 3 more\)"):
        fence_by_operator(image, fencing(1))


def test_a_leader_out_of_sync_is_no_leader_to_fence_a_broker_for() -> None:
    image = with_topic(cluster(1, 2), [1, 2], isr=[1])
    unclean = broker_defaults({"unclean.leader.election.enable": "true"})
    with pytest.raises(Refusal, match="1 partition without a leader in sync"):
        fence_by_operator(image, fencing(1), defaults=unclean)


def test_a_broker_that_never_registered_is_refused_with_those_that_did() -> None:
    image = cluster(1, 2)
    decisions: list[Callable[[], object]] = [
        lambda: fence_by_operator(image, fencing(9)),
        lambda: unfence_by_operator(image, unfencing(9)),
        lambda: unregister_broker(image, unregistering(9), session_is_alive=False),
    ]
    for decide in decisions:
        with pytest.raises(Refusal, match="broker 9 is not registered: the registered brokers are 1, 2") as refused:
            decide()
        assert refused.value.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_refusal_on_an_earlier_version_says_how_to_enable_fencing() -> None:
    image = cluster(1, 2).replay([FeatureLevelSet(feature=METADATA_VERSION, level=1)])
    with pytest.raises(Refusal, match=r"kraft features upgrade --feature metadata\.version=2") as refused:
        fence_by_operator(image, fencing(1))
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION


# --- unregistering ---


def test_a_broker_that_comes_back_after_all_registers_as_a_new_one() -> None:
    image = fenced_as_dead(cluster(1, 2), 2)
    image = image.replay(unregister_broker(image, unregistering(2), session_is_alive=False).records)
    image = image.replay(register_broker(image, registration(2), session_is_alive=False).records)
    assert (image.brokers[BrokerId(2)].broker_epoch, image.brokers[BrokerId(2)].fenced) == (3, True)


def test_a_broker_that_runs_is_not_forgotten() -> None:
    image = cluster(1, 2)
    for session_is_alive, each in ((False, image), (True, fenced_as_dead(image, 2))):
        with pytest.raises(
            Refusal, match="broker 2 is running, or was killed and its session has not expired yet: stop it, or retry"
        ):
            unregister_broker(each, unregistering(2), session_is_alive=session_is_alive)


def test_a_broker_that_holds_replicas_is_not_forgotten() -> None:
    image = fenced_as_dead(with_topic(cluster(1, 2), [1, 2], [2]), 2)
    with pytest.raises(Refusal, match=r"replicas of 2 partitions \(orders-0, orders-1\): move them"):
        unregister_broker(image, unregistering(2), session_is_alive=False)
