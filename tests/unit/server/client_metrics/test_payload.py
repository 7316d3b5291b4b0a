"""What is read of a push: numbers with their names and labels, within limits."""

from __future__ import annotations

import random

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kraft.model.errors import ErrorCode, Refusal
from kraft.server.client_metrics.payload import SERIES_MAX, STEPS_MAX, Payload, SeriesKey, read
from tests.support.client_pushes import AddMetric, gauge, pushed, total

BYTES_MAX = 1 << 20


def read_from(*metrics: AddMetric, **resource: str) -> Payload:
    return read(0, pushed(*metrics, **resource), BYTES_MAX)


def test_names_and_labels_become_those_of_prometheus() -> None:
    payload = read_from(gauge("org.apache.kafka.producer.record.send.rate", 2.5, topic="orders", node__id="1"))
    labels = (("node_id", "1"), ("topic", "orders"))
    assert payload.set == {SeriesKey("kafka_client_producer_record_send_rate", False, labels): 2.5}
    assert not payload.is_cut


def test_a_sum_that_only_grows_is_a_counter_and_deltas_are_added() -> None:
    payload = read_from(
        total("org.apache.kafka.producer.record.send.total", 5.0),
        total("org.apache.kafka.producer.record.send.total", 2.0),
        total("org.apache.kafka.consumer.polls", 7.0, delta=False),
        total("org.apache.kafka.producer.queue", -1.0, only_grows=False),
    )
    assert payload.added == {
        SeriesKey("kafka_client_producer_record_send_total", True, ()): 7.0,
        SeriesKey("kafka_client_producer_queue", False, ()): -1.0,
    }
    assert payload.set == {SeriesKey("kafka_client_consumer_polls_total", True, ()): 7.0}


def test_what_a_client_calls_itself_is_read_and_labels_of_the_node_are_not_the_clients() -> None:
    payload = read_from(gauge("other.client-metric", 1.0, client_id="forged", kind="up"), group_id="readers")
    assert payload.resource == {"group_id": "readers"}
    assert list(payload.set) == [SeriesKey("kafka_client_other_client_metric", False, (("kind", "up"),))]


@pytest.mark.parametrize(
    "metric",
    [
        gauge("", 1.0),
        gauge("n" * 201, 1.0),
        gauge("a", 1.0, **{"k" * 201: "v"}),
        gauge("a", 1.0, **{"9": "v"}),
        gauge("a", 1.0, topic="t" * 250),
        gauge("a", 1.0, **{f"key{number}": "v" for number in range(9)}),
        total("a", -1.0),
        total("a", float("inf")),
        lambda data: data.resource_metrics[0].scope_metrics[0].metrics.add().summary.data_points.add(),
        lambda data: data.resource_metrics[0].scope_metrics[0].metrics.add(name="a").gauge.data_points.add(),
    ],
)
def test_what_cannot_be_a_series_is_left_out_and_the_rest_is_read(metric: AddMetric) -> None:
    payload = read_from(metric, gauge("b", 1.0))
    assert payload.is_cut
    assert [key.name for key in (*payload.set, *payload.added)] == ["kafka_client_b"]


def test_an_average_of_nothing_has_no_value() -> None:
    payload = read_from(gauge("a.avg", float("nan")))
    assert str(payload.set[SeriesKey("kafka_client_a_avg", False, ())]) == "nan"


def test_the_series_of_a_push_are_limited() -> None:
    payload = read_from(*(gauge("a", 1.0, partition=str(number)) for number in range(SERIES_MAX + 1)))
    assert (len(payload.set), payload.is_cut) == (SERIES_MAX, True)


def test_not_all_of_a_million_data_points_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    monkeypatch.setattr("kraft.server.client_metrics.payload._Reading.take", lambda _, point: looked_at.append(point))
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add()
    for _ in range(STEPS_MAX + 1):
        metric.gauge.data_points.add()
    assert read(0, data.SerializeToString(), BYTES_MAX).is_cut
    assert len(looked_at) == STEPS_MAX


def test_any_bytes_are_read_or_refused() -> None:
    seed = random.randrange(1 << 30)
    source = random.Random(seed)
    valid = pushed(gauge("a", 1.0, topic="t"), total("b", 1.0), group_id="g")
    allowed = (ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.TELEMETRY_TOO_LARGE)
    for codec in range(5):
        for _ in range(200):
            data = bytearray(valid if source.random() < 0.5 else source.randbytes(source.randrange(100)))
            for _ in range(source.randrange(4)):
                if data:
                    data[source.randrange(len(data))] = source.randrange(256)
            assert _refusal_of(codec, bytes(data[: source.randrange(len(data) + 1)])) in allowed, seed


def _refusal_of(codec: int, data: bytes) -> ErrorCode:
    try:
        read(codec, data, BYTES_MAX)
    except Refusal as refusal:
        return refusal.error_code
    return ErrorCode.NONE
