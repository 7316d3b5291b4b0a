"""Refusals of transactional producers as Kafka's protocol has them, by the version of the request."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.transactions.added_partitions import partitions_of, results_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import replace
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PARTITIONS_FENCED_FROM: Final = 2
"""First version of AddPartitionsToTxn that has PRODUCER_FENCED."""

INIT_FENCED_FROM: Final = 4
"""First version of InitProducerId that has PRODUCER_FENCED."""

OFFSETS_FENCED_FROM: Final = 2
"""First version of AddOffsetsToTxn that has PRODUCER_FENCED."""

END_FENCED_FROM: Final = 2
"""First version of EndTxn that has PRODUCER_FENCED."""


def init_refused(_: InitProducerIdRequest, refusal: Refusal) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=refusal.error_code, producer_epoch=-1)


def init_to_version(_: InitProducerIdRequest, response: InitProducerIdResponse, version: int) -> InitProducerIdResponse:
    code = _known(response.error_code, version >= INIT_FENCED_FROM)
    return response if code == response.error_code else replace(response, error_code=code)


def partitions_refused(request: AddPartitionsToTxnRequest, refusal: Refusal) -> AddPartitionsToTxnResponse:
    """Return the code for each partition of a producer's request, and for a broker's as a whole."""
    topics, code = request.v3_and_below_topics, refusal.error_code
    results = results_of(topics, dict.fromkeys(partitions_of(topics), code))
    return AddPartitionsToTxnResponse(error_code=code, results_by_topic_v3_and_below=results)


def partitions_to_version(
    request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse, version: int
) -> AddPartitionsToTxnResponse:
    code = _known(response.error_code, version >= PARTITIONS_FENCED_FROM)
    return response if code == response.error_code else partitions_refused(request, Refusal(ErrorCode(code), ""))


def offsets_refused(_: AddOffsetsToTxnRequest, refusal: Refusal) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=refusal.error_code)


def offsets_to_version(
    _: AddOffsetsToTxnRequest, response: AddOffsetsToTxnResponse, version: int
) -> AddOffsetsToTxnResponse:
    code = _known(response.error_code, version >= OFFSETS_FENCED_FROM)
    return response if code == response.error_code else replace(response, error_code=code)


def end_refused(_: EndTxnRequest, refusal: Refusal) -> EndTxnResponse:
    return EndTxnResponse(error_code=refusal.error_code)


def end_to_version(_: EndTxnRequest, response: EndTxnResponse, version: int) -> EndTxnResponse:
    """Return the response with an error code that the client understands.

    After a transaction that the coordinator has aborted, Kafka Streams goes on with another producer if its own was
    fenced, and ends at every other error. (KAFKA-20785)
    """
    code = _known(response.error_code, version >= END_FENCED_FROM)
    if code == ErrorCode.TRANSACTION_ABORTABLE:
        code = ErrorCode.PRODUCER_FENCED
    return response if code == response.error_code else replace(response, error_code=code)


def _known(code: int, knows_producer_fenced: bool) -> int:
    """Return the code: older clients know a fenced producer only by INVALID_PRODUCER_EPOCH."""
    is_unknown = code == ErrorCode.PRODUCER_FENCED and not knows_producer_fenced
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else code
