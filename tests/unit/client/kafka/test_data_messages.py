"""What Apache Kafka says otherwise than Kraft, in messages with records."""

from __future__ import annotations

import pytest

from kraft.client.kafka.data_messages import fetch_result
from kraft.log.format.record_batch import HEADER_BYTES, build_batch
from kraft.log.format.record_codec import Record
from kraft.model.fetch import FetchRequest
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData

WHOLE = build_batch([Record(0, 1_000, b"key", b"value")])


@pytest.mark.parametrize("left", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, len(WHOLE) - 1])
def test_a_last_batch_that_is_cut_off_is_left_for_the_next_fetch(left: int) -> None:
    """As a broker of Apache Kafka sends it where a limit of bytes is reached."""
    assert records_of(2 * WHOLE + WHOLE[:left]) == 2 * WHOLE


def test_what_is_no_batch_stays_for_those_who_tell_it() -> None:
    odd = WHOLE + bytes(HEADER_BYTES)
    assert records_of(odd) == odd


def records_of(sent: bytes) -> bytes:
    found = PartitionData(partition_index=0, error_code=0, high_watermark=9, aborted_transactions=(), records=sent)
    response = FetchResponse(responses=(FetchableTopicResponse(topic="orders", partitions=(found,)),))
    request = FetchRequest(request_id=1, max_wait_ms=1, min_bytes=1, max_bytes=1, partitions=[])
    (result,) = fetch_result(request, response).partitions
    return result.records
