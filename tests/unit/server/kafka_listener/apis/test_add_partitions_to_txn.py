from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft.coordinator.transactions.commands import AddPartitions
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.server.kafka_listener.apis.add_partitions_to_txn import AddPartitionsToTxnApi
from kraft.wire.schema.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

VERSIONS = versions_of(AddPartitionsToTxnRequest)
OF_PRODUCERS, OF_BROKERS = VERSIONS[:4], VERSIONS[4:]
TOPICS = (
    AddPartitionsToTxnTopic(name="parcels", partitions=(1, 0)),
    AddPartitionsToTxnTopic(name="orders", partitions=(2,)),
)
PARTITIONS = [TopicPartition("parcels", 1), TopicPartition("parcels", 0), TopicPartition("orders", 2)]
OF_PRODUCER = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="payments",
    v3_and_below_producer_id=7,
    v3_and_below_producer_epoch=2,
    v3_and_below_topics=TOPICS,
)


async def not_asked(_: object) -> object:
    raise AssertionError("the request is of another kind")


def codes(topics: tuple[AddPartitionsToTxnTopicResult, ...]) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    ]


@pytest.mark.parametrize("version", OF_PRODUCERS)
async def test_a_producer_adds_partitions_and_each_has_its_code_in_order(version: int) -> None:
    added: list[AddPartitions] = []

    async def add(command: AddPartitions) -> Mapping[TopicPartition, ErrorCode]:
        added.append(command)
        unknown = {PARTITIONS[1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        return {**dict.fromkeys(PARTITIONS, ErrorCode.OPERATION_NOT_ATTEMPTED), **unknown}

    api = AddPartitionsToTxnApi(add)
    response = await answered(api, OF_PRODUCER, version, AddPartitionsToTxnResponse)
    assert codes(response.results_by_topic_v3_and_below) == [("parcels", 1, 55), ("parcels", 0, 3), ("orders", 2, 55)]
    assert added == [
        AddPartitions(
            transactional_id="payments",
            producer=ProducerIdAndEpoch(ProducerId(7), ProducerEpoch(2)),
            partitions=frozenset(PARTITIONS),
            client_version=0,
        )
    ]


@pytest.mark.parametrize("version", OF_PRODUCERS)
async def test_old_producers_know_a_fenced_one_by_its_epoch(version: int) -> None:
    async def add(_: AddPartitions) -> Mapping[TopicPartition, ErrorCode]:
        raise Refusal(ErrorCode.PRODUCER_FENCED, "no")

    api = AddPartitionsToTxnApi(add)
    response = await answered(api, OF_PRODUCER, version, AddPartitionsToTxnResponse)
    code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert {each[2] for each in codes(response.results_by_topic_v3_and_below)} == {code}


@pytest.mark.parametrize("version", OF_BROKERS)
async def test_versions_of_brokers_are_refused_and_nothing_is_added(version: int) -> None:
    request = AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id="payments", producer_id=7, producer_epoch=2, verify_only=verify_only, topics=TOPICS
            )
            for verify_only in (True, False)
        )
    )
    api = AddPartitionsToTxnApi(not_asked)  # type: ignore[arg-type]
    response = await answered(api, request, version, AddPartitionsToTxnResponse)
    assert response == AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
