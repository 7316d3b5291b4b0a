"""Loads go to a real node; here few records are sent."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from benchmarks import kafka_load
from benchmarks.kafka_load import MODULE, WARM_UP_RECORDS, LoadFailed, load_deadline_s, run_load
from benchmarks.loads import Load, produce_with
from benchmarks.servers import Server, node
from tests.support.kafka.single_requests import end_offsets

RECORDS = 1_000
NOBODY = "127.0.0.1:1"
"""An address where nothing listens."""


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[Server]:
    with node() as server:
        yield server


def test_a_load_that_fails_says_which_and_why() -> None:
    with pytest.raises(LoadFailed, match=r"(?s)consume localhost: the load failed: .*'topic'"):
        run_load(MODULE, "consume", "localhost", records=RECORDS)


def test_a_load_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_load, "DEADLINE_S", 0)
    with pytest.raises(LoadFailed, match=r"consume localhost: the load did not end within 0 s.* fewer records"):
        run_load(MODULE, "consume", "localhost", records=0)


def test_a_load_of_more_records_has_more_time() -> None:
    assert load_deadline_s(1_000) < load_deadline_s(1_000_000)
    assert load_deadline_s(1_000_000) == load_deadline_s(0) + 10_000


@pytest.mark.parametrize("records", [1_000, 201_000], ids=["in the queue", "more than the queue takes"])
def test_a_load_without_any_progress_ends(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    monkeypatch.setattr(kafka_load, "DEADLINE_S", 1)
    monkeypatch.setattr(kafka_load, "WARM_UP_RECORDS", records)
    with pytest.raises(SystemExit, match="records were not acknowledged: none for 1 s"):
        kafka_load.produce_here(NOBODY, "orders", 1, 65_536, acks=1, partition=0)


def test_a_load_on_a_partition_that_is_known_to_be_missing_fails(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.topics.make("one", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": server.address})
    producer.produce("one", b"x", partition=0)
    assert producer.flush(30) == 0
    monkeypatch.setattr(kafka_load, "DEADLINE_S", 1)
    with pytest.raises(SystemExit, match="only 0 of 10 records were taken"):
        kafka_load._send(producer, "one", 5, 10, [])


@pytest.mark.parametrize("load", Load)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_record_is_in_the_partition_and_counted_once(server: Server, load: Load, acks: int) -> None:
    topic = f"{load}-{acks}"
    server.topics.make(topic, 2)
    flow = produce_with(load)(server.address, topic, RECORDS, 65_536, acks, partition=1)
    assert end_offsets(server.address, topic, 2) == {0: 0, 1: flow.all_records}
    assert flow.records >= RECORDS
    assert flow.all_records - flow.records >= WARM_UP_RECORDS
    assert flow.load_us > 0
    assert flow.records_per_s > 0


def test_a_consumer_counts_every_record_once(server: Server) -> None:
    server.topics.make("read", 1)
    written = produce_with(Load.PREPARED)(server.address, "read", RECORDS, 65_536)
    read = kafka_load.consume(server.address, "read", written.all_records)
    assert read.all_records == written.all_records > read.records
    assert read.load_us > 0
