"""Requests of the matrix of access about records, topics, replicas and configs, by the names of the table of APIs.

What they succeed with changes nothing, or nothing that a later answer tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from tests.end_to_end.kafka.differences.access_clients import MISNAMED, MISSING, OTHER, OTHER_MISSING
from tests.end_to_end.kafka.differences.access_rows import Ids, Row, counting, leaving_out, naming
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS
from tests.support.log.transactional_log import transactional
from tests.support.new_topic import new_topic
from tests.unit.server.access.needs import GROUP, TOPIC, TRANSACTION

NAMES: Final = (TOPIC, MISSING, OTHER)

Rows = Iterable[Row]

# --- topics ----------------------------------------------------------------------------------------------------------


def _create_topics(_: Ids) -> Iterator[Row]:
    topics = tuple(new_topic(name) for name in (TOPIC, MISSING, OTHER_MISSING))
    request = create_topics.CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True)
    # What a topic that is not created has for an id is compared elsewhere.
    yield Row("CreateTopics", request, 7, _created)


def _created(answer: Any) -> Any:
    """How many configs a topic has, and the id of one that is not created, are compared elsewhere."""
    for each in answer["topics"]:
        each["configs"] = bool(each.get("configs"))
        each.pop("topic_id", None)
    return answer


def _named(*names: str) -> tuple[delete_topics.DeleteTopicState, ...]:
    return tuple(delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names)


def _identified(*ids: UUID) -> tuple[delete_topics.DeleteTopicState, ...]:
    return tuple(delete_topics.DeleteTopicState(topic_id=each) for each in ids)


def _delete_topics(ids: Ids) -> Iterator[Row]:
    request = delete_topics.DeleteTopicsRequest
    missing = request(topics=_named(MISSING, OTHER_MISSING), timeout_ms=TIMEOUT_MS)
    yield Row("DeleteTopics", missing, 6)
    yield Row("DeleteTopics unknown id", request(topics=_identified(ids.unknown), timeout_ms=TIMEOUT_MS), 6)
    known = request(topics=_identified(ids.topic), timeout_ms=TIMEOUT_MS)
    yield Row("DeleteTopics known id", known, 6, only_refused=True)
    yield Row("DeleteTopics known", request(topics=_named(TOPIC), timeout_ms=TIMEOUT_MS), 6, only_refused=True)
    old = request(topic_names=(MISSING, OTHER_MISSING), timeout_ms=TIMEOUT_MS)
    yield Row("DeleteTopics v4", old, 4)


def _create_partitions(_: Ids) -> Iterator[Row]:
    topics = tuple(create_partitions.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES)
    request = create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=True)
    yield Row("CreatePartitions", request, 3)


def _metadata(ids: Ids) -> Iterator[Row]:
    request, topic = metadata.MetadataRequest, metadata.MetadataRequestTopic
    names = tuple(topic(name=name) for name in NAMES)
    keep = _topics_of_metadata
    yield Row("Metadata", request(topics=names, allow_auto_topic_creation=False, **_TOPIC_OPERATIONS), 13, keep)
    yield Row("Metadata v1", request(topics=(topic(name=TOPIC), topic(name=OTHER))), 1, keep)
    operations = request(
        topics=names, allow_auto_topic_creation=False, include_cluster_authorized_operations=True, **_TOPIC_OPERATIONS
    )
    yield Row("Metadata v9 operations", operations, 9, keep)
    identified = tuple(topic(name=None, topic_id=each) for each in (ids.topic, ids.unknown, ids.other))
    yield Row("Metadata ids", request(topics=identified, allow_auto_topic_creation=False), 13, keep)
    # It is not created even by those that may: a topic cannot have this name.
    created = request(topics=(topic(name=MISNAMED),), allow_auto_topic_creation=True)
    yield Row("Metadata creates", created, 12, keep)
    yield Row("Metadata all", request(topics=None, allow_auto_topic_creation=False), 13, naming("topics", "name"))


_TOPIC_OPERATIONS: Final = {"include_topic_authorized_operations": True}


def _topics_of_metadata(answer: Any) -> Any:
    """Brokers, controller and the places of partitions are others' business."""
    return counting("partitions")(leaving_out("brokers", "controller_id", "cluster_id")(answer))


def _describe_topic_partitions(_: Ids) -> Iterator[Row]:
    request, topic = describe_topic_partitions.DescribeTopicPartitionsRequest, describe_topic_partitions.TopicRequest
    named = request(topics=tuple(topic(name=name) for name in NAMES))
    yield Row("DescribeTopicPartitions", named, 0, counting("partitions"))
    yield Row("DescribeTopicPartitions all", request(topics=()), 0, naming("topics", "name"))


# --- replicas --------------------------------------------------------------------------------------------------------


def _list_offsets(_: Ids) -> Iterator[Row]:
    partitions = (list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2),)
    topics = tuple(list_offsets.ListOffsetsTopic(name=name, partitions=partitions) for name in NAMES)
    yield Row("ListOffsets", list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics), 11)


def _offset_for_leader_epoch(_: Ids) -> Iterator[Row]:
    partitions = (offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=5),)
    topics = tuple(offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=partitions) for name in NAMES)
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics)
    yield Row("OffsetForLeaderEpoch", request, 4)


def _delete_records(_: Ids) -> Iterator[Row]:
    partitions = (delete_records.DeleteRecordsPartition(partition_index=0, offset=0),)
    topics = tuple(delete_records.DeleteRecordsTopic(name=name, partitions=partitions) for name in NAMES)
    yield Row("DeleteRecords", delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 2)


def _describe_producers(_: Ids) -> Iterator[Row]:
    topics = tuple(describe_producers.TopicRequest(name=name, partition_indexes=(0,)) for name in NAMES)
    yield Row("DescribeProducers", describe_producers.DescribeProducersRequest(topics=topics), 0)


def _alter_replica_log_dirs(_: Ids) -> Iterator[Row]:
    topics = (alter_replica_log_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=(0,)),)
    nowhere = alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=topics)
    yield Row("AlterReplicaLogDirs", alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=(nowhere,)), 2)


def _describe_log_dirs(_: Ids) -> Iterator[Row]:
    topics = (describe_log_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=(0,)),)
    request = describe_log_dirs.DescribeLogDirsRequest(topics=topics)
    yield Row("DescribeLogDirs", request, 5, counting("results"))


def _elect_leaders(_: Ids) -> Iterator[Row]:
    topics = (elect_leaders.TopicPartitions(topic=TOPIC, partitions=(0,)),)
    yield Row("ElectLeaders", elect_leaders.ElectLeadersRequest(topic_partitions=topics, timeout_ms=TIMEOUT_MS), 2)


def _alter_partition_reassignments(_: Ids) -> Iterator[Row]:
    # Nothing is moved that could be ended.
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=None)
    topics = (alter_partition_reassignments.ReassignableTopic(name=TOPIC, partitions=(partition,)),)
    request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    yield Row("AlterPartitionReassignments", request, 1)


def _list_partition_reassignments(_: Ids) -> Iterator[Row]:
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS)
    yield Row("ListPartitionReassignments", request, 0)


# --- configs ---------------------------------------------------------------------------------------------------------

_RESOURCES: Final = ((2, TOPIC), (2, MISSING), (2, OTHER), (4, "1"), (32, GROUP))
"""Topics, a broker, and a group."""

_MORE_RESOURCES: Final = {"the defaults of brokers": (4, ""), "loggers": (8, "1"), "metrics": (16, "metrics")}
"""What else belongs to the cluster."""


def _describe_configs(_: Ids) -> Iterator[Row]:
    def request(*resources: tuple[int, str]) -> describe_configs.DescribeConfigsRequest:
        return describe_configs.DescribeConfigsRequest(
            resources=tuple(
                describe_configs.DescribeConfigsResource(
                    resource_type=number, resource_name=name, configuration_keys=("retention.ms",)
                )
                for number, name in resources
            )
        )

    yield Row("DescribeConfigs", request(*_RESOURCES), 4)
    for what, resource in _MORE_RESOURCES.items():
        yield Row(f"DescribeConfigs of {what}", request(resource), 4)


def _alter_configs(_: Ids) -> Iterator[Row]:
    kind = alter_configs.AlterConfigsResource
    resources = tuple(kind(resource_type=number, resource_name=name, configs=()) for number, name in _RESOURCES)
    request = alter_configs.AlterConfigsRequest(resources=resources, validate_only=True)
    yield Row("AlterConfigs", request, 2)


def _incremental_alter_configs(_: Ids) -> Iterator[Row]:
    kind = incremental_alter_configs.AlterConfigsResource

    def request(*resources: tuple[int, str]) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
        named = tuple(kind(resource_type=number, resource_name=name, configs=()) for number, name in resources)
        return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=named, validate_only=True)

    yield Row("IncrementalAlterConfigs", request(*_RESOURCES), 1)
    for what, resource in _MORE_RESOURCES.items():
        yield Row(f"IncrementalAlterConfigs of {what}", request(resource), 1)


def _list_config_resources(_: Ids) -> Iterator[Row]:
    request = list_config_resources.ListConfigResourcesRequest(resource_types=(2,))
    yield Row("ListConfigResources", request, 1)


# --- records ---------------------------------------------------------------------------------------------------------


def _fetch(ids: Ids) -> Iterator[Row]:
    wanted = (fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000),)

    def request(*named: tuple[UUID, str]) -> fetch.FetchRequest:
        topics = tuple(fetch.FetchTopic(topic=name, topic_id=each, partitions=wanted) for each, name in named)
        return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)

    keep = _fetched
    yield Row("Fetch v12", request(*((ZERO_UUID, name) for name in NAMES)), 12, keep)
    yield Row("Fetch", request(*((each, "") for each in (ids.topic, ids.unknown, ids.other))), 18, keep)


def _fetched(answer: Any) -> Any:
    """Beside an error Kafka's list of aborted transactions may be empty, and ours is null."""
    return counting("records")(leaving_out("aborted_transactions")(answer))


def _produce(ids: Ids) -> Iterator[Row]:
    def request(*named: tuple[UUID, str], transactional_id: str | None = None) -> produce.ProduceRequest:
        records = batch("x") if transactional_id is None else transactional(7, 0, "x")
        data = (produce.PartitionProduceData(index=0, records=records),)
        return produce.ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=tuple(
                produce.TopicProduceData(name=name, topic_id=each, partition_data=data) for each, name in named
            ),
        )

    keep = leaving_out("base_offset", "log_start_offset")
    yield Row("Produce v12", request(*((ZERO_UUID, name) for name in NAMES)), 12, keep)
    yield Row("Produce", request(*((each, "") for each in (ids.topic, ids.unknown, ids.other))), 13, keep)
    in_transaction = request((ZERO_UUID, TOPIC), transactional_id=TRANSACTION)
    yield Row("Produce v12 in a transaction", in_transaction, 12, keep, one_by_one=True)


RECORD_REQUESTS: Final = {"Fetch": _fetch, "Produce": _produce}
"""They change the ends of logs, and so they are sent last."""

TOPIC_REQUESTS: Final = {
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "CreatePartitions": _create_partitions,
    "Metadata": _metadata,
    "DescribeTopicPartitions": _describe_topic_partitions,
    "ListOffsets": _list_offsets,
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "DeleteRecords": _delete_records,
    "DescribeProducers": _describe_producers,
    "AlterReplicaLogDirs": _alter_replica_log_dirs,
    "DescribeLogDirs": _describe_log_dirs,
    "ElectLeaders": _elect_leaders,
    "AlterPartitionReassignments": _alter_partition_reassignments,
    "ListPartitionReassignments": _list_partition_reassignments,
    "DescribeConfigs": _describe_configs,
    "AlterConfigs": _alter_configs,
    "IncrementalAlterConfigs": _incremental_alter_configs,
    "ListConfigResources": _list_config_resources,
}
