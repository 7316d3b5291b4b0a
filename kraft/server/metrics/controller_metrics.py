"""Metrics of the controller, and of the quorum that it is elected by."""

from __future__ import annotations

from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.ids import NO_BROKER
from kraft.quorum.counts import QuorumCounts
from kraft.quorum.port import QuorumStatus
from kraft.server.config.values import GRPC
from kraft.server.loop.periods import loop_time_s
from kraft.server.metrics.metric import Metric, counter, gauge, summary
from kraft.server.metrics.node_parts import NodeParts
from kraft.server.metrics.snapshot import Snapshot

_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_RAFT: Final = "kafka.server:type=raft-metrics,attribute="
_CHANNEL: Final = "kafka.server:type=raft-channel-metrics,attribute="
_ONCE: Final = " Of the active controller only, so that a sum over all nodes is right."

ACTIVE: Final = gauge(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "1 on the active controller, 0 on the others.",
    jmx=f"{_CONTROLLER}ActiveControllerCount",
)
OFFLINE_PARTITIONS: Final = gauge(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    f"Partitions without a leader.{_ONCE}",
    jmx=f"{_CONTROLLER}OfflinePartitionsCount",
)
IMBALANCE: Final = gauge(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    f"Partitions whose leader is not their first replica.{_ONCE}",
    jmx=f"{_CONTROLLER}PreferredReplicaImbalanceCount",
)
TOPICS: Final = gauge(
    "kafka_controller_kafkacontroller_globaltopiccount", f"Topics.{_ONCE}", jmx=f"{_CONTROLLER}GlobalTopicCount"
)
PARTITIONS: Final = gauge(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    f"Partitions.{_ONCE}",
    jmx=f"{_CONTROLLER}GlobalPartitionCount",
)
FENCED: Final = gauge(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    f"Registered brokers that are fenced.{_ONCE}",
    jmx=f"{_CONTROLLER}FencedBrokerCount",
)
UNFENCED: Final = gauge(
    "kafka_controller_kafkacontroller_activebrokercount",
    f"Registered brokers that are not fenced.{_ONCE}",
    jmx=f"{_CONTROLLER}ActiveBrokerCount",
)
UNCLEAN: Final = counter(
    "kafka_controller_controllerstats_uncleanleaderelections",
    "Elections of leaders that may lack committed records, by this controller while it was active.",
    jmx="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
)
BROKERS: Final = gauge("kafka_brokers", f"Registered brokers that are not fenced, as kafka_exporter has it.{_ONCE}")
BROKER_INFO: Final = gauge(
    "kafka_broker_info",
    f"1 for each broker that is not fenced, with its address for Kafka's clients.{_ONCE}",
    "id",
    "address",
)
TOPIC_PARTITIONS: Final = gauge("kafka_topic_partitions", f"Partitions of a topic.{_ONCE}", "topic")

STATE: Final = gauge(
    "kafka_server_raftmetrics_current_state",
    "1 for the state of this voter: leader, follower, or unattached while it knows no leader.",
    "current_state",
    jmx=f"{_RAFT}current-state",
)
LEADER: Final = gauge(
    "kafka_server_raftmetrics_current_leader",
    "Id of the quorum's leader as this voter knows it; -1 while it knows none.",
    jmx=f"{_RAFT}current-leader",
)
TERM: Final = gauge(
    "kafka_server_raftmetrics_current_epoch", "Term of the quorum, Kafka's epoch.", jmx=f"{_RAFT}current-epoch"
)
HIGH_WATERMARK: Final = gauge(
    "kafka_server_raftmetrics_high_watermark",
    "Index of the last committed entry that this voter knows.",
    jmx=f"{_RAFT}high-watermark",
)
LOG_END: Final = gauge(
    "kafka_server_raftmetrics_log_end_offset",
    "Index of the last entry that this voter has.",
    jmx=f"{_RAFT}log-end-offset",
)
VOTE: Final = gauge(
    "kafka_server_raftmetrics_current_vote",
    "Id of the voter that this one voted for in this term; -1 if it did not vote.",
    jmx=f"{_RAFT}current-vote",
)
COMMITS: Final = summary(
    "kraft_quorum_commit_seconds",
    "Entries that this voter proposed while it led, and the time until they were committed and applied here.",
)
COMMIT_LATENCY: Final = gauge(
    "kafka_server_raftmetrics_commit_latency_avg",
    "Mean of these times in this minute and the one before, in milliseconds, if there were any.",
    jmx=f"{_RAFT}commit-latency-avg",
)
SENT_BYTES: Final = counter(
    "kafka_server_raftchannelmetrics_outgoing_byte",
    "Bytes of messages that this voter sent to others, before gRPC and TLS.",
    jmx=f"{_CHANNEL}outgoing-byte-total",
)
RECEIVED_BYTES: Final = counter(
    "kafka_server_raftchannelmetrics_incoming_byte",
    "Bytes of messages that it got from others.",
    jmx=f"{_CHANNEL}incoming-byte-total",
)
REQUESTS_SENT: Final = counter(
    "kafka_server_raftchannelmetrics_request",
    "Messages that this voter sent to others and that are no responses: appends, heartbeats, requests for votes.",
    jmx=f"{_CHANNEL}request-total",
)
RESPONSES: Final = counter(
    "kafka_server_raftchannelmetrics_response",
    "Responses that it got from others.",
    jmx=f"{_CHANNEL}response-total",
)
VOTER_LAG: Final = gauge(
    "kraft_quorum_voter_lag",
    "Entries that a voter lacks, once it has said what it has. Of the leader only.",
    "voter",
)
VOTER_SILENCE: Final = gauge(
    "kraft_quorum_voter_silence_seconds",
    "Time since the leader heard from a voter; if it never did, since the leader's process began. Of the leader only.",
    "voter",
)

METRICS: Final[tuple[Metric, ...]] = (
    ACTIVE,
    OFFLINE_PARTITIONS,
    IMBALANCE,
    TOPICS,
    PARTITIONS,
    FENCED,
    UNFENCED,
    UNCLEAN,
    BROKERS,
    BROKER_INFO,
    TOPIC_PARTITIONS,
    STATE,
    LEADER,
    TERM,
    HIGH_WATERMARK,
    LOG_END,
    VOTE,
    COMMITS,
    COMMIT_LATENCY,
    SENT_BYTES,
    RECEIVED_BYTES,
    REQUESTS_SENT,
    RESPONSES,
    VOTER_LAG,
    VOTER_SILENCE,
)


async def collect(parts: NodeParts, snapshot: Snapshot) -> None:
    controller = parts.controller
    if controller is None:
        return
    host = controller.host
    snapshot.add(ACTIVE, host.active)
    snapshot.add(UNCLEAN, host.unclean_elections)
    collect_quorum(controller.quorum.describe(), parts.config.node_id, snapshot)
    collect_counts(controller.quorum_counts, snapshot)
    if host.active:
        await collect_cluster(host.image, snapshot)


async def collect_cluster(image: MetadataImage, snapshot: Snapshot) -> None:
    offline = imbalanced = partitions = 0
    for topic in image.topics.values():
        snapshot.add(TOPIC_PARTITIONS, len(topic.partitions), topic.topic)
        for partition in topic.partitions.values():
            partitions += 1
            offline += partition.leader == NO_BROKER
            imbalanced += partition.leader != partition.replicas[0]
            if snapshot.has_to_rest:
                await snapshot.rest()
    snapshot.add(OFFLINE_PARTITIONS, offline)
    snapshot.add(IMBALANCE, imbalanced)
    snapshot.add(TOPICS, len(image.topics))
    snapshot.add(PARTITIONS, partitions)
    unfenced = [broker for broker in image.brokers.values() if not broker.fenced]
    snapshot.add(FENCED, len(image.brokers) - len(unfenced))
    snapshot.add(UNFENCED, len(unfenced))
    snapshot.add(BROKERS, len(unfenced))
    for broker in unfenced:
        address = next((f"{each.host}:{each.port}" for each in broker.endpoints if each.listener != GRPC), "")
        snapshot.add(BROKER_INFO, 1, str(broker.broker_id), address)


def collect_counts(counts: QuorumCounts, snapshot: Snapshot) -> None:
    snapshot.add_summary(COMMITS, counts.commits, counts.commit_s)
    if (mean_s := counts.commit_mean_s(loop_time_s())) is not None:
        snapshot.add(COMMIT_LATENCY, mean_s * 1_000)
    snapshot.add(SENT_BYTES, counts.sent_bytes)
    snapshot.add(RECEIVED_BYTES, counts.received_bytes)
    snapshot.add(REQUESTS_SENT, counts.requests_sent)
    snapshot.add(RESPONSES, counts.responses_received)


def collect_quorum(status: QuorumStatus, node_id: int, snapshot: Snapshot) -> None:
    leads = status.leader_id == node_id
    snapshot.add(STATE, 1, "leader" if leads else "unattached" if status.leader_id is None else "follower")
    snapshot.add(LEADER, -1 if status.leader_id is None else status.leader_id)
    snapshot.add(TERM, status.term)
    snapshot.add(HIGH_WATERMARK, status.commit_index)
    ends = {voter.node_id: voter.match_index for voter in status.voters}
    snapshot.add(LOG_END, ends.get(node_id, 0))
    snapshot.add(VOTE, -1 if status.voted_for is None else status.voted_for)
    if not leads:
        return
    for voter in status.voters:
        if voter.node_id != node_id:
            if voter.match_index >= 0:
                snapshot.add(VOTER_LAG, max(0, ends[node_id] - voter.match_index), str(voter.node_id))
            # One that was never heard is no less silent: it may have been away before this voter began.
            silent_ms = voter.heard_ms_ago if voter.heard_ms_ago >= 0 else status.running_ms
            snapshot.add(VOTER_SILENCE, silent_ms / 1_000, str(voter.node_id))
