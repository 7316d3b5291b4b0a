"""Whether a restart is safe, in states of a cluster of three nodes that are brokers and controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraft.client import ErrorCode, OngoingPartitionReassignment, Refusal
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.health.restart import Loss, Unknown, Verdict, verdict
from kraft.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kraft.model.describe_quorum import QuorumDescription
from tests.support.cluster_facts import DATA, broker, facts, log_directory, partition, voter

SILENT = NoBrokerReachable({"b:9094": "no answer"}, 1_500)
REFUSING = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")
ANSWERED = [log_directory(DATA)]
FAILED_ALONE = [log_directory(DATA), log_directory("/b", ErrorCode.KAFKA_STORAGE_ERROR, "gone")]

MOVING_TO_4 = OngoingPartitionReassignment(
    partition_index=0, replicas=(1, 2, 3, 4), adding_replicas=(4,), removing_replicas=(3,)
)
LEAVING_1 = OngoingPartitionReassignment(
    partition_index=0, replicas=(1, 2, 3), adding_replicas=(2, 3), removing_replicas=(1,)
)


def decided(*node_ids: int, **changes: Any) -> Verdict:
    return verdict(facts(**{"partitions": [partition()], **changes}), node_ids)


def brokers(**of_2: Any) -> list[Any]:
    return [broker(1), broker(2, **of_2), broker(3)]


def quorum(*voters: Any, leader: int = 1) -> QuorumDescription:
    return QuorumDescription(leader_id=leader, voters=list(voters), cluster_id="c")


def silent(broker_id: int, outcome: object = SILENT) -> dict[int, object]:
    return {each: ANSWERED if each != broker_id else outcome for each in (1, 2, 3)}


def full(broker_id: int) -> dict[int, object]:
    return silent(broker_id, [log_directory(DATA, reason="the disk of /data is full")])


TWO_LEFT = quorum(voter(1), voter(2), voter(3, unreachable=True))
TWO_AND_A_LEARNER = quorum(voter(1), voter(2), voter(3, is_learner=True))
TWO_AND_A_LAGGING = quorum(voter(1), voter(2), voter(3, lag=17, last_caught_up_timestamp_ms=0))
APART = quorum(voter(101), voter(102), voter(103), leader=101)

LAGGING_APART = quorum(
    voter(101), *(voter(each, lag=17, last_caught_up_timestamp_ms=0) for each in (102, 103)), leader=101
)


@pytest.mark.parametrize(
    ("node_id", "changes"),
    [
        pytest.param(1, {}, id="leader, and active controller, with all in sync"),
        pytest.param(3, {}, id="follower with all in sync"),
        pytest.param(3, {"partitions": [partition(isr=(1, 2))]}, id="replica that is not in sync: it holds up nothing"),
        pytest.param(3, {"partitions": [partition(isr=(1,))]}, id="below the minimum already, but not by this one"),
        pytest.param(2, {"partitions": [partition(isr=(1,), elr=(2,))]}, id="eligible, and another one leads"),
        pytest.param(
            3,
            {"partitions": [partition(leader=-1, isr=(2,))], "brokers": brokers(fenced=True)},
            id="not in sync, where another one has to lead that is away",
        ),
        pytest.param(2, {"partitions": [partition(isr=(1, 2), min_isr=1)]}, id="one is left, and one is enough"),
        pytest.param(
            3, {"partitions": [partition(replicas=(1, 2), isr=(1, 2))], "brokers": [broker(1), broker(3, replicas=0)]}
            , id="no replica here"),
        pytest.param(
            2,
            {
                "brokers": [broker(1), broker(2, fenced=True), broker(3, fenced=True)],
                "partitions": [partition(leader=-1, isr=(3,), elr=(2,))],
            },
            id="fenced: it is missed by nobody, though it alone could lead",
        ),
        pytest.param(
            2,
            {"brokers": brokers(fenced=True, fenced_by_operator=True), "partitions": [partition(isr=(1, 3))]},
            id="fenced by an operator",
        ),
        pytest.param(2, {"directories": silent(2)}, id="it does not answer itself, and others have everything"),
        pytest.param(1, {"directories": silent(2, REFUSING)}, id="another refuses this command: so it runs"),
        pytest.param(3, {"directories": full(3)}, id="its own disk is full"),
        pytest.param(1, {"directories": full(3), "partitions": [partition(min_isr=1)]}, id="one is left besides it"),
        pytest.param(1, {"directories": silent(3, FAILED_ALONE)}, id="the failed directory of another one is empty"),
        pytest.param(3, {"quorum": TWO_LEFT}, id="its controller is away already"),
        pytest.param(3, {"quorum": TWO_AND_A_LEARNER}, id="its controller does not count yet"),
        pytest.param(3, {"quorum": APART}, id="controllers are elsewhere"),
        pytest.param(3, {"quorum": LAGGING_APART}, id="controllers lag, and it is none of them"),
        pytest.param(102, {"quorum": APART}, id="a controller without a broker"),
        pytest.param(
            4,
            {
                "partitions": [partition(replicas=(1, 2, 3, 4), reassignment=MOVING_TO_4)],
                "brokers": [*brokers(), broker(4)],
            },
            id="a reassignment copies to it",
        ),
        pytest.param(
            1, {"partitions": [partition(reassignment=LEAVING_1)]}, id="it is being emptied, and the copies are in sync"
        ),
        pytest.param(
            3, {"partitions": [partition(leader=-1, isr=(1,), replicas=(1, 2))], "brokers": [broker(3, replicas=0)]},
            id="a partition elsewhere has no leader",
        ),
    ],
)  # fmt: skip
def test_a_restart_is_safe(node_id: int, changes: dict[str, Any]) -> None:
    found = decided(node_id, **changes)
    assert found.is_safe, (found.partitions, found.controllers)


@pytest.mark.parametrize(
    ("node_id", "changes", "loss", "what"),
    [
        pytest.param(
            2, {"partitions": [partition(isr=(1, 2))]}, Loss.MIN_ISR,
            "would have 1 in sync, below min.insync.replicas=2", id="one more lost is below the minimum",
        ),
        pytest.param(
            1, {"partitions": [partition(isr=(1,))]}, Loss.LEADER,
            "would have no leader: no other is in sync", id="the only one in sync",
        ),
        pytest.param(
            1, {"partitions": [partition(isr=(1,), elr=(3,))]}, Loss.MIN_ISR,
            "would have 0 in sync, below min.insync.replicas=2; it is below already", id="an eligible one would lead",
        ),
        pytest.param(
            1,
            {"partitions": [partition(replicas=(1,), isr=(1,), min_isr=1)], "brokers": [broker(1), broker(2)]},
            Loss.LEADER, "would have no leader: no other is in sync", id="replication factor 1",
        ),
        pytest.param(
            3, {"partitions": [partition(min_isr=3)]}, Loss.MIN_ISR,
            "would have 2 in sync, below min.insync.replicas=3", id="a minimum of all replicas",
        ),
        pytest.param(
            1, {"partitions": [partition(topic=OFFSETS_TOPIC, isr=(1, 2))]}, Loss.MIN_ISR,
            "would have 1 in sync, below min.insync.replicas=2", id="groups' offsets",
        ),
        pytest.param(
            1, {"partitions": [partition(topic=TRANSACTIONS_TOPIC, isr=(1,))]}, Loss.LEADER,
            "would have no leader: no other is in sync", id="transactions",
        ),
        pytest.param(
            1, {"brokers": brokers(in_controlled_shutdown=True)}, Loss.MIN_ISR,
            "would have 1 in sync, below min.insync.replicas=2", id="another one is shutting down",
        ),
        pytest.param(
            1, {"directories": silent(2)}, Loss.MIN_ISR,
            "would have 1 in sync, below min.insync.replicas=2", id="another one in the ISR does not answer",
        ),
        pytest.param(
            1, {"directories": silent(2), "partitions": [partition(isr=(1, 2), min_isr=1)]}, Loss.LEADER,
            "would have no leader: broker 2 would have to lead, and is not there", id="the other one does not answer",
        ),
        pytest.param(
            1, {"directories": full(3)}, Loss.MIN_ISR,
            "would have 1 in sync besides broker 3, which refuses appends, below min.insync.replicas=2",
            id="the disk of another one is full",
        ),
        pytest.param(
            1, {"partitions": [partition(isr=(1, 2), offline=(2,), min_isr=1)]}, Loss.LEADER,
            "would have no leader: broker 2 would have to lead, and is not there", id="the other's disk has failed",
        ),
        pytest.param(
            3,
            {
                "partitions": [partition(replicas=(3, 4), isr=(3,), min_isr=1, reassignment=MOVING_TO_4)],
                "brokers": [*brokers(), broker(4)],
            },
            Loss.LEADER, "would have no leader: no other is in sync", id="a reassignment copies its only one in sync",
        ),
    ],
)  # fmt: skip
def test_a_restart_is_not_safe_for_a_partition(node_id: int, changes: dict[str, Any], loss: Loss, what: str) -> None:
    # So that a majority is left whoever does not answer.
    found = decided(node_id, **{"quorum": APART, **changes})
    assert [(each.loss, each.what) for each in found.partitions] == [(loss, what)]
    assert not found.is_safe


@pytest.mark.parametrize(
    ("node_ids", "changes", "what"),
    [
        pytest.param([2], {"quorum": TWO_LEFT}, "1 of 3 controllers would be left", id="another one is away"),
        pytest.param([1], {"quorum": TWO_AND_A_LEARNER}, "1 of 3 controllers would be left", id="one is a learner"),
        pytest.param([1], {"quorum": TWO_AND_A_LAGGING}, "1 of 3 controllers would be left", id="one lags"),
        pytest.param([1], {"directories": silent(2)}, "1 of 3 controllers would be left", id="one does not answer"),
        pytest.param(
            [1],
            {"brokers": brokers(fenced=True), "directories": {1: ANSWERED, 3: ANSWERED}, "fenced": {2: SILENT}},
            "1 of 3 controllers would be left",
            id="one that is not in service does not answer, and nobody has noticed it as a voter",
        ),
        pytest.param([1, 2], {}, "1 of 3 controllers would be left", id="two at the same time"),
        pytest.param([1], {"quorum": quorum(voter(1))}, "node 1 is the only controller", id="only one"),
        pytest.param(
            [1], {"quorum": quorum(voter(1), voter(2))}, "1 of 2 controllers would be left", id="two are both needed"
        ),
        pytest.param(
            [3],
            {"quorum": QuorumDescription(error_code=ErrorCode.NOT_CONTROLLER, error_message="no controller is active")},
            "no controller is active: nobody would elect other leaders",
            id="none is active",
        ),
    ],
)
def test_a_restart_is_not_safe_for_the_controllers(node_ids: Sequence[int], changes: dict[str, Any], what: str) -> None:
    found = decided(*node_ids, **{"partitions": [partition(min_isr=1)], **changes})
    (reason,) = found.controllers
    assert reason.startswith(what)
    assert not found.is_safe


def test_nodes_that_restart_together_are_all_missing_at_once() -> None:
    partitions = [partition(0), partition(1, isr=(1, 2), min_isr=1)]
    assert decided(1, quorum=APART, partitions=partitions, brokers=[broker(1), broker(2)]).is_safe
    found = decided(1, 2, quorum=APART, partitions=partitions, brokers=[broker(1), broker(2)])
    assert [(each.partition, each.loss) for each in found.partitions] == [(0, Loss.MIN_ISR), (1, Loss.LEADER)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"brokers": [broker(2)], "quorum": APART},
            "there is no node 1: brokers and controllers are 2, 101, 102 and 103",
        ),
        ({"brokers": [broker(1, replicas=7)]}, "only 1 of the 7 replicas of broker 1 could be seen"),
        (
            {"unknown": {"disks": "disks are unknown: why"}},
            "which brokers answer could not be found out: disks are unknown",
        ),
    ],
    ids=["unknown node", "topics that this user may not describe", "brokers cannot be asked"],
)
def test_what_cannot_be_found_out_is_never_called_safe(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Unknown, match=why):
        decided(1, **changes)


def test_what_does_not_speak_against_a_restart_is_noted() -> None:
    assert decided(1).notes == ["node 1 is the active controller: another one takes over"]
    assert decided(2, partitions=[partition(isr=(1, 3))]).notes == [
        "1 replica here not in sync yet: a restart delays that"
    ]
    assert decided(2, brokers=brokers(fenced=True)).notes == [
        "broker 2 is not in service now, so it is missed by nobody"
    ]
    assert decided(2, partitions=[partition(reassignment=LEAVING_1)]).notes == [
        "1 partition being reassigned: what is copied to or from here goes on afterwards"
    ]
