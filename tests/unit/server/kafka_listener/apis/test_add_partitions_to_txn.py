from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft.coordinator.transactions.commands import AddPartitions
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model import transaction_partitions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.model.partitions import PartitionName
from kraft.server.kafka_listener.apis import add_partitions_to_txn
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

    api = AddPartitionsToTxnApi(add, not_asked)  # type: ignore[arg-type]
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

    api = AddPartitionsToTxnApi(add, not_asked)  # type: ignore[arg-type]
    response = await answered(api, OF_PRODUCER, version, AddPartitionsToTxnResponse)
    code = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert {each[2] for each in codes(response.results_by_topic_v3_and_below)} == {code}


async def test_a_large_request_is_answered_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions_to_txn, "TRANSACTIONS_AT_ONCE", 2)
    sizes: list[int] = []

    async def verify(request: values.AddPartitionsToTxnRequest) -> values.AddPartitionsToTxnResponse:
        sizes.append(len(request.transactions))
        return values.AddPartitionsToTxnResponse(
            transactions=tuple(
                values.VerifiedTransaction(error_code=list(ErrorCode)[each.producer_id], error_message="no")
                for each in request.transactions
            )
        )

    request = AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(transactional_id=f"{each}", producer_id=each, producer_epoch=0, topics=TOPICS)
            for each in range(2, 7)
        )
    )
    api = AddPartitionsToTxnApi(not_asked, verify)  # type: ignore[arg-type]
    response = await answered(api, request, 4, AddPartitionsToTxnResponse)
    assert sizes == [2, 2, 1]
    found = [(each.transactional_id, codes(each.topic_results)[0][2]) for each in response.results_by_transaction]
    assert found == [(f"{each}", list(ErrorCode)[each]) for each in range(2, 7)]


@pytest.mark.parametrize("version", OF_BROKERS)
async def test_a_broker_asks_for_many_transactions_and_each_has_its_answer(version: int) -> None:
    asked: list[values.AddPartitionsToTxnRequest] = []

    async def verify(request: values.AddPartitionsToTxnRequest) -> values.AddPartitionsToTxnResponse:
        asked.append(request)
        refused = values.VerifiedTransaction(error_code=ErrorCode.PRODUCER_FENCED, error_message="no")
        found = (ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE)
        return values.AddPartitionsToTxnResponse(
            transactions=(values.VerifiedTransaction(partition_error_codes=found), refused)
        )

    request = AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=each, producer_id=7, producer_epoch=2, verify_only=each == "payments", topics=TOPICS
            )
            for each in ("payments", "refunds")
        )
    )
    api = AddPartitionsToTxnApi(not_asked, verify)  # type: ignore[arg-type]
    response = await answered(api, request, version, AddPartitionsToTxnResponse)
    assert response.error_code == 0
    first, second = response.results_by_transaction
    assert (first.transactional_id, second.transactional_id) == ("payments", "refunds")
    assert codes(first.topic_results) == [("parcels", 1, 0), ("parcels", 0, 120), ("orders", 2, 0)]
    assert [each[2] for each in codes(second.topic_results)] == [ErrorCode.PRODUCER_FENCED] * 3
    names = tuple(PartitionName(topic=each.topic, partition=each.partition) for each in PARTITIONS)
    assert asked[0].transactions == tuple(
        values.TransactionToVerify(
            transactional_id=each,
            producer_id=7,
            producer_epoch=2,
            verify_only=each == "payments",
            partitions=names,
        )
        for each in ("payments", "refunds")
    )
