"""Requests of the matrix of access about groups and transactions, by the names of the table of APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.wire.declaration import replace
from kraft.wire.schema import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    consumer_group_describe,
    delete_groups,
    describe_groups,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_groups,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
    write_txn_markers,
)
from tests.end_to_end.kafka.differences.access_clients import (
    MEMBERS,
    MISSING,
    NEW_TRANSACTION,
    NO_GROUP,
    OTHER,
    OTHER_GROUP,
    OTHER_MEMBERS,
    OTHER_TRANSACTION,
)
from tests.end_to_end.kafka.differences.access_rows import Ids, Row, counting, leaving_out, naming
from tests.end_to_end.kafka.differences.group_requests import consumer_heartbeat, heartbeat, join, leave, sync
from tests.end_to_end.kafka.differences.transaction_scenarios import Producer, add_partitions
from tests.unit.server.access.needs import GROUP, TOPIC, TRANSACTION

NAMES: Final = (TOPIC, MISSING, OTHER)

# --- groups ----------------------------------------------------------------------------------------------------------


def _find_coordinator(_: Ids) -> Iterator[Row]:
    request = find_coordinator.FindCoordinatorRequest
    yield Row("FindCoordinator", request(key_type=0, coordinator_keys=(GROUP, OTHER_GROUP)), 6)
    ids = (TRANSACTION, OTHER_TRANSACTION)
    yield Row("FindCoordinator of transactions", request(key_type=1, coordinator_keys=ids), 6)
    yield Row("FindCoordinator v3", request(key=GROUP, key_type=0), 3)
    yield Row("FindCoordinator v3 of a transaction", request(key=TRANSACTION, key_type=1), 3)


def _join_group(_: Ids) -> Iterator[Row]:
    yield Row("JoinGroup", join(GROUP, "nobody"), 9)
    yield Row("JoinGroup of another group", join(OTHER_GROUP, "nobody"), 9)


def _sync_group(_: Ids) -> Iterator[Row]:
    yield Row("SyncGroup", sync(GROUP, "nobody", kind="consumer", protocol="range"), 5)


def _heartbeat(_: Ids) -> Iterator[Row]:
    yield Row("Heartbeat", heartbeat(GROUP, "nobody"), 4)


def _leave_group(_: Ids) -> Iterator[Row]:
    yield Row("LeaveGroup", leave(GROUP, "nobody"), 5)
    yield Row("LeaveGroup v2", leave(GROUP, "nobody", version=2), 2)


def _consumer_group_heartbeat(_: Ids) -> Iterator[Row]:
    yield Row("ConsumerGroupHeartbeat", consumer_heartbeat(MEMBERS, "nobody", 1, topics=(TOPIC,)), 1)
    both = consumer_heartbeat(MEMBERS, "nobody", 1, topics=(TOPIC, OTHER))
    yield Row("ConsumerGroupHeartbeat for two topics", both, 1)
    matching = consumer_heartbeat(MEMBERS, "nobody", 1, subscribed_topic_regex="o.*")
    yield Row("ConsumerGroupHeartbeat for a pattern", matching, 1)


def _list_groups(_: Ids) -> Iterator[Row]:
    yield Row("ListGroups", list_groups.ListGroupsRequest(), 5, naming("groups", "group_id"))


def _describe_groups(_: Ids) -> Iterator[Row]:
    request = describe_groups.DescribeGroupsRequest
    groups = (GROUP, OTHER_GROUP)
    yield Row("DescribeGroups", request(groups=groups), 6)
    yield Row("DescribeGroups operations", request(groups=groups, include_authorized_operations=True), 6)


def _consumer_group_describe(_: Ids) -> Iterator[Row]:
    request = consumer_group_describe.ConsumerGroupDescribeRequest
    groups = (MEMBERS, OTHER_MEMBERS)
    keep = counting("members")
    yield Row("ConsumerGroupDescribe", request(group_ids=groups, include_authorized_operations=False), 1, keep)
    operations = request(group_ids=groups, include_authorized_operations=True)
    yield Row("ConsumerGroupDescribe operations", operations, 1, keep)


def _delete_groups(_: Ids) -> Iterator[Row]:
    request = delete_groups.DeleteGroupsRequest
    yield Row("DeleteGroups", request(groups_names=(NO_GROUP, "other-missing")), 2)
    yield Row("DeleteGroups known", request(groups_names=(GROUP,)), 2, only_refused=True)


# --- offsets ---------------------------------------------------------------------------------------------------------


def _offset_fetch(ids: Ids) -> Iterator[Row]:
    request, group, topic = (
        offset_fetch.OffsetFetchRequest,
        offset_fetch.OffsetFetchRequestGroup,
        offset_fetch.OffsetFetchRequestTopics,
    )
    named = tuple(topic(name=name, partition_indexes=(0,)) for name in NAMES)
    groups = (group(group_id=GROUP, topics=named), group(group_id=OTHER_GROUP, topics=named[:1]))
    yield Row("OffsetFetch v9", request(groups=groups, require_stable=False), 9)
    identified = tuple(topic(topic_id=each, partition_indexes=(0,)) for each in (ids.topic, ids.unknown, ids.other))
    by_id = group(group_id=GROUP, topics=identified)
    yield Row("OffsetFetch", request(groups=(by_id,), require_stable=False), 10)
    every = (group(group_id=GROUP, topics=None),)
    yield Row("OffsetFetch v9 all topics", request(groups=every, require_stable=False), 9)
    old = tuple(offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in NAMES)
    yield Row("OffsetFetch v7", request(group_id=GROUP, topics=old, require_stable=False), 7)


def _offset_commit(ids: Ids) -> Iterator[Row]:
    topic = offset_commit.OffsetCommitRequestTopic
    at = (offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=""),)

    def request(*topics: offset_commit.OffsetCommitRequestTopic) -> offset_commit.OffsetCommitRequest:
        return offset_commit.OffsetCommitRequest(group_id=GROUP, member_id="", topics=topics)

    named = request(*(topic(name=name, partitions=at) for name in NAMES))
    yield Row("OffsetCommit v9", named, 9)
    yield Row("OffsetCommit v9 of a stranger", replace(named, member_id="nobody"), 9)
    identified = (topic(topic_id=each, partitions=at) for each in (ids.topic, ids.unknown, ids.other))
    yield Row("OffsetCommit", request(*identified), 10)


def _offset_delete(_: Ids) -> Iterator[Row]:
    partitions = (offset_delete.OffsetDeleteRequestPartition(partition_index=0),)
    topics = tuple(offset_delete.OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in NAMES)
    yield Row("OffsetDelete", offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
    yield Row("OffsetDelete of no group", offset_delete.OffsetDeleteRequest(group_id=NO_GROUP, topics=topics), 0)


def _txn_offset_commit(_: Ids) -> Iterator[Row]:
    at = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = tuple(
        txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=(at,)) for name in (TOPIC, OTHER)
    )
    request = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TRANSACTION, group_id=GROUP, producer_id=7, producer_epoch=0, topics=topics
    )
    yield Row("TxnOffsetCommit", request, 5, one_by_one=True)
    yield Row("TxnOffsetCommit v3", request, 3, one_by_one=True)


# --- transactions ----------------------------------------------------------------------------------------------------


def _init_producer_id(_: Ids) -> Iterator[Row]:
    request = init_producer_id.InitProducerIdRequest
    keep = leaving_out("producer_id", "producer_epoch")
    yield Row("InitProducerId", request(transactional_id=None, transaction_timeout_ms=1_000), 5, keep)
    of_id = request(transactional_id=NEW_TRANSACTION, transaction_timeout_ms=1_000)
    yield Row("InitProducerId of a transactional id", of_id, 5, keep, one_by_one=True)


def _add_partitions_to_txn(_: Ids) -> Iterator[Row]:
    request = add_partitions_to_txn.AddPartitionsToTxnRequest
    topics = tuple(add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in (TOPIC, OTHER))
    yield Row("AddPartitionsToTxn v3", add_partitions(TRANSACTION, _STRANGER, **{TOPIC: (0,), OTHER: (0,)}), 3)
    yield Row("AddPartitionsToTxn v3 of one topic", add_partitions(TRANSACTION, _STRANGER, **{TOPIC: (0,)}), 3)
    of_broker = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTION, producer_id=7, producer_epoch=0, verify_only=True, topics=topics
    )
    yield Row("AddPartitionsToTxn", request(transactions=(of_broker,)), 5)


_STRANGER: Final = Producer(7, 0)


def _add_offsets_to_txn(_: Ids) -> Iterator[Row]:
    request = add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=TRANSACTION, producer_id=7, producer_epoch=0, group_id=GROUP
    )
    yield Row("AddOffsetsToTxn", request, 4)


def _end_txn(_: Ids) -> Iterator[Row]:
    request = end_txn.EndTxnRequest(transactional_id=TRANSACTION, producer_id=7, producer_epoch=0, committed=True)
    yield Row("EndTxn", request, 5, leaving_out("producer_id", "producer_epoch"))


def _write_txn_markers(_: Ids) -> Iterator[Row]:
    topics = (write_txn_markers.WritableTxnMarkerTopic(name=MISSING, partition_indexes=(0,)),)
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=7, producer_epoch=0, transaction_result=False, topics=topics, coordinator_epoch=0
    )
    yield Row("WriteTxnMarkers", write_txn_markers.WriteTxnMarkersRequest(markers=(marker,)), 2)


def _describe_transactions(_: Ids) -> Iterator[Row]:
    ids = (TRANSACTION, OTHER_TRANSACTION)
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=ids)
    yield Row("DescribeTransactions", request, 0, leaving_out("producer_id", "transaction_start_time_ms"))


def _list_transactions(_: Ids) -> Iterator[Row]:
    request = list_transactions.ListTransactionsRequest(
        state_filters=("Ongoing", "Empty"), producer_id_filters=(), duration_filter=-1
    )
    yield Row("ListTransactions", request, 2, naming("transaction_states", "transactional_id"))


GROUP_REQUESTS: Final = {
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "SyncGroup": _sync_group,
    "Heartbeat": _heartbeat,
    "LeaveGroup": _leave_group,
    "ConsumerGroupHeartbeat": _consumer_group_heartbeat,
    "ListGroups": _list_groups,
    "DescribeGroups": _describe_groups,
    "ConsumerGroupDescribe": _consumer_group_describe,
    "DeleteGroups": _delete_groups,
    "OffsetFetch": _offset_fetch,
    "OffsetCommit": _offset_commit,
    "OffsetDelete": _offset_delete,
    "TxnOffsetCommit": _txn_offset_commit,
    "DescribeTransactions": _describe_transactions,
    "ListTransactions": _list_transactions,
    "InitProducerId": _init_producer_id,
    "<ApiKey.ADD_PARTITIONS_TO_TXN: 24>": _add_partitions_to_txn,
    "<ApiKey.ADD_OFFSETS_TO_TXN: 25>": _add_offsets_to_txn,
    "EndTxn": _end_txn,
    "WriteTxnMarkers": _write_txn_markers,
}
