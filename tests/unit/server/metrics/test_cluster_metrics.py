"""What the controllers and a broker tell of the cluster's partitions, brokers and quorum."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from kraft.metadata.change_counts import is_unclean
from kraft.model.ids import NO_BROKER, BrokerId
from kraft.quorum.port import QuorumStatus, VoterStatus
from kraft.server.metrics import controller_metrics, replica_metrics
from kraft.server.metrics.metric import Metric
from kraft.server.metrics.snapshot import Snapshot
from tests.support.cluster_images import ORDERS, cluster, fenced, partition, with_isr, with_topic
from tests.support.log.transactional_log import VERIFIED, transactional
from tests.support.server.replicas import Broker, append_to, lead


def _values(snapshot: Snapshot) -> dict[str, float]:
    """Return the numbers of metrics with one series."""
    return {metric.name: series.numbers[0] for metric, series in snapshot.values.items() if len(series) == 1}


def _labelled(snapshot: Snapshot, metric: Metric) -> dict[tuple[str, ...], float]:
    series = snapshot.values[metric]
    return dict(zip(series.labels, series.numbers, strict=True))


async def test_the_active_controller_counts_the_partitions_of_the_cluster() -> None:
    image = fenced(with_topic(cluster(1, 2, 3), [1, 2], [3], [2, 1]), 3)
    snapshot = Snapshot()
    await controller_metrics.collect_cluster(with_isr(image, 1, 2, leader=2), snapshot)
    found = _values(snapshot)
    of_controller = "kafka_controller_kafkacontroller"
    assert found[f"{of_controller}_offlinepartitionscount"] == 1
    # One has moved from its first replica, one has no leader.
    assert found[f"{of_controller}_preferredreplicaimbalancecount"] == 2
    assert (found[f"{of_controller}_globaltopiccount"], found[f"{of_controller}_globalpartitioncount"]) == (1, 3)
    assert (found[f"{of_controller}_activebrokercount"], found[f"{of_controller}_fencedbrokercount"]) == (2, 1)
    assert found["kafka_brokers"] == 2
    assert _labelled(snapshot, controller_metrics.TOPIC_PARTITIONS) == {("orders",): 3}
    # These brokers have no listener for Kafka's clients.
    assert _labelled(snapshot, controller_metrics.BROKER_INFO) == {("1", ""): 1, ("2", ""): 1}


def test_a_leader_that_was_in_neither_the_isr_nor_the_elr_is_unclean() -> None:
    state = partition(with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1, 2]))
    assert [is_unclean(state, BrokerId(each)) for each in (1, 2, 3, NO_BROKER)] == [False, False, True, False]


def _status(leader_id: int | None) -> QuorumStatus:
    voters = (
        VoterStatus(node_id=1, match_index=90, heard_ms_ago=-1),
        VoterStatus(node_id=2, match_index=70, heard_ms_ago=1_500),
        VoterStatus(node_id=3, match_index=-1, heard_ms_ago=-1),
    )
    return QuorumStatus(leader_id=leader_id, term=4, commit_index=80, voters=voters, running_ms=40_000)


def test_the_leader_of_the_quorum_knows_what_the_other_voters_lack() -> None:
    snapshot = Snapshot()
    controller_metrics.collect_quorum(_status(1), 1, snapshot)
    assert _labelled(snapshot, controller_metrics.STATE) == {("leader",): 1}
    assert _labelled(snapshot, controller_metrics.VOTER_LAG) == {("2",): 20}
    # The third one it has never heard.
    assert _labelled(snapshot, controller_metrics.VOTER_SILENCE) == {("2",): 1.5, ("3",): 40}
    raft = "kafka_server_raftmetrics"
    found = _values(snapshot)
    assert [found[f"{raft}_{each}"] for each in ("current_leader", "current_epoch")] == [1, 4]
    assert [found[f"{raft}_{each}"] for each in ("high_watermark", "log_end_offset")] == [80, 90]


def test_other_voters_know_themselves_and_the_leader() -> None:
    for leader_id, state, told in ((1, "follower", 1), (None, "unattached", -1)):
        snapshot = Snapshot()
        controller_metrics.collect_quorum(_status(leader_id), 2, snapshot)
        assert _labelled(snapshot, controller_metrics.STATE) == {(state,): 1}
        assert _values(snapshot)["kafka_server_raftmetrics_current_leader"] == told
        assert _values(snapshot)["kafka_server_raftmetrics_log_end_offset"] == 70
        assert controller_metrics.VOTER_LAG not in snapshot.values


async def test_a_broker_counts_the_partitions_that_it_leads(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    held = broker.open(topic_id=ORDERS, min_insync_replicas=2)
    for replicas, isr, expected in (
        ((1, 2, 3), (1, 2, 3), (0, 0, 0)),
        ((1, 2, 3), (1, 2), (1, 0, 1)),
        ((1, 2, 3), (1,), (1, 1, 0)),
        ((1,), (1,), (0, 0, 1)),
    ):
        lead(held, epoch=len(replicas) * 10 + len(isr), replicas=replicas, isr=isr)
        snapshot = Snapshot()
        image = with_topic(cluster(1, 2, 3), replicas, isr=isr)
        await replica_metrics.collect_replicas(broker.partitions, image, snapshot, late_before_ms=0)
        found, manager = _values(snapshot), "kafka_server_replicamanager"
        names = "underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount"
        assert tuple(found[f"{manager}_{name}"] for name in names) == expected, (replicas, isr)
        assert (found[f"{manager}_leadercount"], found[f"{manager}_partitioncount"]) == (1, 1)


async def test_a_transaction_to_which_nobody_has_written_for_long_is_late(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    held = broker.open(topic_id=ORDERS)
    lead(held, replicas=(1,))
    written_ms = 1_000
    append_to(held, transactional(7, 0, "undecided"), 1, VERIFIED)
    for late_before_ms, late in ((written_ms, 0), (written_ms + 1, 1)):
        snapshot = Snapshot()
        await replica_metrics.collect_replicas(broker.partitions, cluster(1), snapshot, late_before_ms)
        name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        assert _values(snapshot)[name] == late


def test_a_replica_that_a_reassignment_adds_is_not_missed() -> None:
    state = partition(with_topic(cluster(1, 2, 3), [1, 2, 3], isr=[1, 2]))
    assert replica_metrics.is_under_replicated(state)
    assert not replica_metrics.is_under_replicated(replace(state, adding_replicas=(BrokerId(3),)))
