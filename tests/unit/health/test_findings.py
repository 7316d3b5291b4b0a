from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kraft.client import OngoingPartitionReassignment
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.model.errors import AuthenticationFailed
from kraft.health.facts import hidden_replicas
from kraft.health.findings import ExpiringCertificate, Finding, Severity, findings, state_of
from kraft.health.hanging import OpenInPartition
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.describe_quorum import QuorumDescription
from kraft.model.errors import ErrorCode, KraftError
from kraft.model.ids import TopicPartition
from kraft.wire.declaration import replace as changed
from kraft.wire.schema.describe_producers import ProducerState
from tests.support.cluster_facts import DATA, broker, facts, log_directory, partition, voter


def found(**changes: Any) -> list[tuple[Severity, str]]:
    return [(each.severity, each.what) for each in findings(facts(**changes))]


def only(**changes: Any) -> Finding:
    (finding,) = findings(facts(**changes))
    return finding


def test_a_healthy_cluster_has_no_findings() -> None:
    assert found() == []
    assert state_of([]) == "healthy"


def test_a_certificate_that_expires_soon_is_named_with_whose_it_is() -> None:
    soon = ExpiringCertificate(whose="of the GRPC listener of broker 3", expires="2026-12-09 10:00 UTC", days_left=12)
    gone = replace(soon, days_left=-1)
    assert found(certificates=[soon, gone]) == [
        (
            Severity.WARNING,
            "the certificate of the GRPC listener of broker 3 expires in 12 days: 2026-12-09 10:00 UTC",
        ),
        (Severity.WARNING, "the certificate of the GRPC listener of broker 3 has expired: 2026-12-09 10:00 UTC"),
    ]


def test_a_lost_quorum_is_critical_and_says_that_the_rest_may_be_out_of_date() -> None:
    quorum = QuorumDescription(error_code=ErrorCode.NOT_CONTROLLER, error_message="no controller is active: why")
    finding = only(quorum=quorum)
    assert finding.severity is Severity.CRITICAL
    assert finding.what == "no controller is active: why. What follows may be out of date"
    assert state_of([finding]) == "critical"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unreachable": True}, ["voter 3 unreachable"]),
        ({"is_learner": True}, ["voter 3"]),
        ({"lag": 0}, []),
        ({}, ["voter 3 lacks 17 entries"]),
    ],
    ids=["unreachable", "learner", "has every entry", "behind"],
)
def test_a_voter_has_one_finding_at_most(changes: dict[str, Any], words: list[str]) -> None:
    late = voter(3, **{"lag": 17, "last_caught_up_timestamp_ms": 40_000, **changes})
    said = [what for _, what in found(quorum=QuorumDescription(leader_id=1, voters=[voter(1), voter(2), late]))]
    assert len(said) == len(words), said
    assert all(each.startswith(word) for each, word in zip(said, words, strict=True)), said


def test_voters_that_do_not_count_or_lag_are_named() -> None:
    late = voter(3, lag=17, last_caught_up_timestamp_ms=40_000)
    quorum = QuorumDescription(leader_id=1, voters=[voter(1), voter(2, unreachable=True), late])
    assert found(quorum=quorum) == [
        (Severity.WARNING, "voter 2 unreachable since 00:00:00 UTC; losing one more stops all changes"),
        (Severity.WARNING, "voter 3 lacks 17 entries of the metadata log"),
    ]
    just_behind = voter(3, lag=17, last_caught_up_timestamp_ms=55_000)
    assert found(quorum=QuorumDescription(leader_id=1, voters=[voter(1), voter(2), just_behind])) == []


def test_a_broker_out_of_service_is_a_warning_with_what_took_it_out() -> None:
    brokers = [
        broker(1, fenced=True, fenced_by_operator=True),
        broker(2, fenced=True),
        broker(3, in_controlled_shutdown=True),
    ]
    assert [each.what for each in findings(facts(brokers=brokers))] == [
        "broker 1 is fenced by an operator",
        "broker 2 is not in service: the controller receives no heartbeats of it",
        "broker 3 is shutting down",
    ]
    assert findings(facts(brokers=brokers))[0].remedy == "once it is mended: kraft brokers unfence 1"


def test_a_broker_that_was_decommissioned_is_to_be_unregistered() -> None:
    (emptied,) = findings(facts(brokers=[broker(1), broker(2), broker(3, fenced_by_operator=True, replicas=0)]))
    assert emptied.what == "broker 3 is fenced by an operator, and has no replica"
    assert emptied.remedy.startswith("stop it if it runs, then kraft brokers unregister 3; or ")


def test_a_broker_without_heartbeats_is_named_with_what_it_answers_here() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3, fenced=True)]
    hung = NoBrokerReachable({"node-2:9094": "it accepts connections, but says nothing"}, 1_491)
    hanging, answering = findings(facts(brokers=brokers, fenced={2: hung, 3: None}))
    assert hanging.what == (
        "broker 2 is not in service, and did not answer here: node-2:9094: it accepts connections, but says nothing"
    )
    assert hanging.remedy.startswith("its process is there and does not work: resume it if it is paused")
    assert answering.what.startswith("broker 3 is not in service, although it answers here: ")
    assert answering.remedy == "see its log: controllers may refuse it, or be out of its reach"


def test_a_broker_that_refuses_the_command_runs() -> None:
    refusal = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "node-2:9094 refused user 'alice'")
    words = "it refuses this command: SASL_AUTHENTICATION_FAILED: node-2:9094 refused user 'alice'"
    assert found(directories={2: refusal}) == [(Severity.WARNING, f"broker 2 runs, and {words.removeprefix('it ')}")]
    (one,) = findings(facts(brokers=[broker(1), broker(2, fenced=True)], fenced={2: refusal}))
    assert one.what == f"broker 2 is not in service, although it runs; {words}"
    assert one.remedy == "see its log: it may not know the users and passwords of now"


def test_a_broker_in_service_that_does_not_answer_is_named_with_the_reason() -> None:
    assert found(directories={2: KraftError("no answer")}) == [
        (Severity.WARNING, "broker 2 is in service, but did not answer here: no answer")
    ]


def test_partitions_whose_leader_does_not_answer_do_not_work_from_here() -> None:
    led = [partition(0, leader=2), partition(1, leader=2, isr=(2,), min_isr=2), partition(2)]
    silent, refusing = findings(facts(directories={2: KraftError("no answer")}, partitions=led))
    assert silent.severity is Severity.CRITICAL
    assert silent.what == "broker 2 is in service and leads 2 partitions, but did not answer here: no answer"
    assert silent.remedy.endswith("let others lead: kraft brokers fence 2")
    # Brokers 1 and 3 are well: they cannot follow.
    assert refusing.remedy == "bring back broker 2, which leads some of them and does not answer"


def test_a_controller_whose_broker_answers_is_not_to_be_started() -> None:
    quorum = QuorumDescription(leader_id=1, voters=[voter(1), voter(2, unreachable=True), voter(3)])
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    answers, silent = (
        findings(facts(quorum=quorum, brokers=brokers, fenced={2: outcome}))[0] for outcome in (None, KraftError("no"))
    )
    assert answers.remedy == "it runs, for its broker answers here: mend the network between the controllers"
    assert silent.remedy == (
        "start it, or mend the network between the controllers; if it is gone for good, 'kraft storage format' another "
        "node with node.id=2, and start it"
    )


@pytest.mark.parametrize(("node_id", "words"), [(2, "another node with node.id=2"), (4, "kraft brokers unregister")])
def test_a_controller_that_is_gone_for_good_keeps_its_id_and_a_broker_does_not(node_id: int, words: str) -> None:
    brokers = [broker(1), broker(3), broker(node_id, fenced=True)]
    quorum = QuorumDescription(leader_id=1, voters=[voter(1), voter(2), voter(3)])
    (finding,) = findings(facts(quorum=quorum, brokers=brokers, fenced={node_id: KraftError("refused")}))
    assert words in finding.remedy


def test_a_slow_disk_is_named_with_the_time_that_a_sync_takes() -> None:
    slow, quick = (changed(log_directory(DATA), sync_ms=each) for each in (1_400, 999))
    finding = only(directories={1: [quick], 2: [slow]})
    assert (finding.severity, finding.names) == (Severity.WARNING, [DATA])
    assert finding.what.startswith("the disk of log directory /data of broker 2 is slow: a sync takes 1.4 s")


def test_a_group_that_rebalances_again_and_again_is_named() -> None:
    finding = only(rebalances={"billing": 10, "calm": 9})
    assert finding.severity is Severity.WARNING
    assert (
        finding.what == "1 group rebalancing again and again, and hardly reading: billing (10 times) within 5 minutes"
    )
    assert finding.remedy.startswith("'kraft groups members billing' a few times")


def test_a_broker_that_does_not_answer_is_named_with_its_address_and_not_with_others() -> None:
    silent = NoBrokerReachable({"node-2:9094": "it accepts connections, but says nothing"}, 1_491)
    assert found(directories={2: silent}) == [
        (
            Severity.WARNING,
            "broker 2 is in service, but did not answer here: node-2:9094: it accepts connections, but says nothing",
        )
    ]


def test_a_throttle_that_may_slow_replicas_down_is_named_with_the_topics() -> None:
    behind = [
        partition(0, isr=(1, 2), is_throttled=True),
        partition(1, isr=(1, 2)),
        partition(0, topic="a", isr=(1, 2)),
    ]
    assert only(partitions=[*behind, partition(2, is_throttled=True)]).remedy == (
        "a throttle may slow them: see 'kraft configs describe' of orders; "
        "otherwise the replicas on broker 3, which answers, copy what they lack"
    )


def test_a_throttle_that_was_left_behind_is_named_with_the_commands_that_remove_it() -> None:
    left = [partition(0, is_throttled=True), partition(0, topic="a", is_throttled=True), partition(1)]
    finding = only(partitions=left)
    assert finding.severity is Severity.WARNING
    assert finding.what.startswith("replicas of a, orders are throttled although nothing moves")
    assert finding.remedy == (
        "kraft topics reassign --verify with the file of the move; or kraft configs alter a --delete-config "
        "leader.replication.throttled.replicas,follower.replication.throttled.replicas"
    )
    ongoing = OngoingPartitionReassignment(
        partition_index=3, replicas=(1, 2), adding_replicas=(2,), removing_replicas=()
    )
    moving = partition(3, reassignment=ongoing)
    assert found(partitions=[*left, moving]) == [], "the throttle may be of this move"


def test_replicas_of_a_broker_that_answers_are_copying() -> None:
    remedy = "the replicas on broker 3, which answers, copy what they lack: wait, or see there why they lag"
    assert only(partitions=[partition(0, isr=(1, 2))]).remedy == remedy


def test_disks_that_failed_or_are_full_are_named() -> None:
    full = log_directory(DATA, reason="the disk of /data has 3 bytes free")
    failed = log_directory("/old", ErrorCode.KAFKA_STORAGE_ERROR, "it is not formatted")
    assert found(directories={3: [full, failed]}) == [
        (Severity.CRITICAL, "broker 3 refuses appends in /data: the disk of /data has 3 bytes free"),
        (Severity.WARNING, "log directory /old of broker 3 has failed: it is not formatted"),
    ]


def test_partitions_without_a_leader_name_the_brokers_that_may_lead_them() -> None:
    leaderless = [partition(0, leader=-1, isr=(2,)), partition(1, leader=-1, isr=(), elr=(3,))]
    finding = only(partitions=leaderless, brokers=[broker(1)])
    assert finding.severity is Severity.CRITICAL
    assert finding.what == "2 partitions without a leader: orders-0, orders-1"
    assert finding.remedy == "start broker 2 and 3, which hold all committed records"
    assert finding.names == ["orders-0", "orders-1"]


def test_groups_without_a_coordinator_are_named_besides() -> None:
    leaderless = [partition(each, topic=OFFSETS_TOPIC, leader=-1, isr=(2,)) for each in range(7)]
    partitions, groups = findings(facts(partitions=leaderless))
    assert partitions.what.endswith("__consumer_offsets-4 and 2 more")
    assert groups.subject == "groups"
    assert groups.what == (
        "7 partitions of __consumer_offsets without a leader: their groups have no coordinator: nobody joins or commits"
    )


def test_partitions_with_too_few_replicas_in_sync_are_critical_only_where_producers_are_refused() -> None:
    too_few, one_missing = partition(0, isr=(1,)), partition(1, isr=(1, 2))
    away = dict.fromkeys((2, 3), KraftError("no answer"))
    critical, warning = findings(
        facts(partitions=[one_missing, too_few, partition(2)], brokers=[broker(1)], directories={1: []}, fenced=away)
    )
    assert (critical.severity, warning.severity) == (Severity.CRITICAL, Severity.WARNING)
    assert critical.what == "1 partition below min.insync.replicas, where acks=all is refused: orders-0"
    assert critical.remedy == "bring back the replicas on broker 2 and 3, or see there why they lag"
    assert warning.what == (
        "1 partition under-replicated: orders-1; 1 of them would refuse acks=all if one more was lost"
    )


def test_replicas_that_the_user_may_not_see_are_no_health() -> None:
    brokers = [broker(1, replicas=2), broker(2, replicas=5), broker(3, replicas=1)]
    hidden = hidden_replicas(brokers, [partition(0), partition(1)])
    assert hidden == 3
    finding = only(brokers=brokers, hidden=hidden)
    assert (finding.severity, finding.what) == (
        Severity.UNKNOWN,
        "3 replicas could not be seen: nothing is known of their partitions",
    )
    assert state_of([finding]) == "degraded"
    assert finding.remedy == "ask as a user that may describe all topics and their configs"


def test_hanging_transactions_are_critical_and_the_command_that_shows_them_is_named() -> None:
    producer = ProducerState(
        producer_id=5,
        producer_epoch=0,
        last_sequence=1,
        last_timestamp=0,
        coordinator_epoch=0,
        current_txn_start_offset=3,
    )
    hanging = OpenInPartition(partition=TopicPartition("orders", 0), producer=producer, holds_last_stable_offset=True)
    finding = only(hanging=[hanging])
    assert finding.what == "1 transaction hanging, past which committed records are not read: orders-0"
    assert finding.remedy == "kraft transactions find-hanging"


def test_what_is_unknown_makes_a_cluster_degraded() -> None:
    finding = only(unknown={"disks": "disks are unknown: no answer"})
    assert (finding.severity, state_of([finding])) == (Severity.UNKNOWN, "degraded")
