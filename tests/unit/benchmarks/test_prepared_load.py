"""Batches that are prepared, and servers that do not take them. `test_kafka_load.py` has those that do."""

from __future__ import annotations

import pytest

from benchmarks.kafka_load import VALUE_BYTES, LoadFailed
from benchmarks.prepared_load import largest_batch, produce
from benchmarks.servers import node
from kraft.log.format.record_batch import check_crc, read_header
from tests.support.closing_server import closing_server


@pytest.mark.parametrize("batch_bytes", [2_000, 65_536, 1_000_000])
def test_a_batch_is_as_large_as_it_may_be_and_has_its_checksum(batch_bytes: int) -> None:
    batch, records = largest_batch(batch_bytes)
    header = read_header(batch)
    check_crc(header, batch)
    assert header.record_count == records
    assert header.producer_id == -1, "not idempotent"
    assert batch_bytes - 2 * VALUE_BYTES < len(batch) <= batch_bytes


def test_a_batch_has_one_record_at_least() -> None:
    batch, records = largest_batch(1)
    assert records == 1
    assert len(batch) > VALUE_BYTES


def test_a_batch_that_the_server_refuses_ends_the_load_with_one_line() -> None:
    with node() as server:
        server.topics.make("large", 1)
        with pytest.raises(LoadFailed, match=r"the load failed: the first request was refused: MESSAGE_TOO_LARGE$"):
            produce(server.address, "large", 1, batch_bytes=2_000_000)


def test_a_server_that_closes_the_connection_ends_the_load_with_one_line() -> None:
    closed = pytest.raises(LoadFailed, match=r"the load failed: (the broker closed the connection|.*reset by peer)$")
    with closing_server() as address, closed:
        produce(address, "orders", 1, batch_bytes=65_536)
