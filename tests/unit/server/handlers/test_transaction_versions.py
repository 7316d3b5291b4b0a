from __future__ import annotations

import pytest

from kraft.coordinator.transactions.added_partitions import topics_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.server.apis.table import APIS
from kraft.server.handlers import transaction_versions as versions
from kraft.wire.api_keys import ApiKey
from kraft.wire.api_versions import advertised_versions
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

END = EndTxnRequest(transactional_id="payments", producer_id=7, producer_epoch=2, committed=True)
ADD = AddOffsetsToTxnRequest(transactional_id="payments", producer_id=7, producer_epoch=2, group_id="billing")
INIT = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
TOPICS = topics_of([TopicPartition("parcels", 1), TopicPartition("parcels", 0), TopicPartition("orders", 2)])
CODES = (ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE)


@pytest.mark.parametrize("version", list(advertised_versions(ApiKey.END_TXN)))
@pytest.mark.parametrize("code", CODES)
def test_old_clients_know_a_fenced_producer_by_its_epoch_when_they_end(version: int, code: ErrorCode) -> None:
    refused = versions.end_refused(END, Refusal(code, "no"))
    is_old = version < 2 and code is ErrorCode.PRODUCER_FENCED
    expected = EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code)
    assert versions.end_to_version(END, refused, version) == expected


@pytest.mark.parametrize("version", list(advertised_versions(ApiKey.INIT_PRODUCER_ID)))
@pytest.mark.parametrize("code", CODES)
def test_old_clients_know_a_fenced_producer_by_its_epoch_when_they_begin(version: int, code: ErrorCode) -> None:
    refused = versions.init_refused(INIT, Refusal(code, "no"))
    is_old = version < 4 and code is ErrorCode.PRODUCER_FENCED
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code
    assert versions.init_to_version(INIT, refused, version) == InitProducerIdResponse(
        error_code=expected, producer_epoch=-1
    )


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("code", CODES)
def test_old_clients_know_a_fenced_producer_by_its_epoch_when_they_write(version: int, code: ErrorCode) -> None:
    request = AddPartitionsToTxnRequest(v3_and_below_topics=TOPICS)
    response = versions.partitions_to_version(request, versions.partitions_refused(request, Refusal(code, "")), version)
    is_old = version < 2 and code is ErrorCode.PRODUCER_FENCED
    expected = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code
    assert [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ] == [("parcels", 1, expected), ("parcels", 0, expected), ("orders", 2, expected)]


@pytest.mark.parametrize("version", [4, 5])
def test_versions_of_brokers_are_refused_as_a_whole(version: int) -> None:
    refused = versions.partitions_refused(
        AddPartitionsToTxnRequest(), Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
    )
    assert versions.partitions_to_version(AddPartitionsToTxnRequest(), refused, version) == AddPartitionsToTxnResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


@pytest.mark.parametrize("version", list(advertised_versions(ApiKey.ADD_OFFSETS_TO_TXN)))
@pytest.mark.parametrize("code", CODES)
def test_old_clients_know_a_fenced_producer_by_its_epoch_when_they_add(version: int, code: ErrorCode) -> None:
    refused = versions.offsets_refused(ADD, Refusal(code, "no"))
    is_old = version < 2 and code is ErrorCode.PRODUCER_FENCED
    expected = AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code)
    assert versions.offsets_to_version(ADD, refused, version) == expected


def test_a_commit_of_what_the_coordinator_aborted_is_that_of_a_fenced_producer() -> None:
    """KAFKA-20785: Kafka Streams goes on with another producer, and ends at any other code."""
    refused = versions.end_refused(END, Refusal(ErrorCode.TRANSACTION_ABORTABLE, "it was aborted"))
    assert versions.end_to_version(END, refused, 5) == EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)


def test_what_was_carried_out_is_answered_as_it_is() -> None:
    ended = EndTxnResponse(error_code=ErrorCode.NONE, producer_id=7, producer_epoch=3)
    assert versions.end_to_version(END, ended, 5) is ended


@pytest.mark.parametrize(
    "key", [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN]
)
def test_the_responses_of_all_producers_depend_on_their_version(key: ApiKey) -> None:
    (row,) = (each for each in APIS if each.key is key)
    assert row.to_version is not None
