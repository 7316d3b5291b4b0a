"""Requests of operators: elections, reassignments, log directories, brokers, features and quotas."""

from __future__ import annotations

from typing import Any, Final

from kraft.wire.schema import alter_client_quotas as altering
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.wire.schema.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kraft.wire.schema.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest
from kraft.wire.schema.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce

_EXACT, _DEFAULT, _ANY = range(3)


def elect_leaders(peer: Peer) -> None:
    peer.create_topic("elected", 2)

    def ask(what: str, *topics: tuple[str, tuple[int, ...]], kinds: tuple[int, ...] = (0, 1)) -> None:
        named = tuple(TopicPartitions(topic=name, partitions=partitions) for name, partitions in topics)
        for version, kind in ((version, kind) for version in range(3) for kind in kinds if version or not kind):
            request = ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=TIMEOUT_MS)
            peer.ask(f"v{version} {what}, kind {kind}", request, version, keep=_sorted_elections)

    ask("led by the preferred", ("elected", (0, 1)))
    ask("partition", ("elected", (9,)))
    ask("topic", ("nowhere", (0,)))
    ask("one of two", ("elected", (0, 9)))
    ask("none")
    ask("unknown kind", ("elected", (0,)), kinds=(2,))


def _sorted_elections(answer: Any) -> Any:
    answer["replica_election_results"].sort(key=str)
    for topic in answer["replica_election_results"]:
        topic["partition_result"].sort(key=str)
    return answer


def alter_partition_reassignments(peer: Peer) -> None:
    peer.create_topic("moved", 2)

    def ask(what: str, name: str, replicas: tuple[int, ...] | None, partition: int = 0, **also: bool) -> None:
        one = ReassignablePartition(partition_index=partition, replicas=replicas)
        for version in (0, 1):
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS, topics=(ReassignableTopic(name=name, partitions=(one,)),), **also
            )
            peer.ask(f"v{version} {what}", request, version)

    ask("where it is", "moved", (1,))
    ask("nothing to stop", "moved", None)
    ask("unknown broker", "moved", (9,))
    ask("twice to one", "moved", (1, 1))
    ask("to nobody", "moved", ())
    ask("negative broker", "moved", (-1,))
    ask("partition", "moved", (1,), partition=9)
    ask("topic", "nowhere", (1,))
    ask("stop at a topic unknown", "nowhere", None)
    ask("more replicas not allowed", "moved", (1, 9), allow_replication_factor_change=False)
    none = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=())
    peer.ask("none", none, 1)
    twice = ReassignableTopic(
        name="moved", partitions=tuple(ReassignablePartition(partition_index=0, replicas=(1,)) for _ in range(2))
    )
    peer.ask("twice", AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(twice,)), 1)


def list_partition_reassignments(peer: Peer) -> None:
    peer.create_topic("resting")
    peer.ask("every", ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None), 0)
    for what, name, partition in (("one", "resting", 0), ("partition", "resting", 9), ("topic", "nowhere", 0)):
        topic = ListPartitionReassignmentsTopics(name=name, partition_indexes=(partition,))
        peer.ask(what, ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=(topic,)), 0)
    peer.ask("none", ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=()), 0)


def describe_log_dirs(peer: Peer) -> None:
    topic_id = peer.create_topic("stored", 2)
    peer.call(produce(9, "stored", topic_id, batch("a" * 100)), 9)

    def ask(what: str, *topics: tuple[str, tuple[int, ...]], every: bool = False) -> None:
        named = tuple(DescribableLogDirTopic(topic=name, partitions=partitions) for name, partitions in topics)
        for version in range(1, 6):
            request = DescribeLogDirsRequest(topics=None if every else named)
            peer.ask(f"v{version} {what}", request, version, keep=_only_stored)

    ask("one", ("stored", (0,)))
    ask("two", ("stored", (0, 1)))
    ask("partition", ("stored", (9,)))
    ask("topic", ("nowhere", (0,)))
    ask("none")
    ask("every", every=True)


def alter_replica_log_dirs(peer: Peer) -> None:
    peer.create_topic("settled-in", 2)
    described = DescribeLogDirsRequest(topics=None)
    (own,) = [each.log_dir for each in peer.call(described, 4).results]

    def ask(what: str, path: str, *topics: tuple[str, tuple[int, ...]]) -> None:
        named = tuple(AlterReplicaLogDirTopic(name=name, partitions=partitions) for name, partitions in topics)
        for version in (1, 2):
            request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=named),))
            peer.ask(f"v{version} {what}", request, version, keep=_sorted_replicas)

    ask("where it is", own, ("settled-in", (0, 1)))
    ask("unknown directory", "/no/such/directory", ("settled-in", (0,)))
    ask("partition", own, ("settled-in", (9,)))
    ask("topic", own, ("nowhere", (0,)))
    ask("topic and directory", "/no/such/directory", ("nowhere", (0,)))
    ask("relative directory", "data", ("settled-in", (0,)))
    ask("no topics", own)


def _sorted_replicas(answer: Any) -> Any:
    for topic in answer["results"]:
        topic["partitions"].sort(key=str)
    return answer


def _only_stored(answer: Any) -> Any:
    for result in answer["results"]:
        topics = [each for each in result["topics"] if each["name"] in ("stored", "nowhere")]
        for topic in topics:
            topic["partitions"].sort(key=lambda each: int(each["partition_index"]))
        result["topics"] = topics
    return answer


def unregister_broker(peer: Peer) -> None:
    for broker_id in (77, -1):
        peer.ask(f"broker {broker_id}", UnregisterBrokerRequest(broker_id=broker_id), 0)


def update_features(peer: Peer) -> None:
    def ask(what: str, *updates: tuple[str, int, int], versions: tuple[int, ...] = (1, 2), check: bool = True) -> None:
        named = tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        )
        for version in versions:
            request = UpdateFeaturesRequest(
                timeout_ms=TIMEOUT_MS, feature_updates=named, validate_only=check and version > 0
            )
            peer.ask(f"v{version} {what}", request, version)

    ask("unknown", ("no.such.feature", 1, 1), versions=(0, 1, 2))
    ask("too high", ("metadata.version", 1_000, 1))
    ask("negative", ("metadata.version", -1, 1))
    ask("level 0", ("metadata.version", 0, 1))
    ask("lower without leave", ("metadata.version", 1, 1))
    ask("kind 0", ("metadata.version", 1, 0))
    ask("kind 9", ("metadata.version", 1, 9))
    ask("twice", ("metadata.version", 1, 1), ("metadata.version", 1, 1))
    ask("empty name", ("", 1, 1))
    ask("none")


def client_quotas(peer: Peer) -> None:
    def alter(
        what: str, entity: tuple[tuple[str, str | None], ...], *ops: tuple[str, float | None], check: bool = False
    ) -> None:
        entry = altering.EntryData(
            entity=tuple(altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
            ops=tuple(altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops),
        )
        for version in (0, 1):
            request = altering.AlterClientQuotasRequest(entries=(entry,), validate_only=check)
            peer.ask(f"v{version} {what}", request, version, keep=_sorted_entities)

    def describe(what: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        named = tuple(ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components)
        for version in (0, 1):
            request = DescribeClientQuotasRequest(components=named, strict=strict)
            peer.ask(f"v{version} {what}", request, version, keep=_sorted_quotas)

    alter("only asked", (("client-id", "a"),), ("producer_byte_rate", 1_000.0), check=True)
    describe("none yet", ("client-id", _ANY, None))
    alter("client", (("client-id", "a"),), ("producer_byte_rate", 1_000.0), ("request_percentage", 50.0))
    alter("user", (("user", "u"),), ("consumer_byte_rate", 2_000.0))
    alter("user and client", (("user", "u"), ("client-id", "a")), ("consumer_byte_rate", 3_000.0))
    alter("default client", (("client-id", None),), ("consumer_byte_rate", 4_000.0))
    alter("address", (("ip", "10.0.0.1"),), ("connection_creation_rate", 5.0))
    alter("not set", (("client-id", "b"),), ("producer_byte_rate", None))
    alter("unknown key", (("client-id", "a"),), ("no_such_quota", 1.0))
    alter("an entity of an unknown kind", (("planet", "a"),), ("producer_byte_rate", 1.0))
    alter("address with a client's quota", (("ip", "10.0.0.1"),), ("producer_byte_rate", 1.0))
    alter("no address", (("ip", "not an address"),), ("connection_creation_rate", 1.0))
    alter("negative", (("client-id", "a"),), ("producer_byte_rate", -1.0))
    alter("zero", (("client-id", "z"),), ("producer_byte_rate", 0.0))
    alter("a fraction of a byte", (("client-id", "a"),), ("producer_byte_rate", 1.5))
    alter("no entity", (), ("producer_byte_rate", 1.0))
    alter("empty name", (("client-id", ""),), ("producer_byte_rate", 1.0))
    peer.settle()
    describe("every")
    describe("one client", ("client-id", _EXACT, "a"))
    describe("one client and nothing else", ("client-id", _EXACT, "a"), strict=True)
    describe("default", ("client-id", _DEFAULT, None))
    describe("any user", ("user", _ANY, None))
    describe("both", ("user", _EXACT, "u"), ("client-id", _ANY, None))
    describe("unknown kind", ("planet", _ANY, None))
    describe("unknown way to match", ("client-id", 9, None))
    describe("one kind twice", ("client-id", _ANY, None), ("client-id", _ANY, None))
    describe("address and user", ("ip", _ANY, None), ("user", _ANY, None))
    describe("exact without name", ("client-id", _EXACT, None))
    alter("an entity of one kind twice", (("client-id", "a"), ("client-id", "b")), ("producer_byte_rate", 1.0))
    for entity, key in (
        ((("client-id", "a"),), "producer_byte_rate"),
        ((("client-id", "a"),), "request_percentage"),
        ((("user", "u"),), "consumer_byte_rate"),
        ((("user", "u"), ("client-id", "a")), "consumer_byte_rate"),
        ((("client-id", None),), "consumer_byte_rate"),
        ((("ip", "10.0.0.1"),), "connection_creation_rate"),
    ):
        alter(f"{' '.join(str(part) for part in entity)} {key} back", entity, (key, None))


def _sorted_entities(answer: Any) -> Any:
    for entry in answer["entries"]:
        entry["entity"].sort(key=str)
    return answer


def _sorted_quotas(answer: Any) -> Any:
    for entry in answer["entries"] or ():
        entry["entity"].sort(key=str)
        entry["values"].sort(key=str)
    if answer["entries"]:
        answer["entries"].sort(key=str)
    return answer


SCENARIOS: Final = (
    elect_leaders,
    alter_partition_reassignments,
    list_partition_reassignments,
    describe_log_dirs,
    alter_replica_log_dirs,
    unregister_broker,
    update_features,
    client_quotas,
)
