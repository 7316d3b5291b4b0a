"""Classes of Kafka's tools: `kafka-run-class kafka.tools.GetOffsetShell` is `kafka-get-offsets`, as guides name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Final

from kraft.model.errors import KraftError

RUN_CLASS: Final = "kafka-run-class"

_OF_MIRRORMAKER_2: Final = "org.apache.kafka.connect.mirror.MirrorMaker"

SCRIPT_OF_CLASS: Final[Mapping[str, str]] = {
    "AclCommand": "kafka-acls",
    "BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "ClientMetricsCommand": "kafka-client-metrics",
    "ClusterTool": "kafka-cluster",
    "ConfigCommand": "kafka-configs",
    "ConnectDistributed": "connect-distributed",
    "ConnectStandalone": "connect-standalone",
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "ConsumerOffsetChecker": "kafka-consumer-offset-checker",
    "ConsumerPerformance": "kafka-consumer-perf-test",
    "DelegationTokenCommand": "kafka-delegation-tokens",
    "DeleteRecordsCommand": "kafka-delete-records",
    "DumpLogSegments": "kafka-dump-log",
    "EndToEndLatency": "kafka-e2e-latency",
    "FeatureCommand": "kafka-features",
    "GetOffsetShell": "kafka-get-offsets",
    "GroupsCommand": "kafka-groups",
    "JmxTool": "kafka-jmx",
    "Kafka": "kafka-server-start",
    "LeaderElectionCommand": "kafka-leader-election",
    "LogDirsCommand": "kafka-log-dirs",
    "MetadataQuorumCommand": "kafka-metadata-quorum",
    "MetadataShell": "kafka-metadata-shell",
    "MirrorMaker": "kafka-mirror-maker",
    "PreferredReplicaLeaderElectionCommand": "kafka-preferred-replica-election",
    "ProducerPerformance": "kafka-producer-perf-test",
    "QuorumPeerMain": "zookeeper-server-start",
    "ReassignPartitionsCommand": "kafka-reassign-partitions",
    "ReplayLogProducer": "kafka-replay-log-producer",
    "ReplicaVerificationTool": "kafka-replica-verification",
    "SimpleConsumerShell": "kafka-simple-consumer-shell",
    "StorageTool": "kafka-storage",
    "StreamsResetter": "kafka-streams-application-reset",
    "TopicCommand": "kafka-topics",
    "TransactionsCommand": "kafka-transactions",
    "VerifiableConsumer": "kafka-verifiable-consumer",
    "VerifiableProducer": "kafka-verifiable-producer",
    "ZkSecurityMigrator": "zookeeper-security-migration",
    "ZooKeeperMain": "zookeeper-shell",
    "ZooKeeperMainWithTlsSupportForKafka": "zookeeper-shell",
}
"""The script that runs each class, by the class's name without its package, which changed from release to release."""


def line_of_script(arguments: Sequence[str]) -> list[str]:
    """Return the line of the script for a line of `kafka-run-class`. Raises KraftError for a class that is no tool."""
    name, *given = arguments
    # -name NAME is that of a log file; -daemon and -loggc are of the virtual machine.
    words = [word for before, word in zip(["", *given], given, strict=False) if "-name" not in (before, word)]
    found, *rest = [*dropwhile(lambda each: each.startswith("-"), words)] or [""]
    if not found:
        raise KraftError(f"{name}: name a class of Kafka's tools, such as kafka.tools.GetOffsetShell")
    if found == _OF_MIRRORMAKER_2:
        return ["connect-mirror-maker", *rest]
    script = SCRIPT_OF_CLASS.get(found.rpartition(".")[2])
    if script is None:
        raise KraftError(f"{name}: {found}: classes of Java cannot be run: kraft -h lists the commands that there are")
    return [script, *rest]
