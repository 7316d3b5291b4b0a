from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest

from kraft.metadata.acls import AclEntry
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicId
from kraft.model.transactions import CommitTransactionsRequest, PreparedTransaction
from kraft.server.access import group_guards, topic_guards, transaction_guards
from kraft.server.apis.serving import guard_of
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_TOPIC
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraft.wire.schema.describe_cluster import DescribeClusterRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.acl_entries import DENY, PREFIXED, entry
from tests.support.cluster_images import ORDERS, with_topic
from tests.unit.server.access.cases import CASES, ROWS
from tests.unit.server.access.group_cases import ALL_OFFSETS, consumer_group, offset_fetch_of
from tests.unit.server.access.needs import UNKNOWN_ID
from tests.unit.server.access.world import Handler, World, run

TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def on_group(name: str, operation: Operation) -> AclEntry:
    return entry(name, operation, resource_type=ResourceType.GROUP)


def on_cluster(operation: Operation) -> AclEntry:
    return entry("kafka-cluster", operation, resource_type=ResourceType.CLUSTER)


# --- topics ----------------------------------------------------------------------------------------------------------


def metadata_of(world: World, request: MetadataRequest, handler: Handler, *, creates: bool = True) -> MetadataResponse:
    guard = topic_guards.metadata(world.metadata, creates=creates)
    response: MetadataResponse = run(guard(world.asker(), request, handler))
    return response


def test_a_topic_that_one_may_not_describe_is_refused_as_one_that_does_not_exist() -> None:
    world, handler = World([entry("parcels", Operation.DESCRIBE)]), Handler("Metadata")
    topics = tuple(MetadataRequestTopic(name=name) for name in ("orders", "parcels", "nothing"))
    response = metadata_of(world, MetadataRequest(topics=topics), handler, creates=False)
    assert [(each.name, each.error_code, each.topic_id) for each in response.topics[1:]] == [
        ("orders", TOPIC_REFUSED, ZERO_UUID),
        ("nothing", TOPIC_REFUSED, ZERO_UUID),
    ]
    assert [each.name for each in handler.requests[0].topics] == ["parcels"]


def test_a_topic_id_that_one_may_not_describe_is_answered_without_the_name_and_an_unknown_one_by_the_handler() -> None:
    world, handler = World(), Handler("Metadata")
    topics = tuple(MetadataRequestTopic(name=None, topic_id=each) for each in (ORDERS, UNKNOWN_ID))
    response = metadata_of(world, MetadataRequest(topics=topics), handler)
    assert [(each.name, each.topic_id, each.error_code, each.error_message) for each in response.topics[1:]] == [
        (None, ORDERS, TOPIC_REFUSED, "")
    ]
    assert [each.topic_id for each in handler.requests[0].topics] == [UNKNOWN_ID]


def test_all_topics_are_those_that_one_may_describe_and_none_is_created_for_that() -> None:
    world, handler = World(), Handler("Metadata")
    response = metadata_of(world, MetadataRequest(topics=None), handler)
    assert handler.requests[0].topics == ()
    assert not handler.requests[0].allow_auto_topic_creation
    assert response.topics == ()
    world.change([entry("ord", Operation.READ, pattern_type=PREFIXED)])
    metadata_of(world, MetadataRequest(topics=None), handler)
    assert handler.requests[1].topics is None


@pytest.mark.parametrize("creates", [True, False])
def test_a_missing_topic_is_created_for_those_who_may_create_it(creates: bool) -> None:
    describe = entry("new", Operation.DESCRIBE)
    request = MetadataRequest(topics=(MetadataRequestTopic(name="new"), MetadataRequestTopic(name="orders")))
    for entries, is_let_through in (
        ([describe], not creates),
        ([describe, entry("new", Operation.CREATE)], True),
        ([describe, on_cluster(Operation.CREATE)], True),
        ([entry("new", Operation.CREATE)], False),
    ):
        handler = Handler("Metadata")
        response = metadata_of(
            World([*entries, entry("orders", Operation.DESCRIBE)]), request, handler, creates=creates
        )
        assert ("new" in [each.name for each in handler.requests[0].topics]) == is_let_through
        assert (TOPIC_REFUSED in [each.error_code for each in response.topics]) != is_let_through


@pytest.mark.parametrize(("topic", "is_created"), [("orders", False), ("new", True)])
def test_a_topic_that_is_deleted_meanwhile_is_not_created_again_without_the_right(topic: str, is_created: bool) -> None:
    handler = Handler("Metadata")
    entries = [entry("orders", Operation.DESCRIBE), entry("new", Operation.CREATE), entry("new", Operation.DESCRIBE)]
    metadata_of(World(entries), MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), handler)
    assert [each.name for each in handler.requests[0].topics] == [topic]
    assert handler.requests[0].allow_auto_topic_creation is is_created


def test_where_no_topic_is_to_be_created_a_missing_one_is_told_as_missing() -> None:
    handler = Handler("Metadata")
    request = MetadataRequest(topics=(MetadataRequestTopic(name="new"),), allow_auto_topic_creation=False)
    response = metadata_of(World([entry("new", Operation.DESCRIBE)]), request, handler)
    assert [each.name for each in handler.requests[0].topics] == ["new"]
    assert TOPIC_REFUSED not in [each.error_code for each in response.topics]


def test_operations_on_topics_and_on_the_cluster_are_those_of_the_client() -> None:
    world = World([entry("orders", Operation.READ)])
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="parcels")),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = metadata_of(world, request, Handler("Metadata"))
    bits = 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert [each.topic_authorized_operations for each in response.topics] == [bits, NOT_ASKED]
    assert response.cluster_authorized_operations == 0
    world.change([on_cluster(Operation.DESCRIBE), entry("orders", Operation.ALL)])
    response = metadata_of(world, request, Handler("Metadata"))
    assert [each.topic_authorized_operations for each in response.topics] == [ON_TOPIC, NOT_ASKED]
    assert response.cluster_authorized_operations == 1 << Operation.DESCRIBE


def test_the_cluster_is_described_to_anybody_with_the_operations_of_the_client() -> None:
    guard, handler = topic_guards.describe_cluster, Handler("<ApiKey.DESCRIBE_CLUSTER: 60>")
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = run(guard(World().asker(), asked, handler))
    assert response.cluster_authorized_operations == 0
    world = World([on_cluster(Operation.ALTER)])
    response = run(guard(world.asker(), asked, handler))
    assert response.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    response = run(guard(world.asker(), replace(asked, include_cluster_authorized_operations=False), handler))
    assert response.cluster_authorized_operations == NOT_ASKED


def test_a_topic_that_is_deleted_by_its_id_is_named_to_those_who_may_describe_it() -> None:
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState(topic_id=ORDERS), DeleteTopicState(topic_id=UNKNOWN_ID)), timeout_ms=1
    )
    for entries, name in (([], None), ([entry("orders", Operation.DESCRIBE)], "orders")):
        world, handler = World(entries), Handler("DeleteTopics")
        guard = topic_guards.delete_topics(world.metadata)
        response = run(guard(world.asker(), request, handler))
        assert [each.topic_id for each in handler.requests[0].topics] == [UNKNOWN_ID]
        (refused,) = response.responses[1:]
        assert (refused.name, refused.topic_id, refused.error_code) == (name, ORDERS, TOPIC_REFUSED)
        assert ("orders" in refused.error_message) == (name is not None)


def test_whoever_may_describe_a_name_is_told_that_there_is_no_such_topic_to_delete() -> None:
    """It is not left to the handler: the topic may be created meanwhile. As Kafka 4.3.1 answers."""
    named = (DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in ("missing", "orders"))
    request = DeleteTopicsRequest(topics=tuple(named), timeout_ms=1)
    for entries, of_missing in (
        ([], TOPIC_REFUSED),
        ([entry("*", Operation.DESCRIBE)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        world, handler = World(entries), Handler("DeleteTopics")
        response = run(topic_guards.delete_topics(world.metadata)(world.asker(), request, handler))
        assert handler.requests[0].topics == ()
        found = {each.name: each.error_code for each in response.responses}
        assert found == {"missing": of_missing, "orders": TOPIC_REFUSED}


def test_pages_of_topics_have_those_that_one_may_describe_and_end() -> None:
    world, handler = World([entry("b", Operation.DESCRIBE)]), Handler("DescribeTopicPartitions")
    guard = topic_guards.describe_topic_partitions(world.metadata)
    every = DescribeTopicPartitionsRequest(topics=())
    assert run(guard(world.asker(), every, handler)).topics == ()
    assert not handler.requests, "no topic would be every topic"
    named = replace(every, topics=tuple(TopicRequest(name=name) for name in "abc"))
    shown = run(guard(world.asker(), named, handler)).topics
    assert [(each.name, each.error_code) for each in shown] == [("b", 0), ("a", TOPIC_REFUSED), ("c", TOPIC_REFUSED)]
    assert shown[0].topic_authorized_operations == 1 << Operation.DESCRIBE
    later = replace(named, cursor=Cursor(topic_name="b", partition_index=0))
    shown = run(guard(world.asker(), later, handler)).topics
    assert [each.name for each in shown] == ["b", "c"]


def test_a_topic_that_is_named_twice_is_refused_once() -> None:
    world, handler = World(), Handler("CreateTopics")
    request: CreateTopicsRequest = CASES["CreateTopics"].request
    response = run(topic_guards.create_topics(world.asker(), replace(request, topics=request.topics * 2), handler))
    assert [(each.name, each.error_code) for each in response.topics] == [("orders", TOPIC_REFUSED)]


# --- groups ----------------------------------------------------------------------------------------------------------


def test_transactional_ids_have_coordinators_for_those_who_may_describe_them() -> None:
    handler = Handler("FindCoordinator")
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=("mine", "yours"))
    mine = entry("mine", Operation.DESCRIBE, resource_type=ResourceType.TRANSACTIONAL_ID)
    response = run(group_guards.find_coordinators(World([mine]).asker(), request, handler))
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [(each.key, each.error_code) for each in response.coordinators] == [("mine", 0), ("yours", code)]


def test_a_group_is_described_with_the_operations_of_the_client() -> None:
    handler = Handler("DescribeGroups")
    request = DescribeGroupsRequest(groups=("billing", "other"), include_authorized_operations=True)
    world = World([on_group("billing", Operation.DELETE)])
    response = run(group_guards.describe_groups(world.asker(), request, handler))
    bits = 1 << Operation.DELETE | 1 << Operation.DESCRIBE
    assert [(each.group_id, each.error_code, each.authorized_operations) for each in response.groups] == [
        ("billing", 0, bits),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, NOT_ASKED),
    ]


def test_a_group_with_a_hidden_topic_shows_no_member() -> None:
    handler = Handler("ConsumerGroupDescribe")
    request = CASES["ConsumerGroupDescribe"].request
    world = World([on_group("billing", Operation.DESCRIBE)])
    (group,) = run(group_guards.describe_consumer_groups(world.asker(), request, handler)).groups
    assert (group.error_code, group.members, group.group_state) == (TOPIC_REFUSED, (), "")
    world.change([on_group("billing", Operation.DESCRIBE), entry("orders", Operation.READ)])
    (group,) = run(group_guards.describe_consumer_groups(world.asker(), request, handler)).groups
    assert group == consumer_group("billing")


def test_all_offsets_of_a_group_are_those_of_topics_that_one_may_describe() -> None:
    world, handler = World([on_group("billing", Operation.READ)]), Handler("OffsetFetch")
    guard = group_guards.offset_fetch(world.metadata)
    (group,) = run(guard(world.asker(), offset_fetch_of(None), handler)).groups
    assert (group.topics, group.error_code) == ((), 0)
    (group,) = run(guard(world.asker(), offset_fetch_of(ALL_OFFSETS), handler)).groups
    assert [each.error_code for topic in group.topics for each in topic.partitions] == [TOPIC_REFUSED]
    by_id = tuple(replace(each, name="", topic_id=ORDERS) for each in ALL_OFFSETS)
    (group,) = run(guard(world.asker(), offset_fetch_of(by_id), handler)).groups
    assert [(topic.name, topic.topic_id) for topic in group.topics] == [("", ORDERS)]
    assert [each.error_code for topic in group.topics for each in topic.partitions] == [TOPIC_REFUSED]
    unknown = tuple(replace(each, name="", topic_id=UNKNOWN_ID) for each in ALL_OFFSETS)
    run(guard(world.asker(), offset_fetch_of(unknown), handler))
    assert handler.requests[-1].groups[0].topics == unknown, "the handler says that there is no such topic"


def test_the_name_of_a_topic_counts_and_not_the_id_beside_it() -> None:
    world, handler = (
        World([on_group("billing", Operation.READ), entry("orders", Operation.READ)]),
        Handler("OffsetFetch"),
    )
    named = tuple(replace(each, name="secret", topic_id=ORDERS) for each in ALL_OFFSETS)
    (group,) = run(group_guards.offset_fetch(world.metadata)(world.asker(), offset_fetch_of(named), handler)).groups
    assert [each.error_code for topic in group.topics for each in topic.partitions] == [TOPIC_REFUSED]
    assert handler.requests[0].groups[0].topics == ()


@pytest.mark.parametrize(
    ("api", "own_error"), [("OffsetCommit", True), ("TxnOffsetCommit", True), ("OffsetDelete", False)]
)
def test_hidden_topics_keep_their_error_when_the_coordinator_refuses_the_others(api: str, own_error: bool) -> None:
    """Unless the response has an error for the whole: then this says it. As Kafka 4.3.1 answers."""
    request = CASES[api].request
    (topic,) = request.topics
    request = replace(request, topics=(topic, replace(topic, name="secret")))
    world = World(
        [
            on_group("billing", Operation.ALL),
            entry("orders", Operation.READ),
            entry("payments", Operation.WRITE, resource_type=ResourceType.TRANSACTIONAL_ID),
        ]
    )

    async def refuse(_: Any) -> Any:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not here")

    side: Any = SimpleNamespace(image=world.metadata, askers=world.askers)
    guard = guard_of(ROWS[api], side)
    assert guard is not None
    if not own_error:
        with pytest.raises(Refusal, match="not here"):
            run(guard(world.asker(), request, refuse))
        return
    response = run(guard(world.asker(), request, refuse))
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {"orders": ErrorCode.COORDINATOR_NOT_AVAILABLE, "secret": TOPIC_REFUSED}


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "is_allowed"),
    [
        ([], False),
        ([on_cluster(Operation.IDEMPOTENT_WRITE)], True),
        ([entry("anything", Operation.WRITE)], True),
        ([entry("any", Operation.WRITE, pattern_type=PREFIXED)], True),
        ([entry("anything", Operation.READ)], False),
        ([entry("any", Operation.WRITE), entry("any", Operation.WRITE, DENY)], False),
        ([entry("anything", Operation.WRITE), entry("any", Operation.WRITE, DENY, pattern_type=PREFIXED)], False),
    ],
)
def test_an_idempotent_producer_may_write_the_cluster_or_any_topic(entries: list[AclEntry], is_allowed: bool) -> None:
    async def proceed(_: Any) -> str:
        return "made"

    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    guarded = transaction_guards.init_producer_id(World(entries).asker(), request, proceed)
    if is_allowed:
        assert run(guarded) == "made"
    else:
        with pytest.raises(Refusal) as refused:
            run(guarded)
        assert refused.value.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_partitions_are_added_to_a_transaction_all_or_none() -> None:
    write_id = entry("payments", Operation.WRITE, resource_type=ResourceType.TRANSACTIONAL_ID)
    world, handler = World([write_id, entry("orders", Operation.WRITE)]), Handler("EndTxn")
    topics = tuple(AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in ("orders", "secret"))
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="payments", v3_and_below_topics=topics)
    response = run(transaction_guards.add_partitions_to_txn(world.asker(), request, handler))
    codes = [each.results_by_partition[0].partition_error_code for each in response.results_by_topic_v3_and_below]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, TOPIC_REFUSED]
    assert not handler.requests


@pytest.mark.parametrize("allowed", [(), ("sequence",), ("first", "second"), ("sequence", "first")])
def test_transactions_are_committed_with_the_right_to_all_ids(allowed: tuple[str, ...]) -> None:
    ids = ("sequence", "first", "second")
    request = CommitTransactionsRequest(
        transactional_id=ids[0],
        sequence=1,
        transactions=tuple(PreparedTransaction(transactional_id=x, producer_id=1, producer_epoch=0) for x in ids[1:]),
    )
    handler = Handler("CommitTransactions")

    def committed(names: tuple[str, ...]) -> Any:
        entries = [entry(each, Operation.WRITE, resource_type=ResourceType.TRANSACTIONAL_ID) for each in names]
        return run(transaction_guards.commit_transactions(World(entries).asker(), request, handler))

    with pytest.raises(Refusal) as refused:
        committed(allowed)
    assert refused.value.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert not handler.requests
    committed(ids)
    assert handler.requests == [request]


@pytest.mark.parametrize("operation", [Operation.CLUSTER_ACTION, Operation.ALTER])
def test_the_version_of_brokers_needs_the_action_of_the_cluster(operation: Operation) -> None:
    asked = AddPartitionsToTxnTransaction(transactional_id="payments", producer_id=1, producer_epoch=0, topics=())
    request = AddPartitionsToTxnRequest(transactions=(asked,))
    handler = Handler("EndTxn")
    guarded = transaction_guards.add_partitions_to_txn(World([on_cluster(operation)]).asker(), request, handler)
    if operation is Operation.CLUSTER_ACTION:
        run(guarded)
        assert handler.requests == [request]
    else:
        with pytest.raises(Refusal) as refused:
            run(guarded)
        assert refused.value.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_so_many_visible_topics_are_described_at_a_time_that_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_guards, "ASKED_AT_ONCE", 1)
    world, handler = World([entry("a", Operation.DESCRIBE), entry("b", Operation.READ)]), Handler("Metadata")
    for number, name in enumerate("bca"):
        world.image = with_topic(world.image, [1], topic=name, topic_id=TopicId(UUID(int=300 + number)))
    response = metadata_of(world, MetadataRequest(topics=None), handler)
    assert [[each.name for each in request.topics] for request in handler.requests] == [[], ["a"], ["b"]]
    assert [each.name for each in response.topics] == ["a", "b"]
